"""Catches up one loaded table: applies its events between the load and the position of replay.

The catch-up runs in pieces between batches of replay: a table that is far behind does not hold up the others
(``follower``). No event in between renamed or dropped the table, because that would have cancelled the load.

Transactions need care, because a transaction may also have written other tables. If replay has already ended
the transaction on the target, catch-up opens, allocates and ends it there once more, for this table alone. If
the transaction is still open, the target answers with the open transaction, and replay ends it later for all
tables. Replay's write-id mapping therefore takes over the open write ids at the end. Replay completes the
catch-up before it ends a transaction that holds a write id of this table, because otherwise the target would
show the write id without its files. Replay also completes the catch-up before it renames the table.

A table that resumes after a quarantine (``resume``) begins with the open write ids that replay knew when it
stopped; replay's mapping still has them, and none of their transactions has ended since. If such a table
fails again, or the failed event renamed it, the catch-up stops before it commits anything incomplete, and the
table gets a load.

Repeating an allocation after its commit would damage the table. Here as well, the entry of the load therefore
records progress before every end of a transaction, and after each piece. After a crash, catch-up does not
apply events up to the recorded progress again, but only remembers their allocations. Later allocations are
known again once the first ``PIECE_EVENTS`` events after the recorded progress are applied. Replay waits for
that (``is_restored``), because otherwise it would not know which transactions hold write ids of this table.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from handlers.events import (
    DatabaseAltered,
    DatabaseCreated,
    DatabaseDropped,
    Event,
    FilesWritten,
    TableAltered,
    TxnAborted,
    TxnCommitted,
)
from handlers.failpoints import failpoint
from handlers.replication.context import Context
from handlers.replication.dispatch import Dispatcher
from handlers.replication.effects.remembered_events import remember
from handlers.replication.policy.renames import find_rename, may_concern
from handlers.replication.tables.quarantine import Quarantine, QuarantinedTable
from handlers.replication.tables.table_loads import TableLoad, TableLoads
from handlers.replication.transactions.target_write_ids import CommitProofs
from state.errors import TidelineError
from state.transactions.unproven_commits import UnprovenCommits
from state.transactions.write_id_mapping import WriteIdMapping


_OF_DATABASE: Final = (DatabaseCreated, DatabaseAltered, DatabaseDropped)


PIECE_EVENTS: Final = 1_000
"""Event ids after which to record the progress."""


class ResumeFailed(Exception):
    """A table cannot resume at its stop; the text gives the reason."""


class _NoQuarantine(Quarantine):
    """Replaces the quarantine while a table resumes."""

    def add(self, table: str, event_id: int, error: TidelineError) -> QuarantinedTable | None:
        """Stop the catch-up."""
        raise ResumeFailed(f"table '{table}' failed again at event {event_id}: {error}") from error


class CatchUp:
    """The replay of one table's events after its load."""

    def __init__(self, load: TableLoad, context: Context, record: Callable[[], None]) -> None:
        """``record`` makes the entry of the load durable."""
        self._load = load
        self._main = context
        self._record = record
        loads = TableLoads()
        loads.put(replace(load, event_id=load.snapshot_event_id, write_id=load.snapshot_write_id))
        policy = replace(context.policy, include=(glob.escape(load.table),), exclude=())
        tables = replace(context.tables, write_ids=WriteIdMapping(), loads=loads, unproven=UnprovenCommits())
        self._own = replace(context, policy=policy, tables=tables)
        if load.resumes:
            if policy.on_failure != "skip":
                policy = replace(policy, on_failure="quarantine")
            self._own = replace(self._own, policy=policy, tables=replace(tables, quarantine=_NoQuarantine()))
            self._own.tables.write_ids.adopt(self._name, context.tables.write_ids)
        proofs = CommitProofs(self._own)
        self._dispatcher = Dispatcher(self._own, proofs, record_before=self._record_before)
        self.reached = load.snapshot_event_id
        """Events up to this one are applied or remembered."""
        self._recorded = load.caught_up_id

    @property
    def is_restored(self) -> bool:
        """Whether every possible allocation of an earlier process for the table is known again."""
        return self.reached >= self._load.caught_up_id + PIECE_EVENTS

    def concerns(self, event: Event) -> bool:
        """Whether the table must be up to date before replay applies the event:
        it ends a transaction of the table, or renames it.
        """
        if isinstance(event, FilesWritten | TxnCommitted | TxnAborted):
            return event.txn_id in self._own.tables.write_ids
        return self._is_rename(event)

    def apply(
        self, events: Iterable[Event], upto: int, beat: Callable[[], None], may_stop: Callable[[], bool]
    ) -> bool:
        """Apply the table's events among ``events``, which end with the event ``upto``;
        return False if the table failed.

        May stop earlier, after a whole event (``reached``). Raises replay's errors; after an error, a new
        catch-up must continue. A failure that is the table's own quarantines the table; raises ResumeFailed
        if the table resumes.
        """
        began = at = self.reached
        try:
            for event in events:
                if event.event_id != at:
                    self._complete_event(at)
                    if at > began and self.is_restored and may_stop():
                        break
                    at = event.event_id
                self._apply(event)
                beat()
                self._require_readable(event)
                if self._load.table in self._own.tables.quarantine or self._must_be_loaded():
                    return False
            else:
                self.reached = upto
            self._record_progress(self.reached)
        except ResumeFailed:
            self._dispatcher.transactions.files.discard_table(self._load.table)
            raise
        finally:
            self._dispatcher.transactions.files.cancel_all()
        return True

    def _must_be_loaded(self) -> bool:
        return self._own.tables.loads.is_waiting(self._load.table) or bool(
            self._dispatcher.transactions.tables_to_load
        )

    def _require_readable(self, event: Event) -> None:
        if self._load.resumes and self._dispatcher.transactions.tables_to_load:
            raise ResumeFailed(f"event {event.event_id} cannot be read")

    def _complete_event(self, event_id: int) -> None:
        """Note the last part of the event."""
        self.reached = event_id
        if event_id - self._recorded >= PIECE_EVENTS:
            self._record_progress(event_id)

    def hand_over(self) -> None:
        """Give the table's open transactions to replay, which ends them."""
        self._main.tables.write_ids.adopt(self._name, self._own.tables.write_ids)

    @property
    def was_dropped(self) -> bool:
        """Whether the events dropped the table: nothing of the load is left."""
        return self._load.table not in self._own.tables.loads

    @property
    def _name(self) -> str:
        return f"{self._main.policy.source_db}.{self._load.table}"

    def _apply(self, event: Event) -> None:
        if isinstance(event, _OF_DATABASE) or not self._concerns_table(event):
            return
        self._require_same_name(event)
        failpoint("catch-up.before-event")
        if event.event_id <= self._load.caught_up_id:
            remember(event, self._own)
        else:
            self._dispatcher.apply(event)
        failpoint("catch-up.after-event")

    def _concerns_table(self, event: Event) -> bool:
        """Whether the event may concern the table; the end of a transaction has no table, and a rename has
        two.
        """
        return event.table in {None, self._load.table} or isinstance(event, TableAltered)

    def _require_same_name(self, event: Event) -> None:
        """Raise ResumeFailed if the event, which failed before, renames the table."""
        if self._load.resumes and self._is_rename(event):
            raise ResumeFailed(f"event {event.event_id} renames the table")

    def _is_rename(self, event: Event) -> bool:
        move = find_rename(event) if may_concern(event, self._own.policy) else None
        return move is not None and (self._own.policy.source_db, self._load.table) in {
            move.before,
            move.after,
        }

    def _record_before(self, event_id: int) -> None:
        """Record that all events before this one are applied, before sending the end of a transaction."""
        self._main.target_position.require_held()
        self._record_progress(event_id - 1)
        if self._own.tables.quarantine.unsaved:
            self._record()

    def _record_progress(self, event_id: int) -> None:
        if event_id <= self._recorded:
            return
        self._recorded = event_id
        failpoint("catch-up.before-progress")
        self._main.tables.loads.catch_up_to(self._load.table, event_id)
        self._record()
        failpoint("catch-up.after-progress")
