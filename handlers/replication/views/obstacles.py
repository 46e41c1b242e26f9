"""Whether a table, view or function of the source can be replicated: the decision of ``replicability``, and
the objects that a query reads and calls.

A view whose query names a table that the target does not have would fail there, or read another database of
that name. So Tideline omits it with the reason. It looks up its tables and functions at the source, because
their kinds are not in its definition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from handlers.metastore.client import Metastore
from handlers.replication.policy.policy import Policy
from handlers.replication.policy.replicability import MATERIALIZED_VIEW, Obstacle, find_obstacle, is_view
from handlers.replication.views.databases import RenamedQuery
from handlers.replication.views.definitions import (
    define_sql_function,
    define_view,
    is_sql_function,
    is_trino_materialized_view,
)
from handlers.structs.objects import Function, Table
from state.errors import NotFound


VIEW_CODE: Final = "view"
"""Code of the obstacle of a view, in entries."""
_DEPTH_MAX: Final = 50
"""Views above one another."""


WITHOUT_LOCATION: Final = frozenset({"ivy"})
"""Schemes of URIs that mean the same on both clusters."""


def needs_copy(uri: str) -> bool:
    """Whether a file of a function must be copied to the target."""
    return uri.partition(":")[0].lower() not in WITHOUT_LOCATION


def find_source_obstacle(table: Table, policy: Policy, source: Metastore) -> Obstacle | None:
    """Return why Tideline does not replicate a table or view of the source; None if it does."""
    return _Search(source).find_in_table(table, policy)


def find_function_obstacle(function: Function, policy: Policy, source: Metastore) -> str | None:
    """Return why Tideline does not replicate a function of the source; None if it does, unless one of its
    files cannot be copied.
    """
    return _Search(source).find_in_function(function, policy)


@dataclass(frozen=True, slots=True)
class _Search:
    """A search through the objects that an object reads and calls. The search ends at the first obstacle,
    so visited objects have none.
    """

    source: Metastore
    depth: int = 0
    visited: set[tuple[str, str]] = field(default_factory=set)

    def find_in_table(self, table: Table, policy: Policy) -> Obstacle | None:
        obstacle = find_obstacle(table, policy)
        if obstacle is not None or not is_view(table):
            return obstacle
        if is_trino_materialized_view(table):
            return MATERIALIZED_VIEW
        reason = self._find_in_query(define_view(table, policy).query, policy)
        return None if reason is None else Obstacle(VIEW_CODE, reason)

    def find_in_function(self, function: Function, policy: Policy) -> str | None:
        if is_sql_function(function):
            return self._find_in_query(define_sql_function(function, policy)[1], policy)
        has_files = any(needs_copy(each.uri or "") for each in function.resourceUris or [])
        return (
            "the policy has no functions_dir for its files"
            if has_files and not policy.functions_dir
            else None
        )

    def _find_in_query(self, query: RenamedQuery, policy: Policy) -> str | None:
        if query.problem is not None:
            return query.problem
        if self.depth > _DEPTH_MAX:
            return f"more than {_DEPTH_MAX} views are nested"
        inner = replace(self, depth=self.depth + 1)
        for table, owner in self._read_tables(self._visit(query.tables, ""), policy):
            obstacle = inner.find_in_table(table, owner)
            if obstacle is not None:
                return (
                    f"it reads {owner.source_db}.{table.tableName}, which is not replicated: "
                    f"{obstacle.reason}"
                )
        for db, function in self._read_functions(self._visit(query.functions, "()")):
            owner_of_function = policy.find_owner(db, None)
            name = f"{db}.{function.functionName}"
            if owner_of_function is None:
                return f"it calls {name}, which is not replicated to this target"
            reason = inner.find_in_function(function, owner_of_function)
            if reason is not None:
                return f"it calls {name}, which is not replicated: {reason}"
        return None

    def _visit(self, names: Iterable[tuple[str, str]], mark: str) -> list[tuple[str, str]]:
        """Mark names as visited, and return those that were not visited before; ``mark`` distinguishes
        functions from tables of the same name.
        """
        unvisited = [(db, name) for db, name in names if (db, name + mark) not in self.visited]
        self.visited.update((db, name + mark) for db, name in unvisited)
        return unvisited

    def _read_tables(
        self, names: Iterable[tuple[str, str]], policy: Policy
    ) -> Iterator[tuple[Table, Policy]]:
        """Yield the existing tables of a query, with the policies that replicate them."""
        for db, group in _group(names).items():
            owners = {table: owner for table in group if (owner := policy.find_owner(db, table)) is not None}
            tables: list[Table] = []
            if owners:
                with suppress(NotFound):
                    tables = self.source.get_tables(db, list(owners))
            for table in tables:
                yield table, owners[(table.tableName or "").lower()]

    def _read_functions(self, names: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Function]]:
        """Yield the functions that a query calls, with their databases, without functions of the engine."""
        for db, functions in _group(names).items():
            with suppress(NotFound):
                present = {name.lower() for name in self.source.function_names(db)}
                for function in sorted(present.intersection(functions)):
                    yield db, self.source.get_function(db, function)


def _group(names: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return names by their database."""
    grouped: dict[str, list[str]] = {}
    for db, name in sorted(names):
        grouped.setdefault(db, []).append(name)
    return grouped
