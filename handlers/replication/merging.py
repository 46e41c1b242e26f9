"""Which ALTER_TABLE events of a batch need not be applied, because a later one says it all.

About a fifth of a busy log are ALTER_TABLE events that only touch statistics parameters, two to six per statement (reference:
hive-replication.md §0b.6), each worth tens of milliseconds at the target. An ALTER_TABLE carries the whole table, so that of
two that follow each other the first is contained in the second. It may be left out only if nothing in between could see the
difference: no other event of that table but allocations and statistics, and no end of a transaction in which it might have
become visible.
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
from state.errors import BadInput


if TYPE_CHECKING:
    from collections.abc import Iterable


_INVISIBLE = (TxnsOpened, WriteIdsAllocated, Unhandled)


def superseded(events: Iterable[Event]) -> frozenset[int]:
    """Return the ids of the ALTER_TABLE events that a later one in ``events`` contains.

    Objects of every ALTER_TABLE are read: hand in those that concern the policy.

    A statistics event is never merged away, and one that lies between two alters keeps the first (its accuracy flags refer to
    the table as it then was). Renames and truncations are never left out nor do they supersede.
    """
    done: set[int] = set()
    pending: dict[tuple[str | None, str | None], int] = {}
    for event in events:
        if isinstance(event, _INVISIBLE):
            continue
        if isinstance(event, TxnCommitted | TxnAborted):
            pending.clear()
            continue
        key = (event.db, event.table)
        if isinstance(event, TableAltered) and _is_plain(event):
            if key in pending:
                done.add(pending[key])
            pending[key] = event.event_id
        elif isinstance(event, StatisticsUpdated | FilesWritten) or event.table is not None:
            pending.pop(key, None)
        else:
            pending.clear()
    return frozenset(done)


def _is_plain(event: TableAltered) -> bool:
    """Whether the event can be read, and neither truncates nor renames."""
    if event.truncate:
        return False
    try:
        before, after = event.before.value, event.after.value
    except BadInput:
        return False
    return (before.tableName, before.dbName) == (after.tableName, after.dbName)
