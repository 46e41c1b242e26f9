"""What replay tells the outside about itself, without knowing how it is measured or shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from handlers.replication.quarantine import Quarantine
from handlers.replication.table_cache import TableCache
from handlers.replication.target_position import TargetPosition
from state.transactions.write_id_mapping import WriteIdMapping


if TYPE_CHECKING:
    from handlers.files.filesystems import FileSystems
    from handlers.files.pool import CopyPool
    from handlers.metastore.client import Metastore
    from handlers.replication.policy import Policy
    from state.errors import TidelineError


class Observer(Protocol):
    """Receives counts and durations; implementations are thread-safe and never raise."""

    def event_applied(self, kind: str, seconds: float) -> None:
        """An event in scope took effect on the target in ``seconds``."""

    def event_skipped(self, kind: str, reason: str) -> None:
        """An event had no effect: ``out-of-scope``, ``merged``, ``quarantined``, ``on-target`` or ``nothing-to-do``."""

    def table_quarantined(self, table: str, code: str) -> None:
        """A table is not followed any more."""

    def transaction_without_files(self, txn_id: int) -> None:
        """A transaction that had write ids committed without a single write event: a silent writer, or dml.events is off."""


class SilentObserver:
    """An observer that does not look."""

    def event_applied(self, kind: str, seconds: float) -> None:
        """Ignore it."""

    def event_skipped(self, kind: str, reason: str) -> None:
        """Ignore it."""

    def table_quarantined(self, table: str, code: str) -> None:
        """Ignore it."""

    def transaction_without_files(self, txn_id: int) -> None:
        """Ignore it."""


QUARANTINED: Final = "quarantined"
SKIPPED: Final = "failed"


@dataclass(frozen=True, slots=True)
class Context:
    """The collaborators of one policy's replay; used by one thread."""

    policy: Policy
    source: Metastore
    target: Metastore
    table_cache: TableCache
    target_position: TargetPosition
    write_ids: WriteIdMapping
    quarantine: Quarantine
    copies: CopyPool
    files: FileSystems
    observer: Observer

    @staticmethod
    def between(
        source: Metastore,
        target: Metastore,
        policy: Policy,
        *,
        copies: CopyPool,
        files: FileSystems,
        observer: Observer,
    ) -> Context:
        """Return what replay of ``policy`` works with, nothing seen and nothing remembered yet."""
        return Context(
            policy=policy,
            source=source,
            target=target,
            table_cache=TableCache(target, policy),
            target_position=TargetPosition(target, policy),
            write_ids=WriteIdMapping(),
            quarantine=Quarantine(),
            copies=copies,
            files=files,
            observer=observer,
        )

    def in_scope(self, db: str | None, table: str | None) -> bool:
        """Whether the table is replicated and not confined."""
        return self.policy.covers(db, table) and table not in self.quarantine

    def handle_failure(self, table: str, event_id: int, error: TidelineError) -> str:
        """Do what the policy says about a permanent failure of one table; return the reason why the event had no effect.

        Raises ``error`` where the policy is to stop.
        """
        match self.policy.on_failure:
            case "fail":
                raise error
            case "skip":
                return SKIPPED
            case "quarantine":
                self.quarantine.add(table, event_id, error)
                self.observer.table_quarantined(f"{self.policy.source_db}.{table}", error.code)
                return QUARANTINED

    def valid_up_to(self, table: str, write_id: int) -> str:
        """Return the write-id list that Hive's own REPL LOAD sends with an event: everything up to its write id (§6)."""
        return f"{self.policy.target_db}.{table}:{write_id}:{2**63 - 1}::"
