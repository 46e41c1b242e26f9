"""Replay of constraints: keys, uniqueness, not-null, defaults and checks.

Hive does not enforce them but its planner uses them. They keep the names that the source gave them, which is how a repetition
is recognised. A foreign key into a database that the policy does not replicate refers to nothing on the target, and is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from handlers.structs import tjson
from handlers.structs.constraints import (
    SQLCheckConstraint,
    SQLDefaultConstraint,
    SQLForeignKey,
    SQLNotNullConstraint,
    SQLPrimaryKey,
    SQLUniqueConstraint,
)
from state.errors import NotFound


if TYPE_CHECKING:
    from collections.abc import Mapping

    from handlers.events import ConstraintDropped, ConstraintsAdded
    from handlers.replication.context import Context
    from handlers.structs.struct import Struct


_KINDS: Final[Mapping[str, tuple[type[Struct], str, str]]] = {
    "ADD_PRIMARYKEY": (SQLPrimaryKey, "pk_name", "add_primary_key"),
    "ADD_FOREIGNKEY": (SQLForeignKey, "fk_name", "add_foreign_key"),
    "ADD_UNIQUECONSTRAINT": (SQLUniqueConstraint, "uk_name", "add_unique_constraint"),
    "ADD_NOTNULLCONSTRAINT": (SQLNotNullConstraint, "nn_name", "add_not_null_constraint"),
    "ADD_DEFAULTCONSTRAINT": (SQLDefaultConstraint, "dc_name", "add_default_constraint"),
    "ADD_CHECKCONSTRAINT": (SQLCheckConstraint, "dc_name", "add_check_constraint"),
}
"""Event type: the struct, the field of its name, and the call that adds a list of them."""


def add(event: ConstraintsAdded, context: Context) -> None:
    """Add the constraints that the target's table does not have yet."""
    assert event.table is not None
    struct, name_field, call = _KINDS[event.kind]
    present = {
        name.lower() for name in context.target.constraint_names(context.policy.target_db, event.table)
    }
    columns = [tjson.decode(struct, text) for text in event.texts]
    missing = [
        column
        for column in columns
        if _name(column, name_field) not in present
        and _rewrite_database(column, context.policy.source_db, context.policy.target_db)
    ]
    if missing:
        getattr(context.target, call)(missing)


def drop(event: ConstraintDropped, context: Context) -> None:
    """Drop the constraint; one that is gone (or whose table is) is no error."""
    assert event.table is not None
    try:
        context.target.drop_constraint(context.policy.target_db, event.table, event.name)
    except NotFound:
        return


def _name(column: Any, field: str) -> str:
    return str(getattr(column, field) or "").lower()


def _rewrite_database(column: Any, source_db: str, target_db: str) -> bool:
    """Put the target's database into every field that names the source's; tell whether nothing names another one."""
    column.catName = None
    for field in ("table_db", "fktable_db", "pktable_db"):
        named = getattr(column, field, None)
        if named is None:
            continue
        if named.lower() != source_db:
            return False
        setattr(column, field, target_db)
    return True
