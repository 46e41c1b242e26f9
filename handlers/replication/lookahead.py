"""Which files of a batch may be copied before their turn.

Copies wait for disks and networks, calls wait for the target's metastore: done one after the other they add up, so the files of
transactions further on are copied while earlier ones are replayed. What may go ahead is decided here, on the events alone.

A write's files may be copied once its write id is allocated on the target (nobody sees them before the commit, and the target's
compactor keeps away), and if no event in between can change where they belong: the table's creation, end, renaming or
truncation, and the same of its partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.events import (
    DatabaseCreated,
    DatabaseDropped,
    FilesWritten,
    PartitionsAltered,
    PartitionsDropped,
    TableAltered,
    Undecodable,
)
from handlers.replication.names import name_before, needs_footing


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from handlers.events import Event


def landmarks(events: Iterable[Event]) -> list[Event]:
    """Return those of a batch's events that ``copies_ahead`` has to look at, in order: few, so that it may look often."""
    return [
        event
        for event in events
        if isinstance(event, FilesWritten | DatabaseCreated | DatabaseDropped | Undecodable)
        or _moves_files(event)
    ]


def copies_ahead(
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
            unsettled |= {(event.db, event.table), (event.db, name_before(event))}


def _moves_files(event: Event) -> bool:
    """Whether files that lie in the table before the event may lie elsewhere, or nowhere, after it."""
    if isinstance(event, PartitionsDropped):
        return True
    if isinstance(event, TableAltered | PartitionsAltered) and event.truncate:
        return True
    return needs_footing(event)
