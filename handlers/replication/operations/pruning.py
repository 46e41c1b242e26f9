"""Drops of tables that left a policy, on an operator's request.
Only recorded tables are ever dropped (``LeftTables``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from handlers.failpoints import failpoint
from handlers.replication.policy.replicability import is_view
from handlers.replication.target.objects import owns_data
from state.errors import InvalidRequest, NotFound


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from handlers.replication.context import Context


@dataclass(frozen=True, slots=True)
class PlannedDrop:
    """A table on the target that the drop would remove."""

    table: str
    left_s: int
    kind: str
    """``table``, ``external table`` or ``view``."""
    partitions: int
    location: str | None
    deletes_data: bool
    """Whether its files go too; those of external tables stay."""


def plan_drops(tables: Iterable[str], context: Context) -> tuple[PlannedDrop, ...]:
    """Return the objects that a drop of ``tables`` would remove; without names, those of all tables that
    left. Leaves out tables that the target does not have. Raises NotFound for a table that did not leave.
    """
    names = tuple(dict.fromkeys(tables)) or tuple(entry.table for entry in context.tables.left.entries())
    for name in names:
        _require_left(name, context)
    planned = [_plan_drop(name, context) for name in names]
    return tuple(each for each in planned if each is not None)


def _require_left(name: str, context: Context) -> None:
    policy = context.policy
    if policy.covers(policy.source_db, name):
        raise InvalidRequest(
            "the policy replicates this table, so it is not dropped",
            policy=policy.name,
            table=name,
            hint="Exclude the table from the policy first.",
        )
    if name not in context.tables.left:
        raise NotFound(
            "the table has not left the policy",
            policy=policy.name,
            table=name,
            hint=f"Run 'tideline prune {policy.name} --dry-run' to list the tables that left it.",
        )


def _plan_drop(name: str, context: Context) -> PlannedDrop | None:
    entry, db = context.tables.left.get(name), context.policy.target_db
    try:
        table = context.target.get_table(db, name)
    except NotFound:
        return None
    partitions = len(context.target.partition_names(db, name)) if table.partitionKeys else 0
    deletes_data = owns_data(table) and not is_view(table)
    kind = "view" if is_view(table) else "table" if owns_data(table) else "external table"
    left_s = 0 if entry is None else entry.left_s
    return PlannedDrop(name, left_s, kind, partitions, table.sd.location, deletes_data)


def drop_left(tables: Iterable[str], context: Context, record: Callable[[], None]) -> tuple[str, ...]:
    """Drop tables on the target that left the policy, and return them; a table that is gone already is only
    forgotten.

    ``record`` makes the entries durable. Drops each table before removing its entry: a repetition after a
    crash finds the rest. Raises NotFound and InvalidRequest before dropping anything.
    """
    names = tuple(dict.fromkeys(tables))
    planned = {each.table: each for each in plan_drops(names, context)}
    for name in names:
        if name in planned:
            context.target.drop_table(
                context.policy.target_db, name, delete_data=planned[name].kind != "external table"
            )
            failpoint("prune.after-drop")
        context.tables.left.remove(name)
        context.table_cache.forget(name)
        record()
    return tuple(planned)
