"""Which ALTER_TABLE events of a batch to skip because a later one supersedes them: a decision about the events alone.

About a fifth of a busy log are ALTER_TABLE events that only change statistics parameters, two to six per
statement (reference: hive-replication.md §0b.6), and each costs tens of milliseconds at the target. An ALTER_TABLE contains
the whole table, so the second of two supersedes the first. The first may be skipped only if nothing in between could see the
difference: no event of this table except allocations, and no end of a transaction that might have made it visible. Both must have
the same write id, because the metastore decides by the last one whether statistics are accurate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.events import (
    Event,
    FilesWritten,
    StatisticsUpdated,
    TableAltered,
    TxnAborted,
    TxnCommitted,
    TxnsOpened,
    Unhandled,
    WriteIdsAllocated,
)
from handlers.replication.target.objects import changes_columns
from state.errors import BadInput


if TYPE_CHECKING:
    from collections.abc import Iterable


_INVISIBLE = (TxnsOpened, WriteIdsAllocated, Unhandled)


def find_superseded_alters(events: Iterable[Event]) -> frozenset[int]:
    """Return the ids of the ALTER_TABLE events in ``events`` that a later one supersedes.

    The objects of every ALTER_TABLE are decoded, so ``events`` should contain only those that concern the policy.

    A statistics event between two alters keeps the first, because its accuracy flags refer to the table at that time.
    Renames, truncations and changes of the location or of columns are never superseded, and do not supersede.
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
    """Whether the event can be decoded, and neither truncates nor renames nor moves to another location nor changes columns."""
    if event.truncate:
        return False
    try:
        before, after = event.before.value, event.after.value
    except BadInput:
        return False
    if (before.tableName, before.dbName) != (after.tableName, after.dbName) or changes_columns(before, after):
        return False
    return before.sd.location == after.sd.location
