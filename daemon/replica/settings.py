"""Settings of bootstraps and other loads of tables (section ``bootstrap``)."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from daemon.config.section import ConfigSection, Section, setting
from handlers.replication.loading.table.tools import LoadSettings


class BootstrapConfig(Section):
    """Loads of whole tables: bootstraps, returning tables and repairs."""

    open_transaction_timeout_s: float = setting(LoadSettings, "open_transaction_timeout_s")
    abort_open_transactions: bool = setting(LoadSettings, "abort_open_transactions")
    tables_at_once: int = setting(LoadSettings, "tables_at_once")
    policies_at_once: int = Field(
        default=4,
        ge=1,
        le=64,
        description="Policies to bootstrap at the same time. The others wait.",
    )


BOOTSTRAP: Final[ConfigSection[BootstrapConfig]] = ConfigSection(
    "bootstrap",
    BootstrapConfig,
    Field(default=BootstrapConfig(), description="Loading of tables that already have rows."),
)
