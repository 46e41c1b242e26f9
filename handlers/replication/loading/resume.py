"""The release of a quarantined table: replay continues at its stop if possible; otherwise the table gets a
load.

A resumed table is a load whose rows are on the target already, as of the event before the one that failed,
and catches up like every other load (``catch_up``). It copies only the files of the missed events.

The rule is in ``state/transactions/resumption``. This module collects its facts: the entry of the quarantine,
the write-id mapping, the target's table and write ids, and whether the events are still readable. If the
table fails again while it resumes, it gets a load: every release ends with a followed table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from handlers.events import Event
from handlers.replication.context import Context
from handlers.replication.loading.table.target_table import LOAD
from handlers.replication.tables.quarantine import QuarantinedTable
from handlers.replication.target.objects import is_transactional
from handlers.replication.transactions.target_write_ids import find_state
from state.errors import GapDetected, NotFound
from state.transactions.resumption import Held, TargetWriteIds, find_obstacle
from state.transactions.valid_write_ids import WriteIdState


ReadEvents = Callable[[int, int], Iterable[Event]]


@dataclass(frozen=True, slots=True)
class Release:
    """How a table returns."""

    table: str
    resumes_at: int | None
    """The event at which replay of the table continues; None for a load."""
    reason: str | None
    """The reason of the load; None if it resumes."""


def find_release_obstacle(entry: QuarantinedTable, context: Context, read: ReadEvents) -> str | None:
    """Return why a quarantined table needs a load; None if it can resume. Raises Transient."""
    write_ids = context.tables.write_ids.held_write_ids(f"{context.policy.source_db}.{entry.table}")
    target = _read_target(entry, write_ids, context)
    obstacle = find_obstacle(entry.stopped, table=entry.table, held=write_ids, target=target)
    if obstacle is not None:
        return obstacle
    return _find_lost_event(entry.event_id, read)


def _find_lost_event(event_id: int, read: ReadEvents) -> str | None:
    """Return why the event is no longer readable; None if it is."""
    try:
        is_readable = any(True for _ in read(event_id - 1, event_id))
    except GapDetected as gap:
        return f"event {event_id} can no longer be read: {gap}"
    return None if is_readable else f"event {event_id} can no longer be read"


def _read_target(entry: QuarantinedTable, held: Held, context: Context) -> TargetWriteIds | None:
    """Return the write ids of the target's table; None if it does not exist or is an unfinished load."""
    db = context.policy.target_db
    try:
        table = context.target.get_table(db, entry.table)
    except NotFound:
        return None
    if LOAD in (table.parameters or {}):
        return None
    if not is_transactional(table):
        return TargetWriteIds()
    (valid,) = context.target.valid_write_ids([f"{db}.{entry.table}"])
    beyond_list = {
        write_id
        for write_id, txn_id in held
        if write_id not in valid.open
        and find_state(context, entry.table, write_id, txn_id) is WriteIdState.OPEN
    }
    mark = context.target.highest_write_id(db, entry.table)
    return TargetWriteIds(mark, frozenset(valid.open) | beyond_list)
