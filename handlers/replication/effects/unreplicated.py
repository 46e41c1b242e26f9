"""Tables of a policy's database that cannot be replicated (``replicability``): their events have no effect on the replica.

Materialized views belong to them, with their rebuilds. Hive's own replication leaves them out as well
(hive.repl.include.materialized.views=false): the target's optimizer would answer queries from a view that belongs to another
snapshot.

Most events contain the object of their table, which shows the obstacle. An allocation and others do not. The names are
therefore part of the projection's state, with the reasons, which the status shows.

An allocation may come before the CREATE_TABLE that shows the kind, as for every CREATE TABLE AS SELECT. It is replayed, which
no reader sees, and the write id is forgotten when the CREATE_TABLE arrives.

A table can change its kind: Hive turns plain tables into Iceberg tables in place. The target then keeps the rows of the last
replicated state. If a table can be replicated again, it is loaded.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

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
from handlers.replication.effects.tables import rename_kept
from handlers.replication.policy.renames import find_rename
from handlers.replication.policy.replicability import (
    SWITCHED_OFF,
    find_obstacle,
    may_have_obstacle,
)
from handlers.replication.tables.table_entries import UnreplicatedTable
from handlers.replication.views.obstacles import VIEW_CODE, find_source_obstacle
from handlers.structs import tjson
from handlers.structs.objects import Table
from state.errors import BadInput, NotFound


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.events import Event
    from handlers.replication.context import Context
    from handlers.replication.policy.replicability import Obstacle
    from handlers.replication.tables.table_loads import LoadedTable


@dataclass(frozen=True, slots=True)
class ShownKind:
    """What an event shows about the kind of its table."""

    change: Literal["none", "left-out", "replicable", "dropped"] = "none"
    """How the entry of the table changes; ``replicable`` removes it."""
    obstacle: Obstacle | None = None
    """Why the table is left out from now on, or as before."""
    is_skipped: bool = False
    """Whether the event has no effect on the target."""


def classify(event: Event, context: Context) -> ShownKind:
    """Return what the event shows about the kind of its table; changes nothing."""
    table = event.table
    if table is None or not context.policy.covers(event.db, table):
        return ShownKind()
    entry = None if _renames(event, table, context) else context.tables.unreplicated.get(table)
    owner = _find_object(event)
    obstacle = None if owner is None else _find_obstacle(owner, context)
    if isinstance(event, TableDropped):
        if obstacle is not None and obstacle.code == VIEW_CODE:
            obstacle = None  # what the view reads may have been dropped before
        if obstacle is not None or (entry is not None and owner is None):
            return ShownKind("dropped", is_skipped=entry is None or not entry.on_target)
    if obstacle is not None:
        return ShownKind("left-out", obstacle, is_skipped=True)
    if entry is not None and owner is not None:
        return ShownKind("replicable")
    return ShownKind(is_skipped=entry is not None)


def _renames(event: Event, table: str, context: Context) -> bool:
    """Whether the event gives another name to the listed ``table``, so that its entry does not concern the table of the event."""
    if not isinstance(event, TableAltered) or table not in context.tables.unreplicated:
        return False
    move = find_rename(event)
    return move is not None and move.before == (event.db, table)


def record_kind(event: Event, context: Context) -> bool:
    """Record what the event shows about the kind of its table; return whether the event has no effect otherwise."""
    shown, table = classify(event, context), event.table or ""
    _follow_rename(event, context)
    match shown.change:
        case "dropped":
            context.tables.unreplicated.remove(table)
            context.tables.forget(table)
        case "left-out":
            assert shown.obstacle is not None
            _leave_out(event, table, shown.obstacle, context)
        case "replicable":
            _replicate_again(event, table, context)
    return shown.is_skipped


def has_obstacle(event: Event, context: Context) -> bool:
    """Whether the event shows that its table cannot be replicated; changes nothing."""
    owner = _find_object(event)
    return owner is not None and _find_obstacle(owner, context) is not None


def record_existing(event_id: int, context: Context) -> None:
    """Record tables of the source that cannot be replicated and of which no event was applied yet: those that the target lacks.

    A policy without its state file, or of a version that did not record them, would otherwise list them only after their next event.
    Those that the target has in the same form are recorded, too: a version that did not recognise their kind has replicated a part.
    """
    policy = context.policy
    try:
        present = set(context.target.table_names(policy.target_db))
        names = context.source.table_names(policy.source_db)
    except NotFound:
        return
    present -= _list_foreign(context, sorted(present & set(names)))
    missing = [
        name
        for name in names
        if policy.covers(policy.source_db, name)
        and name not in present
        and not context.tables.loads.is_waiting(name)
    ]
    for start in range(0, len(missing), _PAGE):
        for table in context.source.get_tables(policy.source_db, missing[start : start + _PAGE]):
            name = (table.tableName or "").lower()
            obstacle = find_source_obstacle(table, policy, context.source)
            if obstacle is not None:
                _record(name, event_id, obstacle, context)


def _list_foreign(context: Context, names: Sequence[str]) -> set[str]:
    """Return those of the target's tables that could not be replicated."""
    target, policy = context.target, context.policy
    pages = (names[start : start + _PAGE] for start in range(0, len(names), _PAGE))
    tables = (table for page in pages for table in target.get_tables(policy.target_db, page))
    return {(each.tableName or "").lower() for each in tables if find_obstacle(each, policy) is not None}


