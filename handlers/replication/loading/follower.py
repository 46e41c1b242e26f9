"""The follower's side of loads: the tables that wait for one, and the consequences of a finished one.

All of it runs in the thread that replays events, between two batches. A request's removals and additions
share one store transaction: after a crash a table is either followed, quarantined, waiting or catching up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import structlog

from handlers.events import Event
from handlers.failpoints import failpoint
from handlers.replication.context import Context
from handlers.replication.effects.unreplicated import record_obstacle
from handlers.replication.loading.catch_up import CatchUp, ResumeFailed
from handlers.replication.loading.resume import ReadEvents, Release, find_release_obstacle
from handlers.replication.tables.quarantine import QuarantinedTable
from handlers.replication.tables.table_loads import LoadedTable, Reason, TableLoad
from handlers.replication.transactions.copies.transaction_files import TransactionFiles
from state.errors import GapDetected, NotFound, ServerFault, TidelineError, UnloggedFilesGone


TURN_S: Final = 2.0
"""How long tables may catch up before the next batch of other tables."""

log = structlog.get_logger(__name__)

FAULTS_MAX: Final = 5
"""Internal errors of the target in a row during a catch-up, after which the table gets another load."""


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
    clock: Callable[[], float] = time.monotonic
    _faults: int = 0
    _works: dict[str, CatchUp] = field(default_factory=dict)
    """The tables whose turn is over, by load."""
    _turns: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Their distance from replay at the beginning of their last turn, and its length in seconds."""
    _read: ReadEvents = lambda _after, _upto: ()

    def request(self, tables: Iterable[str], reason: Reason) -> tuple[str, ...]:
        """Make tables wait for a load, and end their quarantine; return them.

        Those that already wait stay as they are, but get an attempt at once. Raises NotFound if the policy
        does not cover one of them, and then changes nothing.
        """
        names = tuple(dict.fromkeys(table.lower() for table in tables))
        for table in names:
            self._require_covered(table)
        for table in names:
            if self.context.tables.loads.is_waiting(table):
                self.context.tables.loads.hurry(table)
            else:
                self._forget(table)
                self.context.tables.loads.request(table, reason)
        self.record()
        return names

    def release(self, table: str, read: ReadEvents, *, load: bool = False) -> Release:
        """Return a quarantined table to replication: resume it at its stop, or load it if that is impossible
        or ``load`` is set.

        A table that waits for its load already keeps waiting. Raises NotFound if it needs no release.
        """
        entry, waiting = self.context.tables.quarantine.get(table), self.context.tables.loads.get(table)
        if entry is not None:
            reason = "a load was requested" if load else find_release_obstacle(entry, self.context, read)
            return self._resume(entry) if reason is None else self._load_instead(table, reason)
        if waiting is None or waiting.is_loaded:
            raise NotFound(
                "the table is neither quarantined nor waiting for its load",
                policy=self.context.policy.name,
                table=table,
                hint="Run 'tideline status' to list the tables that need a release.",
            )
        if not waiting.resumes:
            return Release(table, None, "its load was requested before")
        if load:
            return self._load_instead(table, "a load was requested")
        return Release(table, waiting.snapshot_event_id + 1, None)

    def _resume(self, entry: QuarantinedTable) -> Release:
        """Make the table catch up from the event that failed; the mapping keeps its write ids until then."""
        self.context.tables.quarantine.remove(entry.table)
        self.context.table_cache.forget(entry.table)
        self.context.tables.loads.resume(entry.table, entry.event_id - 1, entry.loaded_write_id)
        self.record()
        failpoint("resume.after-record")
        log.info("a quarantined table resumes where it stopped", table=entry.table, event_id=entry.event_id)
        return Release(entry.table, entry.event_id, None)

    def load_unlogged(self) -> None:
        """Load tables that were quarantined because files that Hive had not logged are gone; call it between
        two batches.
        """
        for entry in self.context.tables.quarantine.entries():
            if entry.code == UnloggedFilesGone.code:
                self._request(entry.table, "files-gone", cause=entry.reason)
                log.info("a table is loaded again automatically", table=entry.table, reason=entry.reason)

    def _load_instead(self, table: str, reason: str) -> Release:
        """Load a table that cannot resume."""
        self._request(table)
        log.info("a released table cannot resume and will be loaded", table=table, reason=reason)
        return Release(table, None, reason)

    def _request(self, table: str, reason: Reason = "release", *, cause: str | None = None) -> None:
        self._forget(table)
        self.context.tables.loads.request(table, reason, cause=cause)
        self.record()

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
        """Forget a table that left the policy; the target's table stays as it is."""
        self._forget(table)
        self.context.tables.loads.remove(table)

    def _forget(self, table: str) -> None:
        """Forget a table whose rows will be replaced. Transactions that wrote into it still end on the
        target.
        """
        self.files.discard_table(table)
        self.context.tables.quarantine.remove(table)
        self.context.tables.write_ids.drop_table(f"{self.context.policy.source_db}.{table}")
        self.context.table_cache.forget(table)

    def to_load(self) -> tuple[TableLoad, ...]:
        """Return the tables whose rows need a load, those that wait longest first."""
        entries = [entry for entry in self.context.tables.loads.waiting() if not entry.is_catching_up]
        return tuple(sorted(entries, key=lambda entry: (entry.requested_s, entry.table)))

    def finish(self, loaded: LoadedTable) -> None:
        """Record a finished load. If replay is already beyond the load's event, the table must catch up."""
        loads = self.context.tables.loads
        if not loads.is_waiting(loaded.table):
            return
        self.context.table_cache.forget(loaded.table)
        record_obstacle(loaded, self.context)
        if loaded.event_id >= self.position():
            loads.finish(loaded.table, loaded.event_id, loaded.write_id)
        else:
            loads.start_catching_up(loaded.table, loaded.event_id, loaded.write_id)
        self.record()

    def fail(self, table: str, error: TidelineError) -> None:
        """Record that a load failed; the table keeps waiting."""
        if self.context.tables.loads.is_waiting(table):
            self.context.tables.loads.fail(table, str(error))
            self.record()

    def catch_up(self, read: ReadEvents) -> bool:
        """Give every table that catches up one turn; return whether any table needs another turn. Call this
        before each batch.

        All turns together take ``TURN_S``, so other tables wait no longer than that; a single event is never
        divided. If a table's last turn did not bring it closer to replay, its next one is twice as long.
        ``read`` returns the events after the first id up to the second one. Raises replay's errors.
        """
        self._read = read
        entries = {each.load_id: each for each in self.context.tables.loads.waiting() if each.is_catching_up}
        for load_id in self._works.keys() - entries.keys():
            del self._works[load_id]
        for load in entries.values():
            work = self._works.get(load.load_id) or CatchUp(load, self.context, self.record)
            self._run(load, work, self._take_turn(load.load_id, len(entries)))
        return bool(self._works)

    def _take_turn(self, load_id: str, tables: int) -> Callable[[], bool]:
        """Return a function that tests whether the turn of a table is over."""
        distance = self.position() - (self._works[load_id].reached if load_id in self._works else -1)
        before, turn_s = self._turns.get(load_id, (distance + 1, TURN_S / tables))
        turn_s = turn_s if distance < before else 2 * turn_s
        self._turns = {each: self._turns[each] for each in self._works if each in self._turns}
        self._turns[load_id] = (distance, turn_s)
        end_s = self.clock() + turn_s
        return lambda: self.clock() >= end_s

    def prepare(self, event: Event) -> None:
        """Complete the catch-ups that must be up to date before replay applies ``event``, its next event."""
        for load in self.context.tables.loads.waiting() if self._works else ():
            work = self._works.get(load.load_id)
            if work is not None and work.concerns(event):
                self._run(load, work, lambda: False)

    def restart(self) -> None:
        """Clear the memory after another reading of the state."""
        self._works.clear()

    def _run(self, load: TableLoad, work: CatchUp, may_stop: Callable[[], bool]) -> None:
        """Catch up one table to replay's position, or until its turn is over."""
        self.context.target_position.check()
        upto = self.position()
        self._works.pop(load.load_id, None)  # a failed catch-up starts again from the beginning
        try:
            complete = work.apply(self._read(work.reached, upto), upto, self.beat, may_stop)
        except ResumeFailed as failure:
            self._load_instead(load.table, str(failure))
            return
        except GapDetected as gap:
            self._load_again(load, gap)
            return
        except ServerFault as fault:
            self._faults += 1
            if self._faults < FAULTS_MAX:
                raise
            self._faults = 0
            self._load_again(load, fault)
            return
        self._faults = 0
        if complete and work.reached < upto:
            self._works[load.load_id] = work
        else:
            self._end(load, work, complete=complete)

    def _load_again(self, load: TableLoad, error: TidelineError) -> None:
        """Load a table that cannot catch up."""
        if load.resumes:
            self._load_instead(load.table, str(error))
        else:
            self.fail(load.table, error)

    def _end(self, load: TableLoad, work: CatchUp, *, complete: bool) -> None:
        """Record the end in one store transaction, with the write ids that replay follows from now on."""
        loads = self.context.tables.loads
        if complete:
            work.hand_over()
            if work.was_dropped:
                loads.remove(load.table)
            else:
                loads.finish(load.table, self.position(), load.snapshot_write_id)
        elif load.table in self.context.tables.quarantine:
            loads.remove(load.table)
        else:
            loads.request(load.table, load.reason)
        self.record()
