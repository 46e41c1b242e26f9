"""Tools, reports and results of a table's load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Protocol

from annotated_types import Interval

from state.errors import Interrupted


if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from handlers.files.copying.jobs import CopyJobs
    from handlers.files.copying.pool import CopyPool
    from handlers.files.filesystems import FileSystems
    from handlers.metastore.client import Metastore
    from handlers.replication.policy.policy import Policy


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """How to load tables: the section ``bootstrap`` of the configuration."""

    open_transaction_timeout_s: Annotated[float, Interval(ge=0)] = 3600
    """How long the load of a table waits for transactions of the source that wrote into it and are still
    open."""
    abort_open_transactions: bool = False
    """Whether to abort these transactions at the source after that time. If not, the load fails with
    transactions-open, which names them, and starts again."""
    poll_s: float = 1.0
    """How often to check them."""
    tables_at_once: Annotated[int, Interval(ge=1, le=64)] = 4
    """Tables that a bootstrap loads at the same time."""


class LoadProgress(Protocol):
    """Receives the progress of loads. Implementations are thread-safe and never raise."""

    def waiting(self, table: str, txn_ids: Sequence[int]) -> None:
        """The load of ``table`` waits for these transactions of the source; empty once it waits for none."""

    def listed(self, table: str, files: int, size_bytes: int) -> None:
        """The listing at the source found ``files`` more files of ``table``."""

    def copied(self, table: str, files: int, size_bytes: int) -> None:
        """``files`` more files of ``table`` are on the target, verified."""

    def restarted(self, table: str, reason: str) -> None:
        """``table`` changed at the source, so its load starts again as of a later event."""


class SilentProgress:
    """A receiver that ignores everything."""

    def waiting(self, table: str, txn_ids: Sequence[int]) -> None:
        """Do nothing."""

    def listed(self, table: str, files: int, size_bytes: int) -> None:
        """Do nothing."""

    def copied(self, table: str, files: int, size_bytes: int) -> None:
        """Do nothing."""

    def restarted(self, table: str, reason: str) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class LoadTools:
    """The collaborators of loads in one thread: both metastores are clients of this thread alone."""

    policy: Policy
    source: Metastore
    target: Metastore
    files: FileSystems
    copies: CopyPool
    settings: LoadSettings
    stopping: threading.Event
    """Set when the load must end soon."""
    beat: Callable[[], None]
    """Called after each step; bytes of copies and metastore calls report their own progress."""
    jobs: CopyJobs | None = None
    """Copies of many files outside of this process; None if ``copies`` makes all."""

    def step(self) -> None:
        """Report progress; raise Interrupted if the load must end."""
        if self.stopping.is_set():
            raise Interrupted("the load was stopped", policy=self.policy.name)
        self.beat()
