"""The follower's side of loads: which tables wait for one, and what follows when one is finished.

All of it runs in the thread that replays events, between two batches. What a request forgets and adds is recorded in the same
store transaction, so that after a crash a table is either followed, quarantined, waiting or catching up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from handlers.replication.loading.catch_up import CatchUp
from state.errors import GapDetected, NotFound, ServerFault


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from handlers.events import Event
    from handlers.replication.context import Context
    from handlers.replication.loading.load_tools import LoadedTable
    from handlers.replication.loading.table_loads import Reason, TableLoad
    from handlers.replication.transaction_files import TransactionFiles
    from state.errors import TidelineError


FAULTS_MAX: Final = 5
"""Internal errors of the target in a row while a table catches up, after which it is loaded again."""


@dataclass(slots=True)
class LoadFollower:
    """The loads of one policy, as replay sees them."""

    context: Context
    files: TransactionFiles
    record: Callable[[], None]
    """Makes position and entries durable."""
    position: Callable[[], int]
    """Returns the last event that replay has applied."""
    beat: Callable[[], None] = lambda: None
    _faults: int = 0

    def request(self, tables: Iterable[str], reason: Reason) -> tuple[str, ...]:
        """Make tables wait for a load, in place of what is followed or quarantined; return them.

        Those that already wait stay as they are. Raises NotFound if the policy does not cover one of them, and then changes
        nothing.
        """
        chosen = tuple(dict.fromkeys(table.lower() for table in tables))
        for table in chosen:
            self._require_covered(table)
        for table in chosen:
            if not self.context.loads.is_waiting(table):
                self._forget(table)
                self.context.loads.request(table, reason)
        self.record()
        return chosen

    def _require_covered(self, table: str) -> None:
        policy = self.context.policy
        if not policy.covers(policy.source_db, table):
            raise NotFound(
                "the policy does not replicate this table",
                policy=policy.name,
                table=table,
                hint="Check the table's name and the policy's table patterns.",
            )

    def forget(self, table: str) -> None:
        """Forget a table that left the policy; the target keeps it as it is."""
        self._forget(table)
        self.context.loads.remove(table)

    def _forget(self, table: str) -> None:
        """Forget a table whose rows will be replaced. Transactions that wrote into it are still ended on the target."""
        self.files.discard_table(table)
        self.context.quarantine.remove(table)
        self.context.write_ids.drop_table(f"{self.context.policy.source_db}.{table}")
        self.context.table_cache.forget(table)

    def to_load(self) -> tuple[TableLoad, ...]:
        """Return the tables whose rows must be loaded, those that wait longest first."""
        waiting = [entry for entry in self.context.loads.waiting() if not entry.is_catching_up]
        return tuple(sorted(waiting, key=lambda entry: (entry.requested_s, entry.table)))

    def finish(self, loaded: LoadedTable) -> None:
        """Record that a table is loaded. If replay is already beyond the load's event, the table must catch up."""
        loads = self.context.loads
        if not loads.is_waiting(loaded.table):
            return
        self.context.table_cache.forget(loaded.table)
        if loaded.event_id >= self.position():
            loads.finish(loaded.table, loaded.event_id, loaded.write_id)
        else:
            loads.start_catching_up(loaded.table, loaded.event_id, loaded.write_id)
        self.record()

    def fail(self, table: str, error: TidelineError) -> None:
        """Record that a load failed; the table keeps waiting."""
        if self.context.loads.is_waiting(table):
            self.context.loads.fail(table, str(error))
            self.record()

    def catch_up(self, read: Callable[[int, int], Iterable[Event]]) -> None:
        """Let loaded tables catch up; must be called before the next batch.

        ``read`` returns the events after the first id up to the second one. Raises what replay raises.
        """
        for load in self.context.loads.waiting():
            if load.is_catching_up:
                self._catch_up_one(load, read)

    def _catch_up_one(self, load: TableLoad, read: Callable[[int, int], Iterable[Event]]) -> None:
        self.context.target_position.check()
        work = CatchUp(load, self.context, self.record)
        try:
            complete = work.apply(read(load.snapshot_event_id, self.position()), self.beat)
        except GapDetected as gap:
            self.fail(load.table, gap)
            return
        except ServerFault as fault:
            self._faults += 1
            if self._faults < FAULTS_MAX:
                raise
            self._faults = 0
            self.fail(load.table, fault)
            return
        self._faults = 0
        self._end(load, work, complete=complete)

    def _end(self, load: TableLoad, work: CatchUp, *, complete: bool) -> None:
        """Record the end in one store transaction, with the write ids that replay follows from now on."""
        loads = self.context.loads
        if complete:
            work.hand_over()
            loads.finish(load.table, self.position(), load.snapshot_write_id)
        elif load.table in self.context.quarantine:
            loads.remove(load.table)
        else:
            loads.request(load.table, load.reason)
        self.record()
