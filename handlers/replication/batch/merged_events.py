"""Events whose effect comes with another event of the batch: joined partition events and superseded
alterations.

**Joined.** A call costs the target's metastore about as much for ten partitions as for one. Clients often
change partitions one by one, with events of other tables in between. Replay applies the later events together
with the first of them, ahead of their turn. That is correct if

* no event in between concerns the table, or might concern it (an undecodable event, or one without a table);
* no transaction that holds a write id of the table ends in between;
* the change needs no file: the table is transactional, or its rows are not replicated;
* a repetition after a crash, in which the same events may be joined differently, undoes nothing. Either all
  events add partitions, or all drop them, or each alters another one.

The table is then in a state that it also had at the source. The position does not move: it passes the later
events at their turn. A run killed in between repeats them and finds their work done. If the target refuses a
joined change, replay applies each event separately: a failure has the position of its own event.

**Superseded.** About a fifth of the events in a busy log are ALTER_TABLE events that only change statistics
parameters, two to six per statement (reference: hive-replication.md §0b.6), and each costs tens of
milliseconds at the target. An ALTER_TABLE contains the whole table, so the second of two supersedes the
first. The first may be skipped only if nothing in between could see the difference: no event of this table
except allocations, and no end of a transaction that might have made it visible. Both must have the same write
id, because the metastore decides by the last one whether statistics are accurate.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from typing import Final

from handlers.events import (
    Event,
    FilesWritten,
    Inserted,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    StatisticsDeleted,
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
from handlers.metastore.objects.partitions import BATCH
from handlers.replication.context import Context
from handlers.replication.policy.renames import find_names, needs_checkpoint
from handlers.replication.target.objects import changes_columns, is_transactional
from state.errors import BadInput, NotFound


DROPS_MIN: Final = 4
"""Fewer drops stay single: the call that drops one partition takes a third of the time of the call that drops
some."""

Joinable = PartitionsAdded | PartitionsAltered | PartitionsDropped
OF_TABLES: Final = (
    FilesWritten,
    Inserted,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    StatisticsDeleted,
    StatisticsUpdated,
    TableAltered,
    TableCreated,
    TableDropped,
    WriteIdsAllocated,
)


def find_joinable(first: Joinable, coming: Iterable[Event], writers: Container[int]) -> list[Joinable]:
    """Return ``first`` and the events to apply together with it; ``coming`` are the events after it.

    ``writers`` are the transactions that hold a write id of the table now.
    """
    if not changes_only_objects(first):
        return [first]
    joined, size = [first], _count(first)
    for event in coming:
        if isinstance(event, Joinable) and _continues(joined, event):
            size += _count(event)
            if size > BATCH:
                break
            joined.append(event)
        elif _stops(event, first, writers):
            break
    return joined if _saves_calls(joined) else [first]


def _saves_calls(joined: Sequence[Joinable]) -> bool:
    """Whether one call for all events is faster than separate calls."""
    return not isinstance(joined[0], PartitionsDropped) or len(joined) >= DROPS_MIN


def join(events: Sequence[Joinable]) -> Joinable:
    """Return one event with the changes of all events, at the position of the first."""
    first = events[0]
    match first:
        case PartitionsAdded():
            added = [each for each in events if isinstance(each, PartitionsAdded)]
            return replace(first, partitions=tuple(item for each in added for item in each.partitions))
        case PartitionsAltered():
            altered = [each for each in events if isinstance(each, PartitionsAltered)]
            return replace(first, before=None, after=tuple(item for each in altered for item in each.after))
        case PartitionsDropped():
            dropped = [each for each in events if isinstance(each, PartitionsDropped)]
            return replace(first, specs=tuple(spec for each in dropped for spec in each.specs))


def _count(event: Joinable) -> int:
    match event:
        case PartitionsAdded():
            return len(event.partitions)
        case PartitionsAltered():
            return len(event.after)
        case PartitionsDropped():
            return len(event.specs)


def changes_only_objects(event: Joinable) -> bool:
    """Whether the event changes nothing but the partitions' objects:
    it neither renames nor truncates nor moves one.
    """
    if not isinstance(event, PartitionsAltered):
        return True
    if event.truncate or needs_checkpoint(event):
        return False
    try:
        before = event.before
        return before is None or before.value.sd.location == event.after[0].value.sd.location
    except (BadInput, IndexError):
        return False


def _continues(joined: Sequence[Joinable], event: Joinable) -> bool:
    """Whether ``event`` makes the same kind of change in the same table."""
    first = joined[0]
    if type(event) is not type(first) or (event.db, event.table, event.parts) != (first.db, first.table, 1):
        return False
    if isinstance(event, PartitionsAltered) and isinstance(first, PartitionsAltered):
        return changes_only_objects(event) and event.write_id == first.write_id and _are_others(joined, event)
    return True


def _are_others(joined: Sequence[Joinable], event: PartitionsAltered) -> bool:
    """Whether no earlier event alters a partition that ``event`` alters."""
    try:
        earlier = {
            repr(item.value.values)
            for each in joined
            if isinstance(each, PartitionsAltered)
            for item in each.after
        }
        return not any(repr(item.value.values) in earlier for item in event.after)
    except BadInput:
        return False


def _stops(event: Event, first: Joinable, writers: Container[int]) -> bool:
    """Whether no later event may be applied before ``event``."""
    if isinstance(event, TxnsOpened | Unhandled):
        return False
    if isinstance(event, TxnCommitted | TxnAborted):
        return event.txn_id in writers
    if event.table is None or event.table == first.table or not isinstance(event, OF_TABLES):
        return True
    return isinstance(event, TableAltered) and first.table in find_names(event)


class EventJoiner:
    """Decides which events of one batch to join. Used by the projection's thread."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._events: Sequence[Event] = ()
        self._places: dict[int, int] = {}
        """Where each joinable event is among ``_events``, by event id."""
        self._done: set[int] = set()
        self._refused: set[str | None] = set()

    def begin(self, events: Sequence[Event], *, uncertain_up_to: int) -> None:
        """Forget the last batch; ``events`` are the next batch's events that may concern the policy.

        Events up to ``uncertain_up_to`` are not joined, because it is unknown which transactions hold write
        ids of their tables.
        """
        self._events = events
        self._places = {
            event.event_id: place
            for place, event in enumerate(events)
            if isinstance(event, Joinable) and event.parts == 1 and event.event_id > uncertain_up_to
        }
        self._done.clear()
        self._refused.clear()

    def is_done(self, event: Event) -> bool:
        """Whether an earlier event included this one."""
        return event.event_id in self._done

    def select(self, event: Event) -> Sequence[Joinable]:
        """Return the events to apply together, beginning with ``event``; empty if it stays alone."""
        if event.event_id not in self._places or self.is_done(event):
            return ()
        if not isinstance(event, Joinable) or not self._may_join(event):
            return ()
        joined = self.find(event)
        return joined if len(joined) > 1 else ()

    def find(self, event: Joinable) -> Sequence[Joinable]:
        """Return the event, and those that may be applied together with it;
        its table must be in scope and transactional.
        """
        place = self._places.get(event.event_id)
        if place is None or event.table in self._refused:
            return [event]
        holders = self._context.tables.write_ids.held_write_ids(f"{event.db}.{event.table}")
        return find_joinable(event, self._events[place + 1 :], {txn_id for _, txn_id in holders})

    def _may_join(self, event: Joinable) -> bool:
        context, table = self._context, event.table
        if table is None or table in self._refused or not context.in_scope(event.db, table):
            return False
        if context.tables.loads.contains_event(table, event.event_id):
            return False
        if not context.policy.copies_rows(table):
            return True
        try:
            return is_transactional(context.table_cache.table(table))
        except NotFound:
            return False

    def confirm(self, joined: Sequence[Event]) -> None:
        """Note that the events took effect."""
        self._done.update(event.event_id for event in joined[1:])

    def refuse(self, joined: Sequence[Joinable]) -> None:
        """Note that the target refused the joined events; no others of the table are joined in this batch."""
        self._refused.add(joined[0].table)


