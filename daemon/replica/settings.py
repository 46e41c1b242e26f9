"""Settings of bootstraps and other loads of tables (section ``bootstrap``)."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from daemon.config.section import ConfigSection, Section


class BootstrapConfig(Section):
    """Loads of whole tables: bootstraps, returning tables and repairs."""

    open_transaction_timeout_s: float = Field(
        default=3600,
        ge=0,
        description="How long the load of a table waits for transactions of the source that wrote into it and are still open.",
    )
    abort_open_transactions: bool = Field(
        default=False,
        description="Whether these transactions are aborted at the source after that time. If not, the load fails with "
        "transactions-open, which names them, and is repeated.",
    )
    tables_at_once: int = Field(
        default=4, ge=1, le=64, description="Tables that a bootstrap loads at the same time."
    )


BOOTSTRAP: Final[ConfigSection[BootstrapConfig]] = ConfigSection(
    "bootstrap",
    BootstrapConfig,
    Field(default=BootstrapConfig(), description="Loading of tables that already have rows."),
)
