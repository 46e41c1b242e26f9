"""Replay of constraints: primary and foreign keys, unique, not-null, default and check constraints.

Hive does not enforce constraints, but its planner uses them. They keep the source's names, which identify a
repeated event. Replay omits and reports a foreign key to a table that is not on the target: the table itself
has its replica without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from handlers.events import ConstraintDropped, ConstraintsAdded
from handlers.replication.context import Context
from handlers.structs import tjson
from handlers.structs.constraints import CONSTRAINT_KINDS, ConstraintKind
from state.errors import NotFound


_KINDS: Final = {kind.event_type: kind for kind in CONSTRAINT_KINDS}


def add(event: ConstraintsAdded, context: Context) -> None:
    """Add the constraints that the target's table does not have yet; do nothing if the table is gone."""
    assert event.table is not None
    kind, db = _KINDS[event.kind], context.policy.target_db
    try:
        context.table_cache.table(event.table)
    except NotFound:
        return
    present = lower_names(context.target.constraint_names(db, event.table))
    columns = [tjson.decode(kind.column, text) for text in event.texts]
    missing = [column for column in columns if (kind.name_of(column) or "").lower() not in present]
    addable = [column for column in missing if _has_parent(column, context)]
    for name in sorted({kind.name_of(column) or "" for column in missing if column not in addable}):
        parents = {
            f"{column.pktable_db}.{column.pktable_name}" for column in missing if kind.name_of(column) == name
        }
        context.observer.constraint_left_out(f"{event.db}.{event.table}", name, ", ".join(sorted(parents)))
    for column in addable:
        rewrite_database(column, context.policy.source_db, db)
    if addable:
        context.target.add_constraint(kind, addable)


def _has_parent(column: Any, context: Context) -> bool:
    """Whether the key that a foreign key refers to is on the target; True for all other constraints.

    It is not if its table is excluded from the policy, in another database, quarantined, or waiting for its
    load, or if a later event applied before a restart dropped it. Hive answers an addition without the key
    with an internal error.
    """
    name = (getattr(column, "pktable_name", None) or "").lower()
    if not name:
        return True
    if not context.in_scope((column.pktable_db or "").lower(), name):
        return False
    try:
        context.table_cache.table(name)
    except NotFound:
        return False
    keys = lower_names(context.target.constraint_names(context.policy.target_db, name))
    return column.pk_name is None or column.pk_name.lower() in keys


def drop(event: ConstraintDropped, context: Context) -> None:
    """Drop the constraint; do nothing if the constraint or its table is already gone."""
    assert event.table is not None
    try:
        context.target.drop_constraint(context.policy.target_db, event.table, event.name)
    except NotFound:
        return


@contextmanager
def keep_constraints(table: str, context: Context) -> Iterator[None]:
    """Add the constraints again that the target's table loses when the block drops another table with
    constraints of equal names.

    In such a drop, Hive removes the constraints of these names from all tables, even in other databases:
    names and positions alone are the primary key of its objects (``MConstraint``; seen with 4.2). Two tables
    have equal names while one of them is loaded under the later name of the other.
    """
    db = context.policy.target_db
    before = context.target.all_constraints(db, table)
    yield
    present = lower_names(context.target.constraint_names(db, table)) if any(before.values()) else set()
    for kind, columns in before.items():
        for name, group in group_by_constraint(kind, columns).items():
            if name not in present:
                context.target.add_constraint(kind, group)


def group_by_constraint(kind: ConstraintKind[Any], columns: Iterable[Any]) -> dict[str, list[Any]]:
    """Return the columns of each constraint by its name in lower case: one call adds each constraint,
    which may have several columns.
    """
    named: dict[str, list[Any]] = {}
    for column in columns:
        named.setdefault((kind.name_of(column) or "").lower(), []).append(column)
    return named


def lower_names(names: Iterable[str]) -> set[str]:
    """Return the names in lower case, the form for comparisons."""
    return {name.lower() for name in names}


def rewrite_database(column: Any, source_db: str, target_db: str) -> bool:
    """Replace the source database by the target's in every field;
    return False if a field names another database.
    """
    column.catName = None
    for field in ("table_db", "fktable_db", "pktable_db"):
        named = getattr(column, field, None)
        if named is None:
            continue
        if named.lower() != source_db:
            return False
        setattr(column, field, target_db)
    return True
