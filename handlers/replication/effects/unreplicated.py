"""Tables of a policy's database that cannot be replicated (``replicability``): their events have no effect on
the target. Materialized views and their rebuilds belong here. Hive's own replication leaves them out as well
(hive.repl.include.materialized.views=false): the target's optimizer would answer queries from a view that
belongs to another snapshot.

Most events contain the object of their table, which shows the obstacle; some, such as allocations, do not.
The state of the projection therefore keeps the names of these tables with the reasons, and the status shows
them. An event shows one of these signs, with these consequences:

- ``REPLICATED``: the table has neither an obstacle nor an entry. Replay applies the event.
- ``LEFT_OUT``: its object has an obstacle. It gets an entry, and replay skips the event.
- ``LISTED``: it has an entry, and the event has no object. Replay skips the event.
- ``REPLICABLE``: it has an entry, but its object has no obstacle any more. Replay removes the entry and
  applies the event. The table gets a load, unless the event creates or drops it.
- ``DROPPED``: the event drops it, and it has an obstacle or an entry. Replay removes the entry and skips the
  event.
- ``DROPPED_WITH_ROWS``: the same, but the target has rows of a time when the table had a replica. The drop
  takes effect.

An allocation may come before the CREATE_TABLE that shows the kind, as for every CREATE TABLE AS SELECT.
Replay applies it, which no reader sees, and forgets the write id when the CREATE_TABLE arrives.

A table can change its kind: Hive turns plain tables into Iceberg tables in place. The target then keeps the
rows of the last replicated state, even under a later name. If replication of a table becomes possible again,
the table gets a load.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Final

from handlers.events import (
    Embedded,
    Event,
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
from handlers.metastore.client import Metastore
from handlers.replication.context import Context
from handlers.replication.effects.tables import rename_kept
from handlers.replication.policy.renames import find_rename
from handlers.replication.policy.replicability import (
    SWITCHED_OFF,
    Obstacle,
    find_obstacle,
    may_have_obstacle,
)
from handlers.replication.tables.table_entries import UnreplicatedTable
from handlers.replication.tables.table_loads import LoadedTable
from handlers.replication.views.obstacles import VIEW_CODE, find_source_obstacle
from handlers.structs import tjson
from handlers.structs.objects import Table
from state.errors import BadInput, NotFound
from state.pieces import in_pieces


_PAGE: Final = 200
"""Tables that one call reads."""


class Shown(Enum):
    """The sign that an event shows about its table, as listed above."""

    REPLICATED = auto()
    LEFT_OUT = auto()
    LISTED = auto()
    REPLICABLE = auto()
    DROPPED = auto()
    DROPPED_WITH_ROWS = auto()


_SKIPPED: Final = frozenset({Shown.LEFT_OUT, Shown.LISTED, Shown.DROPPED})


@dataclass(frozen=True, slots=True)
class ShownKind:
    """The kinds of signs."""

    shown: Shown
    obstacle: Obstacle | None = None
    """Why the policy omits the table."""

    @property
    def is_skipped(self) -> bool:
        """Whether the event has no effect on the target."""
        return self.shown in _SKIPPED


def record_kind(event: Event, context: Context) -> bool:
    """Record the event's sign about its table; return whether to skip the event."""
    kind, table = classify(event, context), event.table or ""
    _follow_rename(event, context)
    match kind:
        case ShownKind(Shown.LEFT_OUT, Obstacle() as obstacle):
            _leave_out(event, table, obstacle, context)
        case ShownKind(Shown.REPLICABLE):
            context.tables.unreplicated.remove(table)
            loads = context.tables.loads
            if not isinstance(event, TableCreated | TableDropped) and not loads.is_waiting(table):
                loads.request(table, "in-scope")
        case ShownKind(Shown.DROPPED | Shown.DROPPED_WITH_ROWS):
            context.tables.unreplicated.remove(table)
            context.tables.forget(table)
    return kind.is_skipped


def classify(event: Event, context: Context) -> ShownKind:
    """Return the event's sign about its table; changes nothing."""
    table = event.table
    if table is None or not context.policy.covers(event.db, table):
        return ShownKind(Shown.REPLICATED)
    entry = context.tables.unreplicated.get(table)
    if entry is not None and (move := find_rename(event)) is not None and move.before == (event.db, table):
        entry = None  # the listed table gets another name
    owner = _find_object(event)
    obstacle = None if owner is None else _find_obstacle(owner, context)
    if isinstance(event, TableDropped):
        if obstacle is not None and obstacle.code == VIEW_CODE:
            obstacle = None  # the source may have dropped the view's tables before
        if obstacle is not None or (entry is not None and owner is None):
            has_rows = entry is not None and entry.on_target
            return ShownKind(Shown.DROPPED_WITH_ROWS if has_rows else Shown.DROPPED)
    if obstacle is not None:
        return ShownKind(Shown.LEFT_OUT, obstacle)
    if entry is None:
        return ShownKind(Shown.REPLICATED)
    return ShownKind(Shown.LISTED if owner is None else Shown.REPLICABLE)


def has_obstacle(event: Event, context: Context) -> bool:
    """Whether the event shows an obstacle to its table's replication; changes nothing."""
    owner = _find_object(event)
    return owner is not None and _find_obstacle(owner, context) is not None


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
        case PartitionsAdded() | PartitionsAltered() | PartitionsDropped() | Inserted() | StatisticsUpdated():
            return event.owner
        case _:
            return None


