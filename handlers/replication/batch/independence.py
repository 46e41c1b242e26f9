"""Which events of a batch do not depend on those before them: the rules of work ahead of the turn (``work_ahead``). Pure functions.

An event may be applied ahead of its turn when every event before it that concerns its table is applied and recorded. After a crash, the event
is then the first of its table that is repeated, and applying it again changes nothing. So nothing is ever repeated together that must not be
(``record_points``), including events that create or drop a table.

Two things stop all tables: an event that may concern any of them (of the database, a function, a foreign key, or one that cannot be decoded),
and a rename. The end of a transaction concerns the tables that it writes into.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from handlers.events import (
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
from handlers.replication.batch.joined_events import OF_TABLES, changes_only_objects
from handlers.replication.batch.superseded_alters import is_plain
from handlers.replication.policy.renames import find_rename
from handlers.replication.target.objects import is_transactional
from state.errors import BadInput


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from handlers.events import Embedded, Event
    from handlers.structs.objects import Table


CANDIDATES: Final = (
    TableCreated,
    TableDropped,
    TableAltered,
    PartitionsAdded,
    PartitionsDropped,
    PartitionsAltered,
    StatisticsUpdated,
)
"""The kinds of events of which some may run ahead."""


def find_predecessors(
    events: Iterable[Event], tables_of: Callable[[int], Iterable[str] | None]
) -> dict[int, int]:
    """Return, for each event of a table, the id of the last one before it in ``events`` that it depends on; 0 if there is none.

    ``tables_of`` returns the tables that a transaction writes into before the first of ``events``, and None if that is not known.
    """
    found: dict[int, int] = {}
    last: dict[str, int] = {}
    writes: dict[int, set[str]] = {}
    barrier, renamed = 0, False
    for event in events:
        if isinstance(event, TxnsOpened | Unhandled):
            continue
        if isinstance(event, TxnCommitted | TxnAborted):
            known = None if renamed else tables_of(event.txn_id)
            if known is None:
                barrier = event.event_id
            for table in {*(known or ()), *writes.get(event.txn_id, ())}:
                last[table] = event.event_id
        elif event.table is None or not isinstance(event, OF_TABLES) or find_rename(event) is not None:
            barrier, renamed = event.event_id, renamed or isinstance(event, TableAltered)
        else:
            found.setdefault(event.event_id, max(barrier, last.get(event.table, 0)))
            last[event.table] = event.event_id
            if isinstance(event, WriteIdsAllocated):
                for txn_id, _ in event.pairs:
                    writes.setdefault(txn_id, set()).add(event.table)
    return found


def may_run_ahead(event: Event) -> bool:
    """Whether the event's effect is one change of the target's metastore that needs no file and no state: only of a transactional table.

    Tables without transactions may share directories, and their files are copied with their events.
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
