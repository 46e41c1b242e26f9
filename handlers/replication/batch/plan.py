"""What the events of a batch alone decide: which ALTER_TABLEs to skip, and which files to copy before their turn.

Superseded alters. About a fifth of a busy log are ALTER_TABLE events that only change statistics parameters, two to six per
statement (reference: hive-replication.md §0b.6), and each costs tens of milliseconds at the target. An ALTER_TABLE contains
the whole table, so the second of two supersedes the first. The first may be skipped only if nothing in between could see the
difference: no event of this table except allocations, and no end of a transaction that might have made it visible. Both must have
the same write id, because the metastore decides by the last one whether statistics are accurate.

Early copies. Copies wait for disks and networks, calls wait for the target's metastore. So that the waiting times do not add
up, the files of later transactions are copied while earlier ones are replayed. The files of a write event may be copied once
its write id is allocated on the target: they are invisible before the commit, and the target's compactor ignores them. No event
in between may change where the files belong. Such events are look-ahead barriers: creation, drop, rename and truncation of
the table, and the same of its partitions.
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
from handlers.replication.policy.renames import name_on_target, needs_checkpoint
from handlers.replication.target.objects import changes_columns
from state.errors import BadInput


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


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


def select_lookahead_events(events: Iterable[Event]) -> list[Event]:
    """Return the write events and look-ahead barriers of a batch, in order: the input of ``find_early_copies``.

    They are few, so that ``find_early_copies`` can run after every allocation.
    """
    return [
        event
        for event in events
        if isinstance(event, FilesWritten | DatabaseCreated | DatabaseDropped | Undecodable)
        or _is_barrier(event)
    ]


def find_early_copies(
    coming: Iterable[Event], allocated: Callable[[int, str, int], bool]
) -> Iterator[FilesWritten]:
    """Yield the write events whose files may be copied now; ``coming`` is the rest of ``select_lookahead_events``.

    ``allocated`` returns whether a transaction holds a write id of a table: (transaction id, ``db.table``, write id).
    """
    behind_barrier: set[tuple[str | None, str | None]] = set()
    for event in coming:
        if isinstance(event, FilesWritten):
            free = (event.db, event.table) not in behind_barrier
            if free and allocated(event.txn_id, f"{event.db}.{event.table}", event.write_id):
                yield event
        elif isinstance(event, DatabaseCreated | DatabaseDropped | Undecodable):
            return
        else:
            behind_barrier |= {(event.db, event.table), (event.db, name_on_target(event))}


def _is_barrier(event: Event) -> bool:
    """Whether the event may move or remove files of the table."""
    if isinstance(event, PartitionsDropped):
        return True
    if isinstance(event, TableAltered | PartitionsAltered) and event.truncate:
        return True
    return needs_checkpoint(event)
