"""Constraints of loaded tables.

A foreign key needs both tables and the key that it refers to. Tables are loaded in any order and several at a time, so each load
adds the foreign keys of its table and those that refer to it, as far as the other table is there; the later load finds it there.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from handlers.replication.effects.constraints import group_by_constraint, lower_names, rewrite_database
from handlers.structs.constraints import CONSTRAINT_KINDS, FOREIGN_KEY, PRIMARY_KEY
from state.errors import InvalidRequest, NotFound


if TYPE_CHECKING:
    from collections.abc import Iterable

    from handlers.replication.loading.table.tools import LoadTools
    from handlers.structs.constraints import ConstraintKind


def load_constraints(table: str, tools: LoadTools) -> None:
    """Give the target's table the constraints of the source's, and foreign keys as far as both tables exist."""
    policy = tools.policy
    found = {
        kind: columns
        for kind in CONSTRAINT_KINDS
        if kind is not FOREIGN_KEY and (columns := tools.source.constraints(kind, policy.source_db, table))
    }
    if found:
        present = lower_names(tools.target.constraint_names(policy.target_db, table))
        for kind, columns in found.items():
            _add_missing(kind, columns, present, tools)
    load_foreign_keys(table, tools)
    for name in {key.fktable_name for key in tools.source.foreign_keys_to(policy.source_db, table)}:
        load_foreign_keys(name or "", tools)


def load_foreign_keys(table: str, tools: LoadTools) -> None:
    """Add the foreign keys that the target's table lacks, if the table and the keys that they refer to are there already."""
    policy = tools.policy
    columns = [
        column
        for column in tools.source.constraints(FOREIGN_KEY, policy.source_db, table)
        if policy.covers(column.pktable_db, column.pktable_name)
    ]
    if not columns or not _exists(table, tools):
        return
    columns = [column for column in columns if _has_key(column.pktable_name, tools)]
    present = lower_names(tools.target.constraint_names(policy.target_db, table))
    with suppress(InvalidRequest):  # the load of the other table adds the same foreign key at the same time
        _add_missing(FOREIGN_KEY, columns, present, tools)


def _exists(table: str, tools: LoadTools) -> bool:
    with suppress(NotFound):
        tools.target.get_table(tools.policy.target_db, table)
        return True
    return False


def _has_key(table: str | None, tools: LoadTools) -> bool:
    """Whether the target has the table with its primary key; Hive answers an addition without them with an internal error."""
    return _exists(table or "", tools) and bool(
        tools.target.constraints(PRIMARY_KEY, tools.policy.target_db, table or "")
    )


def _add_missing(
    kind: ConstraintKind[Any], columns: Iterable[Any], present: set[str], tools: LoadTools
) -> None:
    """Add the constraints that are not ``present``."""
    for name, group in group_by_constraint(kind, columns).items():
        rewritten = [
            rewrite_database(column, tools.policy.source_db, tools.policy.target_db) for column in group
        ]
        if name not in present and all(rewritten):
            tools.target.add_constraint(kind, group)
