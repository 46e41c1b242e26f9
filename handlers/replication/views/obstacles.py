"""Whether a table or view of the source can be replicated: the decision of ``replicability``, and for a view what its query reads.

A view whose query names a table that the target does not have would fail there, or read another database of that name. So it is left out with
the reason. Its tables are looked up at the source, because their kinds are not in its definition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from handlers.replication.replicability import MATERIALIZED_VIEW, Obstacle, find_obstacle
from handlers.replication.target_objects import is_view
from handlers.replication.views.definitions import define_view, is_trino_materialized_view
from state.errors import NotFound


if TYPE_CHECKING:
    from collections.abc import Iterator

    from handlers.metastore.client import Metastore
    from handlers.replication.policy import Policy
    from handlers.structs.objects import Table


VIEW_CODE: Final = "view"
"""Code of the obstacle of a view, in entries."""


def find_source_obstacle(table: Table, policy: Policy, source: Metastore) -> Obstacle | None:
    """Return why a table or view of the source is not replicated; None if it is."""
    return _find(table, policy, source, frozenset())


def _find(
    table: Table, policy: Policy, source: Metastore, above: frozenset[tuple[str, str]]
) -> Obstacle | None:
    name = (table.tableName or "").lower()
    obstacle = find_obstacle(table, copies_rows=policy.copies_rows(name))
    if obstacle is not None or not is_view(table):
        return obstacle
    if is_trino_materialized_view(table):
        return MATERIALIZED_VIEW
    view = define_view(table, policy)
    if view.problem is not None:
        return Obstacle(VIEW_CODE, view.problem)
    seen = above | {(policy.source_db, name)}
    for read, owner in _read_tables(view.tables - seen, policy, source):
        obstacle = _find(read, owner, source, seen)
        if obstacle is not None:
            return Obstacle(
                VIEW_CODE,
                f"it reads {owner.source_db}.{read.tableName}, which is not replicated: {obstacle.reason}",
            )
    return None


def _read_tables(
    names: frozenset[tuple[str, str]], policy: Policy, source: Metastore
) -> Iterator[tuple[Table, Policy]]:
    """Yield the tables of a query, with the policies that replicate them; those that no longer exist are left out."""
    for db in sorted({db for db, _ in names}):
        owners = {table: policy.find_owner(db, table) for other, table in sorted(names) if other == db}
        found = [table for table, owner in owners.items() if owner is not None]
        if not found:
            continue
        try:
            tables = source.get_tables(db, found)
        except NotFound:
            continue
        for table in tables:
            owner = owners.get((table.tableName or "").lower())
            if owner is not None:
                yield table, owner