_PAGE: Final = 200


def list_readable_views(context: Context) -> list[str]:
    """Return the listed views that can be replicated now: what they read is replicated since, for example by another policy."""
    policy, db = context.policy, context.policy.source_db
    listed = [entry.table for entry in context.tables.unreplicated.entries() if entry.code == VIEW_CODE]
    readable: list[str] = []
    for start in range(0, len(listed), _PAGE):
        with suppress(NotFound):
            found = context.source.get_tables(db, listed[start : start + _PAGE])
            readable += [
                (table.tableName or "").lower()
                for table in found
                if find_source_obstacle(table, policy, context.source) is None
            ]
    return readable


def record_obstacle(loaded: LoadedTable, context: Context) -> None:
    """Record what a load found: a table that cannot be replicated, or one that can."""
    if loaded.obstacle is not None:
        kept = loaded.obstacle == SWITCHED_OFF and _is_on_target(loaded.table, context)
        _record(loaded.table, loaded.event_id, loaded.obstacle, context, on_target=kept)
    elif loaded.exists:
        context.tables.unreplicated.remove(loaded.table)


def _record(
    table: str, event_id: int, obstacle: Obstacle, context: Context, *, on_target: bool = False
) -> None:
    """Record that ``table`` is not replicated, and why; a known reason is not reported again."""
    known = context.tables.unreplicated.get(table)
    if known is not None and (known.code, known.reason) == (obstacle.code, obstacle.reason):
        return
    context.tables.unreplicated.put(
        UnreplicatedTable(table, event_id, obstacle.code, obstacle.reason, on_target)
    )
    context.observer.table_unreplicated(f"{context.policy.source_db}.{table}", obstacle.code, obstacle.reason)


def _follow_rename(event: Event, context: Context) -> None:
    """Forget the old name of a renamed table; its event shows whether the new name cannot be replicated either.

    What the target has kept of it is renamed, too, because its old name may soon belong to another table.
    """
    if isinstance(event, TableAltered) and len(context.tables.unreplicated):
        move = find_rename(event)
        if move is not None and context.policy.covers(*move.before):
            entry = context.tables.unreplicated.get(move.before[1])
            context.tables.unreplicated.remove(move.before[1])
            if entry is not None and entry.on_target and context.policy.covers(*move.after):
                rename_kept(move, context)


def _find_obstacle(owner: Embedded[Table], context: Context) -> Obstacle | None:
    """Return the table's obstacle; most objects need not be decoded for that."""
    if not may_have_obstacle(owner.text):
        return None
    try:
        return find_source_obstacle(owner.value, context.policy, context.source)
    except BadInput:
        return None


def _leave_out(event: Event, table: str, obstacle: Obstacle, context: Context) -> None:
    """Record the table; what replay knows about it as a replicated one is forgotten."""
    if obstacle.code == VIEW_CODE:
        if _is_on_target(table, context):  # it has no rows that are worth keeping
            context.target.drop_table(context.policy.target_db, table, delete_data=False)
        context.table_cache.forget(table)
        context.tables.quarantine.remove(table)
        _record(table, event.event_id, obstacle, context)
    elif table not in context.tables.unreplicated:
        renamed = _keep_renamed(event, context)
        on_target = renamed or (isinstance(event, TableAltered) and _is_on_target(table, context))
        _record(table, event.event_id, obstacle, context, on_target=on_target)
        context.tables.write_ids.drop_table(f"{event.db}.{table}")
        context.tables.quarantine.remove(table)


def _keep_renamed(event: Event, context: Context) -> bool:
    """Rename what the target has of a table that cannot be replicated since its rename; return whether it has any.

    Its old name may soon belong to another table.
    """
    move = find_rename(event) if isinstance(event, TableAltered) else None
    if move is None or not context.policy.covers(*move.before):
        return False
    present = _is_on_target(move.before[1], context)
    if present:
        rename_kept(move, context)
    context.tables.forget(move.before[1])
    return present


def _is_on_target(table: str, context: Context) -> bool:
    """Whether the target has a replicated table of this name; one with an obstacle of its own is not of the replica."""
    try:
        present = context.target.get_table(context.policy.target_db, table)
        return find_obstacle(present, context.policy) is None
    except NotFound:
        return False


def _replicate_again(event: Event, table: str, context: Context) -> None:
    """Forget a table that is dropped, or whose name belongs to one that can be replicated: created now, or to be loaded."""
    context.tables.unreplicated.remove(table)
    if not isinstance(event, TableCreated | TableDropped) and not context.tables.loads.is_waiting(table):
        context.tables.loads.request(table, "in-scope")


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
