"""Keys out of a parsed script: a walk over sqlglot's tree, statement by statement, that knows where every column comes from.

sqlglot parses (``parsing``). Here is what a statement does to those after it (USE, a view that it creates) and which tables one that
is no query reads from (MERGE, UPDATE, Hive's FROM … INSERT); what is inside is for ``queries`` and ``expressions``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from streaming.mining.lineage import Lineage
from streaming.mining.queries import Queries
from streaming.mining.scopes import Scope


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from streaming.mining.calls import Call
    from streaming.mining.scopes import Source
    from streaming.mining.tables import Tables
    from streaming.mining.values import MinedKeys, Parser


class Walk:
    """One script's walk; ``run`` once."""

    def __init__(self, tables: Tables, calls: Mapping[str, Call], database: str) -> None:
        self._lineage = Lineage()
        self._queries = Queries(tables, calls, self._lineage, database)
        self._views: dict[str, Source] = {}

    def run(self, statements: Iterable[exp.Expr], parser: Parser) -> MinedKeys:
        """Return the keys of all statements."""
        for statement in statements:
            self._statement(statement)
        return self._lineage.result(parser)

    def _statement(self, node: exp.Expr) -> None:
        if isinstance(node, exp.Use):
            self._queries.database = node.this.name.lower() if node.this else self._queries.database
            return
        scope = Scope(dict(self._views))
        if isinstance(node, exp.Query):
            self._queries.visit(node, scope)
            return
        self._queries.add_with(node, scope)
        if isinstance(node, exp.Create) and node.kind == "VIEW" and isinstance(node.expression, exp.Query):
            # A view of this very script: what is taken out of it later is known.
            self._views[node.this.name.lower()] = self._queries.query(node.expression, scope.queries, None)
            return
        self._queries.expressions.visit_children(node, scope, skipped=self._sources_of(node, scope))

    def _sources_of(self, node: exp.Expr, scope: Scope) -> tuple[str, ...]:
        """Put the tables of a statement that is no query into scope, and return under which of its parts they were."""
        if isinstance(node, exp.MultitableInserts):
            parts: tuple[str, ...] = ("source",)
        elif isinstance(node, (exp.Merge, exp.Update, exp.Delete)):
            parts = ("this", "using", "from_")
        else:
            return ()
        for part in parts:
            given = node.args.get(part)
            for source in given if isinstance(given, list) else [given]:
                if isinstance(source, exp.Expr):
                    self._queries.add_from(source.this if isinstance(source, exp.From) else source, scope)
        return parts
