"""What every part of replay works with: the policy, both metastores, what was seen of the target, and the copies."""

from __future__ import annotations

from dataclasses import dataclass

from handlers.files import CopyPool, FileSystems
from handlers.metastore import Metastore
from handlers.replication.lastid import LastId
from handlers.replication.observer import Observer
from handlers.replication.policy import Policy
from handlers.replication.quarantine import Quarantine
from handlers.replication.tables_seen import TablesSeen
from state.transactions import TxnLedger


@dataclass(frozen=True, slots=True)
class Context:
    """The collaborators of one policy's replay; used by one thread."""

    policy: Policy
    source: Metastore
    target: Metastore
    seen: TablesSeen
    last_id: LastId
    ledger: TxnLedger
    quarantine: Quarantine
    copies: CopyPool
    files: FileSystems
    observer: Observer

    def in_scope(self, db: str | None, table: str | None) -> bool:
        """Whether the table is replicated and not confined."""
        return self.policy.covers(db, table) and table not in self.quarantine

    def valid_up_to(self, table: str, write_id: int) -> str:
        """Return the write-id list that Hive's own REPL LOAD sends with an event: everything up to its write id (§6)."""
        return f"{self.policy.target_db}.{table}:{write_id}:{2**63 - 1}::"
