"""Replay of constraints: primary and foreign keys, unique, not-null, default and check constraints.

Hive does not enforce constraints, but its planner uses them. They keep the names that the source gave them, so that a
repeated event is recognised. A foreign key into a database outside the policy refers to nothing on the target and is skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from handlers.structs import tjson
from handlers.structs.constraints import CONSTRAINT_KINDS
from state.errors import NotFound


if TYPE_CHECKING:
    from handlers.events import ConstraintDropped, ConstraintsAdded
    from handlers.replication.context import Context


_KINDS: Final = {kind.event_type: kind for kind in CONSTRAINT_KINDS}


def add(event: ConstraintsAdded, context: Context) -> None:
    """Add the constraints that the target's table does not have yet."""
    assert event.table is not None
    kind = _KINDS[event.kind]
    present = {
        name.lower() for name in context.target.constraint_names(context.policy.target_db, event.table)
    }
    columns = [tjson.decode(kind.column, text) for text in event.texts]
    missing = [
        column
        for column in columns
        if (kind.name_of(column) or "").lower() not in present
        and rewrite_database(column, context.policy.source_db, context.policy.target_db)
    ]
    if missing:
        context.target.add_constraint(kind, missing)


def drop(event: ConstraintDropped, context: Context) -> None:
    """Drop the constraint; do nothing if the constraint or its table is already gone."""
    assert event.table is not None
    try:
        context.target.drop_constraint(context.policy.target_db, event.table, event.name)
    except NotFound:
        return


def rewrite_database(column: Any, source_db: str, target_db: str) -> bool:
    """Replace the source database by the target's in every field; return False if a field names another database."""
    column.catName = None
    for field in ("table_db", "fktable_db", "pktable_db"):
        named = getattr(column, field, None)
        if named is None:
            continue
        if named.lower() != source_db:
            return False
        setattr(column, field, target_db)
    return True