_INVISIBLE = (TxnsOpened, WriteIdsAllocated, Unhandled)


def find_superseded_alters(events: Iterable[Event]) -> frozenset[int]:
    """Return the ids of the ALTER_TABLE events in ``events`` that a later one supersedes.

    It decodes the objects of every ALTER_TABLE, so ``events`` should contain only those that concern the
    policy.

    A statistics event between two alters keeps the first, because its accuracy flags refer to the table at
    that time. Renames, truncations, changes of the location or of columns, and conversions into transactional
    tables neither supersede nor get superseded.
    """
    superseded: set[int] = set()
    pending: dict[tuple[str | None, str | None], TableAltered] = {}
    for event in events:
        if isinstance(event, _INVISIBLE):
            continue
        if isinstance(event, TxnCommitted | TxnAborted):
            pending.clear()
            continue
        key = (event.db, event.table)
        if isinstance(event, TableAltered) and is_plain(event):
            earlier = pending.get(key)
            if earlier is not None and earlier.write_id == event.write_id:
                superseded.add(earlier.event_id)
            pending[key] = event
        elif isinstance(event, StatisticsUpdated | FilesWritten) or event.table is not None:
            pending.pop(key, None)
        else:
            pending.clear()
    return frozenset(superseded)


def is_plain(event: TableAltered) -> bool:
    """Whether the event can be decoded, and neither truncates nor renames nor moves to another location nor
    changes columns or whether the table is transactional.
    """
    if event.truncate:
        return False
    try:
        before, after = event.before.value, event.after.value
    except BadInput:
        return False
    if (before.tableName, before.dbName) != (after.tableName, after.dbName) or changes_columns(before, after):
        return False
    if is_transactional(before) != is_transactional(after):
        return False
    return before.sd.location == after.sd.location
