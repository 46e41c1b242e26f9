"""Materialized views of a policy's database: their events have no effect on the replica, and neither have their rebuilds.

Hive's own replication leaves them out as well (hive.repl.include.materialized.views=false): the target's optimizer would answer
queries from a view that belongs to another snapshot. Most events contain the object of their table, which shows its kind. An
allocation does not. The names are therefore part of the projection's state.

An allocation may come before the CREATE_TABLE that shows the kind, as for every CREATE TABLE AS SELECT. It is replayed, which
nobody sees, and the write id is forgotten when the CREATE_TABLE arrives.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from handlers.events import (
    Embedded,
    FilesWritten,
    Inserted,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    StatisticsUpdated,
    TableAltered,
    TableCreated,
    TableDropped,
)
from handlers.replication.entries.table_entries import TableEntries
from handlers.structs import tjson
from handlers.structs.objects import Table
from state.errors import BadInput


if TYPE_CHECKING:
    from handlers.events import Event
    from handlers.replication.context import Context


MATERIALIZED: Final = "MATERIALIZED_VIEW"


@dataclass(frozen=True, slots=True)
class MaterializedView:
    """A materialized view of the source database. The field names are those of the stored JSON."""

    table: str
    event_id: int
    """The event that showed its kind."""


class MaterializedViews(TableEntries[MaterializedView]):
    """The materialized views of one policy, by name."""

    prefix = b"materialized-view/"
    kind = MaterializedView


def is_of_view(event: Event, context: Context) -> bool:
    """Whether the event concerns a materialized view; keeps the names of the views up to date."""
    table = event.table
    if table is None or not context.policy.covers(event.db, table):
        return False
    owner = _find_object(event)
    if owner is not None and _is_materialized(owner):
        _learn(event, table, context)
        return True
    if table not in context.views:
        return False
    if owner is not None or isinstance(event, TableDropped):
        context.views.remove(table)  # dropped; or a table has the name now
    return owner is None


def _is_materialized(owner: Embedded[Table]) -> bool:
    """Whether the object is a materialized view; most objects need not be decoded for that."""
    if f'"{MATERIALIZED}"' not in owner.text:
        return False
    try:
        return owner.value.tableType == MATERIALIZED
    except BadInput:
        return False


def _learn(event: Event, table: str, context: Context) -> None:
    if isinstance(event, TableDropped):
        context.views.remove(table)
        context.quarantine.remove(table)
        context.loads.remove(table)
    elif table not in context.views:
        context.views.put(MaterializedView(table, event.event_id))
        context.write_ids.drop_table(f"{event.db}.{table}")
        context.quarantine.remove(table)


def _find_object(event: Event) -> Embedded[Table] | None:
    """Return the table's object in an event; None if there is none."""
    match event:
        case TableCreated() | TableAltered():
            return event.after
        case TableDropped():
            return event.before
        case FilesWritten():
            text = event.owner_text
            return None if text is None else Embedded(text, partial(tjson.decode, Table))
        case PartitionsAdded() | PartitionsAltered() | PartitionsDropped():
            return event.owner
        case Inserted() | StatisticsUpdated():
            return event.owner
        case _:
            return None
