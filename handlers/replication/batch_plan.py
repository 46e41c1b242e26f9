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
    DatabaseCreated,
    DatabaseDropped,
    Event,
    FilesWritten,
    PartitionsAltered,
    PartitionsDropped,
    StatisticsUpdated,
    TableAltered,
    TxnAborted,
    TxnCommitted,
    TxnsOpened,
    Undecodable,
    Unhandled,
    WriteIdsAllocated,
)
from handlers.replication.renames import name_on_target, needs_checkpoint
from state.errors import BadInput


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


_INVISIBLE = (TxnsOpened, WriteIdsAllocated, Unhandled)


def find_superseded_alters(events: Iterable[Event]) -> frozenset[int]:
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


def select_lookahead_events(events: Iterable[Event]) -> list[Event]:
    """Return those of a batch's events that ``find_early_copies`` has to look at, in order: few, so that it may look often."""
    return [
        event
        for event in events
        if isinstance(event, FilesWritten | DatabaseCreated | DatabaseDropped | Undecodable)
        or _moves_files(event)
    ]


def find_early_copies(
    coming: Iterable[Event], allocated: Callable[[int, str, int], bool]
) -> Iterator[FilesWritten]:
    """Yield the write events among ``coming``, the landmarks ahead, whose files may be copied now.

    ``allocated`` tells whether a transaction holds a write id of a table: (transaction id, ``db.table``, write id).
    """
    unsettled: set[tuple[str | None, str | None]] = set()
    for event in coming:
        if isinstance(event, FilesWritten):
            settled = (event.db, event.table) not in unsettled
            if settled and allocated(event.txn_id, f"{event.db}.{event.table}", event.write_id):
                yield event
        elif isinstance(event, DatabaseCreated | DatabaseDropped | Undecodable):
            return
        else:
            unsettled |= {(event.db, event.table), (event.db, name_on_target(event))}


def _moves_files(event: Event) -> bool:
    """Whether files that lie in the table before the event may lie elsewhere, or nowhere, after it."""
    if isinstance(event, PartitionsDropped):
        return True
    if isinstance(event, TableAltered | PartitionsAltered) and event.truncate:
        return True
    return needs_checkpoint(event)
