"""What every part of replay works with: the policy, both metastores, what was seen of the target, and the copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from handlers.replication.lastid import LastId
from handlers.replication.quarantine import Quarantine
from handlers.replication.tables_seen import TablesSeen
from state.transactions.write_id_mapping import WriteIdMapping


if TYPE_CHECKING:
    from handlers.files.filesystems import FileSystems
    from handlers.files.pool import CopyPool
    from handlers.metastore.client import Metastore
    from handlers.replication.observer import Observer
    from handlers.replication.policy import Policy
    from state.errors import TidelineError


CONFINED: Final = "quarantined"
LEFT_OUT: Final = "failed"


@dataclass(frozen=True, slots=True)
class Context:
    """The collaborators of one policy's replay; used by one thread."""

    policy: Policy
    source: Metastore
    target: Metastore
    seen: TablesSeen
    last_id: LastId
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
            seen=TablesSeen(target, policy),
            last_id=LastId(target, policy),
            write_ids=WriteIdMapping(),
            quarantine=Quarantine(),
            copies=copies,
            files=files,
            observer=observer,
        )

    def in_scope(self, db: str | None, table: str | None) -> bool:
        """Whether the table is replicated and not confined."""
        return self.policy.covers(db, table) and table not in self.quarantine

    def failed(self, table: str, event_id: int, error: TidelineError) -> str:
        """Do what the policy says about a permanent failure of one table; return the reason why the event had no effect.

        Raises ``error`` where the policy is to stop.
        """
        match self.policy.on_failure:
            case "fail":
                raise error
            case "skip":
                return LEFT_OUT
            case "quarantine":
                self.quarantine.confine(table, event_id, error)
                self.observer.table_quarantined(f"{self.policy.source_db}.{table}", error.code)
                return CONFINED

    def valid_up_to(self, table: str, write_id: int) -> str:
        """Return the write-id list that Hive's own REPL LOAD sends with an event: everything up to its write id (§6)."""
        return f"{self.policy.target_db}.{table}:{write_id}:{2**63 - 1}::"
