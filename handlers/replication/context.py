"""The collaborators of every part of replay: the policy, both metastores, copies, caches and an observer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from handlers.files.copying.copies import Copier
from handlers.files.copying.jobs import CopyJobs
from handlers.files.copying.pool import CopyPool
from handlers.files.filesystems import FileSystems
from handlers.metastore.client import Metastore
from handlers.replication.observer import Observer
from handlers.replication.policy.policy import Policy
from handlers.replication.tables.policy_tables import PolicyTables
from handlers.replication.tables.quarantine import QuarantinedTable
from handlers.replication.target.external_tables import ExternalTables
from handlers.replication.target.idle_turns import IdleWork
from handlers.replication.target.long_work import LongWork
from handlers.replication.target.table_cache import TableCache
from handlers.replication.target.target_position import TargetPosition
from handlers.shared_threads import SharedThreads
from state.errors import Fenced, TidelineError
from state.transactions.resumption import describe_stop
from state.transactions.valid_write_ids import ValidWriteIds


LANES: Final = 3
"""Lanes (``lanes``) that work for one policy at a time. More would gain little, because the target's
metastore serializes the end of every change to number the events of its own log.
"""
THREADS_MAX: Final = 6
"""Threads for the work ahead of all policies of a target: lanes, and early openings of transactions."""


def start_threads() -> SharedThreads:
    """Return the threads for the work ahead of a target's policies; none runs before the first work."""
    return SharedThreads(THREADS_MAX, name="tideline-ahead")


QUARANTINED: Final = "quarantined"
SKIPPED: Final = "failed"
"""Reasons why an event had no effect: its table is, or just was, quarantined; or it failed and the policy
skips failures."""


@dataclass(frozen=True, slots=True)
class Context:
    """The collaborators of the replay of one policy; used by one thread."""

    policy: Policy
    source: Metastore
    target: Metastore
    table_cache: TableCache
    target_position: TargetPosition
    tables: PolicyTables
    copies: CopyPool
    files: FileSystems
    observer: Observer
    external: ExternalTables = field(default_factory=ExternalTables)
    jobs: CopyJobs | None = None
    """Copies of many files outside of this process; None if ``copies`` makes all."""
    lanes: int = LANES
    """How many changes may run ahead of their turn at a time; 0 for none."""
    overlaps: bool = True
    """Whether replay may join events of a batch or apply them ahead of their turn. If False, it applies each
    at its turn, with the same result.
    """
    threads: SharedThreads = field(default_factory=start_threads)
    """For work ahead; the policies of a target share them."""
    idle: IdleWork = field(default_factory=IdleWork)
    """Due tasks of the policy in quiet times; the policies of a target take turns."""
    long_work: LongWork = field(default_factory=LongWork)
    """Limits how many loads and cycles run at a time, over all policies of a target."""

    @staticmethod
    def between(
        source: Metastore,
        target_position: TargetPosition,
        policy: Policy,
        *,
        copies: CopyPool,
        files: FileSystems,
        observer: Observer,
        jobs: CopyJobs | None = None,
    ) -> Context:
        """Return the context of ``policy`` between both metastores, with empty caches and state.

        Every write to the target needs the claim of its database: guard ``copies`` by
        ``target_position.require_held``.
        """
        target = target_position.open_client()
        table_cache = TableCache(target, policy)
        return Context(
            policy=policy,
            source=source,
            target=target,
            table_cache=table_cache,
            target_position=target_position,
            tables=PolicyTables(policy.source_db, table_cache),
            copies=copies,
            files=files,
            observer=observer,
            jobs=jobs,
        )

    def build_copier(self) -> Copier:
        """Return a copier for threads other than ``copies``; its writes need the claim as well."""
        return Copier(self.files, self.copies.allowed, guard=self.target_position.require_held)

    def in_scope(self, db: str | None, table: str | None) -> bool:
        """Whether the policy replicates the table now: not quarantined, not waiting for its load, and not of
        a kind without replication.
        """
        return (
            self.policy.covers(db, table)
            and table not in self.tables.unreplicated
            and table not in self.tables.quarantine
            and not self.tables.loads.is_waiting(table)
        )

    def handle_failure(self, table: str, event_id: int, error: TidelineError) -> str:
        """Handle a permanent failure of one table as the policy requires;
        return the reason why the event had no effect.

        Raises ``error`` if the policy must stop, and TooManyFailures if too many tables failed in a short
        time. Fenced is not a failure of a table, and always stops the policy.
        """
        if isinstance(error, Fenced):
            raise error
        match self.policy.on_failure:
            case "fail":
                raise error
            case "skip":
                return SKIPPED
            case "quarantine":
                entry = self.tables.quarantine.add(table, event_id, error)
                if entry is not None:
                    self.tables.quarantine.put(self._describe_stop(entry))
                    self.observer.table_quarantined(self.policy.source_db, entry)
                return QUARANTINED

    def _describe_stop(self, entry: QuarantinedTable) -> QuarantinedTable:
        """Return the entry with the facts that a release needs to resume the table at its stop."""
        load = self.tables.loads.get(entry.table)
        loaded = 0 if load is None else load.write_id
        name = f"{self.policy.source_db}.{entry.table}"
        return entry.with_stop(describe_stop(entry.table, self.tables.write_ids, name, loaded), loaded)

    def valid_up_to(self, table: str, write_id: int | None) -> str | None:
        """Return the write-id list of an event's transaction: everything up to its write id, except the ids
        open at its allocation.

        Hive's own REPL LOAD sends the first part only (hive-replication.md §6). The metastore removes the
        mark of accurate statistics if the last ones are of an id that the list does not contain. It did so at
        the source, but logged the change as if it had not.
        """
        if write_id is None:
            return None
        concurrent = self.tables.write_ids.find_concurrent(f"{self.policy.source_db}.{table}", write_id)
        return ValidWriteIds(f"{self.policy.target_db}.{table}", write_id, concurrent).format()
