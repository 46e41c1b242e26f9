"""Work ahead of the turn: changes of independent tables overlap.

Replay applies one event after the other, and mostly waits for the target's metastore, which can make several
changes at once. Lanes therefore start events of tables that do not depend on anything unrecorded, while
replay applies the events before them. The order of all other events is unchanged: replay itself applies
allocations, commits and aborts, files, renames and all events that concern several tables, at their turn.

1. Events whose predecessors are recorded start at the beginning of a batch and after each record of the
   position.
2. At the turn of such an event, replay waits for it, records its changes to the state, and moves the position
   on. The position thus passes an event only after it and all before it.
3. If the lane failed, or has not begun, replay applies the event itself. A failure thus has the right event
   and table, and one place handles failures, in order. Repeating the lane's part changes nothing.
4. When a batch ends, even with an error, no lane is still working.

An event may run ahead of its turn when every event before it that concerns its table is applied and recorded.
After a crash, it is then the first event of its table to repeat, and applying it again changes nothing.
Events that must not repeat together (``record_points``) therefore never do, including those that create or
drop a table.

Two things stop all tables: an event that may concern any of them (of the database, a function, a foreign key,
or one that cannot be decoded), and a rename. The end of a transaction concerns the tables that it writes
into.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop
from typing import Final

from handlers.events import (
    Embedded,
    Event,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    StatisticsUpdated,
    TableAltered,
    TableCreated,
    TableDropped,
    TxnAborted,
    TxnCommitted,
    TxnsOpened,
    Unhandled,
    WriteIdsAllocated,
)
from handlers.replication.batch.lanes import Done, Job, Lanes
from handlers.replication.batch.merged_events import (
    OF_TABLES,
    EventJoiner,
    Joinable,
    changes_only_objects,
    is_plain,
    join,
)
from handlers.replication.context import Context
from handlers.replication.effects.unreplicated import has_obstacle
from handlers.replication.observer import LaneCounts
from handlers.replication.policy.metadata_only import select_metadata
from handlers.replication.policy.renames import find_rename, needs_checkpoint
from handlers.replication.target.objects import is_transactional
from handlers.structs.objects import Table
from state.errors import BadInput


CANDIDATES: Final = (
    TableCreated,
    TableDropped,
    TableAltered,
    PartitionsAdded,
    PartitionsDropped,
    PartitionsAltered,
    StatisticsUpdated,
)
"""The kinds of events that may run ahead."""


@dataclass(frozen=True, slots=True)
class AppliedAhead:
    """An event that ran ahead of its turn, with the events joined to it."""

    events: Sequence[Event]
    done: Done


class WorkAhead:
    """Starts the independent events of one batch after the other. Used by the projection's thread."""

    def __init__(
        self,
        context: Context,
        joiner: EventJoiner,
        lanes: Lanes | None,
        *,
        must_raise_before: Callable[[Event], bool],
    ) -> None:
        """``must_raise_before`` returns whether the target's position must be raised before an event; with
        None as ``lanes``, nothing starts early.
        """
        self._context = context
        self._joiner = joiner
        self._lanes = lanes
        self._must_raise_before = must_raise_before
        self._waiting: list[tuple[int, int]] = []
        """A heap of (prerequisite, id) for each waiting event."""
        self._events: dict[int, Event] = {}
        self._postponed: list[Event] = []
        """Events that wait for a higher position on the target."""
        self._jobs: dict[int, Job] = {}
        self._counts = LaneCounts()

    def begin(self, events: Sequence[Event], merged: Container[int], *, unknown_txn_id: int) -> None:
        """Start the events of a batch that may start; ``events`` are those that may concern the policy; the
        state contains all events before them.

        ``merged`` are the ids of events to leave out. Of transactions up to ``unknown_txn_id``, the state
        does not know the tables.
        """
        if self._lanes is None:
            return
        self._events = {
            event.event_id: event
            for event in events[1:]
            if isinstance(event, CANDIDATES) and event.event_id not in merged
        }
        if not self._events:
            return
        predecessors = find_predecessors(events, lambda txn_id: self._find_tables(txn_id, unknown_txn_id))
        self._events = {
            event_id: event for event_id, event in self._events.items() if event_id in predecessors
        }
        self._waiting = [(predecessors[event_id], event_id) for event_id in self._events]
        heapify(self._waiting)
        self.start_after(0, upcoming=events[0].event_id)

    def _find_tables(self, txn_id: int, unknown_txn_id: int) -> list[str] | None:
        """Return the tables that a transaction writes into; None if the state may not know them."""
        if txn_id <= unknown_txn_id:
            return None
        transaction = self._context.tables.write_ids.get(txn_id)
        return (
            [] if transaction is None else [name.partition(".")[2] for name, _, _ in transaction.allocations]
        )

    def start_after(self, recorded: int, *, upcoming: int) -> None:
        """Start the events that wait for nothing after ``recorded``;
        replay itself applies those up to ``upcoming``.
        """
        ready, self._postponed = self._postponed, []
        while self._waiting and self._waiting[0][0] <= recorded:
            ready.append(self._events.pop(heappop(self._waiting)[1]))
        for event in ready:
            if event.event_id <= upcoming or not self._may_start(event):
                continue
            if needs_checkpoint(event) and self._must_raise_before(event):
                self._postponed.append(event)
            else:
                self._start(event)

    def _may_start(self, event: Event) -> bool:
        """Whether replay would apply the event unchanged if its turn came now."""
        context, table = self._context, event.table
        if table is None or not context.in_scope(event.db, table) or self._joiner.is_done(event):
            return False
        if self._is_in_load(event, table) or not may_run_ahead(event):
            return False
        return not has_obstacle(event, context) and not context.tables.write_ids.held_write_ids(
            f"{event.db}.{table}"
        )

    def _is_in_load(self, event: Event, table: str) -> bool:
        """Whether the loaded rows contain the event or its write id. A lane does not know the loads, and
        would treat the event's statistics as late.
        """
        loads = self._context.tables.loads
        write_id = event.write_id if isinstance(event, TableAltered | PartitionsAltered) else None
        return loads.contains_event(table, event.event_id) or (
            write_id is not None and write_id > 0 and loads.contains_write(table, write_id)
        )

    def _start(self, event: Event) -> None:
        events: Sequence[Event] = [event]
        whole = event
        if isinstance(event, Joinable):
            joined = self._joiner.find(event)
            events, whole = joined, join(joined)
        selected = select_metadata(whole, self._context.policy)
        if selected is not None and self._lanes is not None:
            table = self._context.table_cache.peek(event.table or "")
            self._jobs[event.event_id] = self._lanes.start(selected, events, table)

    def take(self, event: Event) -> AppliedAhead | None:
        """Wait for the event at its turn; return the result of its early application, or None if replay must
        apply it.
        """
        job = self._jobs.pop(event.event_id, None)
        if job is None or self._lanes is None:
            return None
        began = time.perf_counter()
        done = self._lanes.finish(job)
        counts = self._counts
        counts.waited_s += time.perf_counter() - began
        if done is None:
            counts.returned += len(job.events)
            return None
        counts.applied += len(job.events)
        counts.busy_s += done.seconds
        counts.queued_s += done.queued_s
        return AppliedAhead(job.events, done)

    def take_counts(self) -> LaneCounts:
        """Return the counts since the last call."""
        counts, self._counts = self._counts, LaneCounts()
        return counts

    def end(self) -> None:
        """Wait until no lane is working."""
        self._waiting.clear()
        self._events.clear()
        self._postponed.clear()
        if self._lanes is not None:
            self._lanes.stop(list(self._jobs.values()))
        self._jobs.clear()

    def close(self) -> None:
        """Release threads and connections."""
        self.end()
        if self._lanes is not None:
            self._lanes.close()


