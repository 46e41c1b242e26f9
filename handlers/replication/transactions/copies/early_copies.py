"""Which files of a batch may be copied before the turn of their transaction: a decision about its events alone.

Copies wait for disks and networks, calls wait for the target's metastore. So that the waiting times do not add
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
    TableAltered,
    Undecodable,
)
from handlers.replication.policy.renames import name_on_target, needs_checkpoint


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


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