def _find_obstacle(owner: Embedded[Table], context: Context) -> Obstacle | None:
    """Return the table's obstacle; usually without decoding the objects."""
    if not may_have_obstacle(owner.text):
        return None
    try:
        return find_source_obstacle(owner.value, context.policy, context.source)
    except BadInput:
        return None


def _follow_rename(event: Event, context: Context) -> None:
    """Forget the old name of a listed table; its event shows whether the new name has an obstacle too.

    The target's copy gets the new name too, because its old name may soon belong to another table.
    """
    unreplicated = context.tables.unreplicated
    if len(unreplicated) and (move := find_rename(event)) is not None and context.policy.covers(*move.before):
        entry = unreplicated.get(move.before[1])
        unreplicated.remove(move.before[1])
        if entry is not None and entry.on_target and context.policy.covers(*move.after):
            rename_kept(move, context)


def _leave_out(event: Event, table: str, obstacle: Obstacle, context: Context) -> None:
    """Record the table; replay forgets its state as a replicated one."""
    if obstacle.code == VIEW_CODE:
        if _is_on_target(table, context):  # it has no rows that are worth keeping
            context.target.drop_table(context.policy.target_db, table, delete_data=False)
        context.table_cache.forget(table)
        context.tables.quarantine.remove(table)
        _record(table, event.event_id, obstacle, context)
    elif table not in context.tables.unreplicated:
        on_target = isinstance(event, TableAltered) and _keep_rows(event, table, context)
        _record(table, event.event_id, obstacle, context, on_target=on_target)
        context.tables.write_ids.drop_table(f"{event.db}.{table}")
        context.tables.quarantine.remove(table)


def _keep_rows(event: TableAltered, table: str, context: Context) -> bool:
    """Return whether the target has the table, after giving it the same new name as at the source.

    Its old name may soon belong to another table. The table is not replicated from now on, under any name.
    """
    move = find_rename(event)
    if move is not None and context.policy.covers(*move.before):
        is_kept = _is_on_target(move.before[1], context)
        if is_kept:
            rename_kept(move, context)
        context.tables.forget(move.before[1])
        if is_kept:
            return True
    return _is_on_target(table, context)


def _is_on_target(table: str, context: Context) -> bool:
    """Whether the target has a replicated table of this name; a table that has an obstacle itself does not
    belong to the replica.
    """
    try:
        present = context.target.get_table(context.policy.target_db, table)
    except NotFound:
        return False
    return find_obstacle(present, context.policy) is None


def _record(
    table: str, event_id: int, obstacle: Obstacle, context: Context, *, on_target: bool = False
) -> None:
    """Record that ``table`` has no replica, and why; reports a recorded reason only once."""
    entry = context.tables.unreplicated.get(table)
    if entry is not None and (entry.code, entry.reason) == (obstacle.code, obstacle.reason):
        return
    context.tables.unreplicated.put(
        UnreplicatedTable(table, event_id, obstacle.code, obstacle.reason, on_target)
    )
    context.observer.table_unreplicated(f"{context.policy.source_db}.{table}", obstacle.code, obstacle.reason)


def record_obstacle(loaded: LoadedTable, context: Context) -> None:
    """Record the result of a load: a table that cannot be replicated, or one that can."""
    if loaded.obstacle is not None:
        on_target = loaded.obstacle == SWITCHED_OFF and _is_on_target(loaded.table, context)
        _record(loaded.table, loaded.event_id, loaded.obstacle, context, on_target=on_target)
    elif loaded.exists:
        context.tables.unreplicated.remove(loaded.table)


def record_existing(event_id: int, context: Context) -> None:
    """Record tables of the source that have an obstacle, and that no event has shown so far, if the target
    lacks them.

    A policy without its state file, or of a version that did not record them, would otherwise list them only
    after their next event. Tables that the target has in the same form are recorded, too: a version that did
    not recognise their kind has replicated a part.
    """
    policy = context.policy
    try:
        on_target = set(context.target.table_names(policy.target_db))
        names = [
            each
            for each in context.source.table_names(policy.source_db)
            if policy.covers(policy.source_db, each)
        ]
    except NotFound:
        return
    both = sorted(on_target.intersection(names))
    replicated = {
        name
        for name, table in _read_tables(context.target, policy.target_db, both)
        if find_obstacle(table, policy) is None
    }
    lacking = [each for each in names if each not in replicated and not context.tables.loads.is_waiting(each)]
    for name, table in _read_tables(context.source, policy.source_db, lacking):
        obstacle = find_source_obstacle(table, policy, context.source)
        if obstacle is not None:
            _record(name, event_id, obstacle, context)


def list_readable_views(context: Context) -> list[str]:
    """Return the listed views that can be replicated now: the objects that they read are replicated by now,
    for example by another policy.
    """
    policy, source = context.policy, context.source
    listed = [entry.table for entry in context.tables.unreplicated.entries() if entry.code == VIEW_CODE]
    readable: list[str] = []
    with suppress(NotFound):
        for name, view in _read_tables(source, policy.source_db, listed):
            if find_source_obstacle(view, policy, source) is None:
                readable.append(name)
    return readable


def _read_tables(metastore: Metastore, db: str, names: Sequence[str]) -> Iterator[tuple[str, Table]]:
    """Yield those of the named tables that exist, with their names;
    raise NotFound if there is no such database.
    """
    for piece in in_pieces(names, _PAGE):
        for table in metastore.get_tables(db, piece):
            yield (table.tableName or "").lower(), table