def find_predecessors(
    events: Iterable[Event], tables_of: Callable[[int], Iterable[str] | None]
) -> dict[int, int]:
    """Return, for each event of a table, the id of the last earlier event in ``events`` that it depends on; 0
    if there is none.

    ``tables_of`` returns the tables that a transaction writes into before the first of ``events``, and None
    if unknown.
    """
    predecessors: dict[int, int] = {}
    last: dict[str, int] = {}
    writes: dict[int, set[str]] = {}
    barrier, renamed = 0, False
    for event in events:
        if isinstance(event, TxnsOpened | Unhandled):
            continue
        if isinstance(event, TxnCommitted | TxnAborted):
            tables = None if renamed else tables_of(event.txn_id)
            if tables is None:
                barrier = event.event_id
            for table in {*(tables or ()), *writes.get(event.txn_id, ())}:
                last[table] = event.event_id
        elif event.table is None or not isinstance(event, OF_TABLES) or find_rename(event) is not None:
            barrier, renamed = event.event_id, renamed or isinstance(event, TableAltered)
        else:
            predecessors.setdefault(event.event_id, max(barrier, last.get(event.table, 0)))
            last[event.table] = event.event_id
            if isinstance(event, WriteIdsAllocated):
                for txn_id, _ in event.pairs:
                    writes.setdefault(txn_id, set()).add(event.table)
    return predecessors


def may_run_ahead(event: Event) -> bool:
    """Whether the event's effect is one change of the target's metastore that needs no file and no state:
    only of a transactional table.

    Tables without transactions may share directories, and their files come with their events.
    """
    owners: tuple[Embedded[Table] | None, ...] = (None,)
    match event:
        case TableCreated():
            owners = (event.after,)
        case TableDropped():
            owners = (event.before,)
        case TableAltered() if is_plain(event):
            owners = (event.before, event.after)
        case PartitionsAdded() | PartitionsDropped() | PartitionsAltered() if changes_only_objects(event):
            owners = (event.owner,)
        case StatisticsUpdated():
            owners = (event.owner,)
    try:
        return event.parts == 1 and all(map(_is_acid, owners))
    except BadInput:
        return False


def _is_acid(owner: Embedded[Table] | None) -> bool:
    return owner is not None and is_transactional(owner.value)
