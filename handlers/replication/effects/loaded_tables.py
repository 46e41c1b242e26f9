"""How replay treats the events of tables whose rows come by a load instead of by events,
and which tables an unreadable event loads.

- Events of a table that waits for its load have no effect, except that a drop cancels the load and a rename
  moves it to the new name.
- Events that the loaded rows contain have no effect. A load contains a write id up to its own whenever its
  transaction ends.
- A table whose new name is in the policy waits for a load, because no event contains its rows. So does one
  whose rows are replicated under only one of its names.
- A table that the source rebalanced waits for a load as well. Its rows have new ids. Later updates and
  deletions refer to them, and would change other rows on the target.
- The tables possibly changed by an unreadable event get a load (``find_changed_tables``).

A load may concern a later table than an event does: if a load of the table ``a`` is as of event 9, and event
7 renames an earlier table ``a`` to ``b``, then the rows of ``b`` are neither in the load nor on the target.
``b`` waits for its own load then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import structlog

from handlers.events import (
    CompactionCommitted,
    Event,
    FilesWritten,
    TableDropped,
    Undecodable,
    WriteIdsAllocated,
)
from handlers.replication.context import QUARANTINED, Context
from handlers.replication.effects import tables
from handlers.replication.effects.databases import list_tables_to_load, renew_database
from handlers.replication.policy.metadata_only import starts_or_stops
from handlers.replication.policy.renames import Rename
from handlers.replication.tables.table_loads import LOADED, LOADING
from handlers.structs.transactions import TxnState
from state.errors import LimitExceeded, Unsupported


log = structlog.get_logger(__name__)

NOTHING_TO_DO: Final = "nothing-to-do"
"""Reason for an event without effect: it concerns nothing on the target."""
_REBALANCE: Final = "REBALANCE"
"""The kind of compaction that gives rows new ids (since Hive 4.0)."""


def is_loaded(event: Event, table: str, context: Context) -> bool:
    """Whether the loaded rows of ``table`` contain the event."""
    loads = context.tables.loads
    if loads.contains_event(table, event.event_id):
        return True
    match event:
        case FilesWritten():
            return loads.contains_write(table, event.write_id)
        case WriteIdsAllocated():
            return all(loads.contains_write(table, write_id) for _, write_id in event.pairs)
    return False


def select_new_write_ids(event: Event, table: str, context: Context) -> Event:
    """Return an allocation without the write ids that the loaded rows contain, and other events unchanged."""
    if not isinstance(event, WriteIdsAllocated):
        return event
    pairs = tuple(pair for pair in event.pairs if not context.tables.loads.contains_write(table, pair[1]))
    return event if pairs == event.pairs else replace(event, pairs=pairs)


def skip_compaction(event: CompactionCommitted, context: Context) -> str | None:
    """Return why a compaction at the source has no effect; None if its table needs a load."""
    table = event.table or ""
    if event.compaction_type != _REBALANCE:
        return NOTHING_TO_DO
    if is_loaded(event, table, context):
        return LOADED
    if context.tables.loads.is_waiting(table):
        return LOADING
    if table in context.tables.quarantine:
        return QUARANTINED
    log.info("a table was rebalanced at the source and will be loaded", table=table, event_id=event.event_id)
    return None


def apply_to_waiting(event: Event, table: str, context: Context) -> str | None:
    """Skip the event of a table that waits for its load; a drop cancels the load and takes effect."""
    if not isinstance(event, TableDropped):
        return LOADING
    context.tables.loads.remove(table)
    tables.drop(event, context)
    return None


def is_rename_of_loads(event: Event, move: Rename, context: Context) -> bool:
    """Whether a rename concerns a load: then ``apply_rename`` applies it."""
    covers = context.policy.covers
    if not covers(*move.before):
        return covers(*move.after)
    if starts_or_stops(move, context.policy):
        return True
    names = [table for db, table in (move.before, move.after) if covers(db, table)]
    return any(
        context.tables.loads.is_waiting(table) or context.tables.loads.contains_event(table, event.event_id)
        for table in names
    )


def apply_rename(event: Event, move: Rename, context: Context) -> str:
    """Apply a rename if one of its names belongs to a table that waits for its load or was loaded, or if
    it brings a table into the policy.
    """
    covers, loads = context.policy.covers, context.tables.loads
    old, new = move.before[1], move.after[1]
    contained = covers(*move.before) and loads.contains_event(old, event.event_id)
    waiting = covers(*move.before) and loads.is_waiting(old)
    if waiting and covers(*move.after) and not _has_load(new, event, context):
        loads.rename(old, new)
    elif covers(*move.after) and not _has_load(new, event, context):
        loads.request(new, "in-scope")
    if covers(*move.before) and not contained:
        loads.remove(old)
        tables.drop_renamed_away(move, context)
    if covers(*move.after) and new in context.tables.quarantine:
        context.tables.quarantine.remove(new)
    return LOADED if contained else LOADING


def remember_rename(event: Event, move: Rename, context: Context) -> None:
    """Record a rename that the target already has: the entries of loads follow it as if replay had applied
    it.
    """
    covers, loads = context.policy.covers, context.tables.loads
    enters = not covers(*move.before) or starts_or_stops(move, context.policy)
    if covers(*move.after) and enters and not _has_load(move.after[1], event, context):
        loads.request(move.after[1], "in-scope")
    if not covers(*move.before) or loads.contains_event(move.before[1], event.event_id):
        return
    if covers(*move.after) and not _has_load(move.after[1], event, context):
        loads.rename(move.before[1], move.after[1])
    else:
        loads.remove(move.before[1])


def _has_load(table: str, event: Event, context: Context) -> bool:
    """Whether the table that has this name after the event was loaded, or waits for its load."""
    return context.tables.loads.is_waiting(table) or context.tables.loads.contains_event(
        table, event.event_id
    )


def find_changed_tables(event: Undecodable, context: Context) -> tuple[str, ...]:
    """Return the tables of the policy that an event without a table may have changed; raise Transient.

    If the event's database is known, it is that of the policy. An unreadable event lacks the names of its
    table and database if they do not exist any more, because the relay finds them only then. The metastore
    can count events by database and table without reading their messages, so the policy searches for its own
    names, including that of a dropped database:

    1. The event is one of another database: it may still have ended a transaction, because those events name
       no database. The result are the tables of the policy's transactions that the source has ended
       meanwhile, usually none.
    2. It concerns one table that the source or the target has: the result is this table.
    3. It concerns the database, or a vanished table: replay renews the database's properties, and the result
       is all tables.
    4. It is unknown, because the log was cleaned or the metastore (before Hive 4) cannot count: the result is
       that of 3.
    """
    names = list_tables_to_load(context)
    changed = _find_changed(event, names, context)
    if changed is None:
        renew_database(context)
        changed = names
    log.warning(
        "an event cannot be read and names no table; the tables that it may have changed are loaded",
        policy=context.policy.name,
        event_id=event.event_id,
        tables=changed[:10],
        count=len(changed),
        problem=str(event.error),
    )
    return changed


def _find_changed(event: Undecodable, names: Sequence[str], context: Context) -> tuple[str, ...] | None:
    """Return the tables of outcomes 1 and 2; None for outcomes 3 and 4."""
    source, db = context.source, context.policy.source_db
    try:
        if not _has_log(event.event_id, context):
            return None
        if event.db is None and not source.has_event(event.event_id, db):
            return _list_tables_of_ended_transactions(context)
        table = _find_table(event.event_id, names, context)
    except Unsupported:
        return None
    return None if table is None else (table,)


def _has_log(event_id: int, context: Context) -> bool:
    """Whether the notification log still has this event; False if its oldest event is too large to read."""
    try:
        oldest = context.source.next_events(0, 1)
    except LimitExceeded:
        return False
    return bool(oldest) and oldest[0].eventId <= event_id


def _find_table(event_id: int, names: Sequence[str], context: Context) -> str | None:
    """Return the name in ``names`` that the event concerns, found by bisection; None if it concerns none of
    them.
    """
    source, db = context.source, context.policy.source_db
    if not names or not source.has_event(event_id, db, names):
        return None
    while len(names) > 1:
        half = names[: len(names) // 2]
        names = half if source.has_event(event_id, db, half) else names[len(half) :]
    return names[0]


def _list_tables_of_ended_transactions(context: Context) -> tuple[str, ...]:
    """Return the tables of transactions that are open here and have ended at the source."""
    here = set(context.tables.write_ids.open_txns())
    if not here:
        return ()
    listed = context.source.open_txns_info().open_txns
    ended = here - {txn.id for txn in listed if txn.state == TxnState.OPEN}
    txns = [txn for txn_id in ended if (txn := context.tables.write_ids.get(txn_id)) is not None]
    return tuple(sorted({name.partition(".")[2] for txn in txns for name, _, _ in txn.allocations}))


log = structlog.get_logger(__name__)
