"""Scripts and queries: walks one statement after another, and determines the columns of each SELECT, UNION
and source in FROM.

``ScriptReader`` handles the effects of a statement on later ones (USE, a view that it creates), and the
tables of statements that are not queries (MERGE, UPDATE, Hive's FROM … INSERT). ``QueryReader`` returns the
columns of a query as a ``Source``. The caller decides whether the columns are used: if an outer query only
extracts keys from a column, the column itself is not a requested key.

``scopes`` resolves names instead of sqlglot, whose own qualification requires a schema, rewrites the tree and
takes longer than parsing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sqlglot import exp

from streaming.mining.json_functions import JsonFunction, parse_path
from streaming.mining.lineage import Lineage, Value
from streaming.mining.model import MinedKeys, Parser, Style, Unresolved
from streaming.mining.raw_tables import RawTables
from streaming.mining.sql.expressions import ExpressionReader, text_of
from streaming.mining.sql.scopes import DerivedSource, RawSource, Scope, Source, UnionSource
from streaming.mining.templates import VARIABLE


_LATER: Final = frozenset({"with_", "from_", "joins", "laterals", "expressions"})
"""Parts of a SELECT that are read separately."""


class QueryReader:
    """Reads the queries of one script. ``database`` is the current database for table names without one; USE
    changes it.
    """

    def __init__(
        self, tables: RawTables, functions: Mapping[str, JsonFunction], lineage: Lineage, database: str
    ) -> None:
        self.database = database
        self.expressions = ExpressionReader(lineage, functions, self.visit)
        self._tables = tables
        self._lineage = lineage

    def visit(self, node: exp.Expr, scope: Scope) -> None:
        """Walk a query and mark all its columns as used: a statement's query, or one inside an expression."""
        for value in self.query(node, scope.queries, scope).everything(self._lineage):
            self._lineage.use(value)

    def query(self, node: exp.Expr, queries: dict[str, Source], parent: Scope | None) -> Source:
        """Return the columns of a query."""
        if isinstance(node, exp.Subquery):
            scope = Scope(dict(queries), parent)
            self.add_with(node, scope)
            return self.query(node.this, scope.queries, parent)
        if isinstance(node, exp.SetOperation):
            scope = Scope(dict(queries), parent)
            self.add_with(node, scope)
            return self._set_operation(node, scope.queries, parent)
        if isinstance(node, exp.Select):
            return self._select(node, Scope(dict(queries), parent))
        scope = Scope(dict(queries), parent)
        if isinstance(node, exp.Table):
            self.add_from(node, scope)
            return DerivedSource(stars=scope.distinct_sources())
        self.expressions.visit_children(node, scope)
        return Source()

    def _set_operation(
        self, node: exp.SetOperation, queries: dict[str, Source], parent: Scope | None
    ) -> Source:
        """Walk a chain of UNIONs without recursion: generated queries have hundreds of branches."""
        branches: list[exp.Expr] = []
        left: exp.Expr = node
        while isinstance(left, exp.SetOperation) and (left is node or not left.args.get("with_")):
            branches.append(left.expression)
            left = left.this
        source = self.query(left, queries, parent)
        for branch in reversed(branches):
            source = UnionSource(source, self.query(branch, queries, parent))
        return source

    def _select(self, node: exp.Select, scope: Scope) -> DerivedSource:
        self.add_with(node, scope)
        start = node.args.get("from_")
        if start is not None:
            self.add_from(start.this, scope)
        joins = node.args.get("joins") or ()
        for join in joins:
            self.add_from(join.this, scope)
        for lateral in node.args.get("laterals") or ():
            self._lateral(lateral, scope)
        columns = self._projections(node.expressions, scope)
        for join in joins:
            self.expressions.visit_children(join, scope, skipped=("this",))
        self.expressions.visit_children(node, scope, skipped=_LATER)
        return columns

    def _projections(self, projections: Sequence[exp.Expr], scope: Scope) -> DerivedSource:
        derived = DerivedSource()
        for each in projections:
            if each.is_star:
                derived.stars.extend(self._star_sources(each, scope))
                continue
            inner = each.unalias()
            if isinstance(each, exp.Aliases):
                values = self.expressions.extract(each.this, scope) or []
                names = [name.name.lower() for name in each.args.get("expressions") or ()]
                derived.columns.extend(zip(names, values, strict=False))
            else:
                value = self.expressions.value(inner, scope)
                name = each.alias_or_name.lower()
                derived.columns.append((name, value))
                if isinstance(each, exp.Alias):
                    scope.aliases.setdefault(name, value)
        return derived

    def _star_sources(self, node: exp.Expr, scope: Scope) -> list[Source]:
        """Return the sources that ``*`` or ``t.*`` stands for. ``struct.*`` counts as a use of the struct."""
        if isinstance(node, exp.Column) and node.table:
            parts = [part.name for part in node.parts[:-1]]
            source = scope.sources.get(tuple(part.lower() for part in parts))
            if source is not None:
                return [source]
            self._lineage.use(self.expressions.resolve(parts, scope))
            return []
        return scope.distinct_sources() or (scope.parent.distinct_sources() if scope.parent else [])

    def add_with(self, node: exp.Expr, scope: Scope) -> None:
        """Add the queries of WITH to the scope; each may use those before it."""
        clause = node.args.get("with_")
        for each in clause.expressions if clause is not None else ():
            columns = self.query(each.this, scope.queries, None)
            scope.queries[each.alias.lower()] = _rename(columns, each.args.get("alias"))

    def add_from(self, node: exp.Expr, scope: Scope) -> None:
        """Add a source of FROM to the scope, with its joins and lateral views."""
        if isinstance(node, exp.Lateral):
            self._lateral(node, scope)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            self._table(node, scope)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.JSONTable):
            scope.add(self._json_table(node.this, scope), *_names(node.alias))
        elif isinstance(node.this, exp.Anonymous) and node.this.name.lower() == "identifier":
            arguments = node.this.expressions  # IDENTIFIER('db.t')
            name = (text_of(arguments[0]) if arguments else None) or VARIABLE
            raw = self._tables.find(name.lower().split("."), self.database)
            scope.add(Source() if raw is None else RawSource(*raw), *_names(node.alias))
        elif isinstance(node, (exp.Subquery, exp.Query)):
            source = self.query(node, scope.queries, None)
            scope.add(_rename(source, node.args.get("alias")), *_names(node.alias))
        elif isinstance(node, exp.Paren):
            self.add_from(node.this, scope)
        else:
            self.expressions.visit_children(node, scope)
            scope.add(Source(), *_names(node.alias))
        for join in node.args.get("joins") or ():
            self.add_from(join.this, scope)
            self.expressions.visit_children(join, scope, skipped=("this",))
        for lateral in node.args.get("laterals") or ():
            self._lateral(lateral, scope)

    def _table(self, node: exp.Table, scope: Scope) -> None:
        # ${db}.t: a part that is not a name is a variable.
        parts = [part.name.lower() if isinstance(part, exp.Identifier) else VARIABLE for part in node.parts]
        query = scope.queries.get(parts[0]) if len(parts) == 1 else None
        raw = None if query else self._tables.find(parts, self.database)
        source = query or (Source() if raw is None else RawSource(*raw))
        whole = parts[0].rpartition(".")[2]
        names = _names(node.alias) or [tuple(parts[at:]) for at in range(len(parts) - 1, -1, -1)]
        names += [(whole,)] if "." in parts[0] and not node.alias else []
        scope.add(_rename(source, node.args.get("alias")), *names)

    def _json_table(self, node: exp.JSONTable, scope: Scope) -> DerivedSource:
        """Return the columns of ``JSON_TABLE(document, path COLUMNS (…))``, which extracts all of them."""
        document = self.expressions.value(node.this, scope)
        derived = DerivedSource()
        self._json_columns(document, node.args.get("path"), node.args["schema"], derived)
        return derived

    def _json_columns(
        self, document: Value, path: exp.Expr | None, schema: exp.Expr, derived: DerivedSource
    ) -> None:
        row = self._at_path(document, None if path is None else text_of(path))
        for each in schema.expressions:
            own = each.args.get("path")
            if each.args.get("nested_schema") is not None:
                self._json_columns(row, own, each.args["nested_schema"], derived)
            elif not each.args.get("ordinality"):
                text = text_of(own) if isinstance(own, exp.Expr) else f"$.{each.name}"
                derived.columns.append((each.name.lower(), self._at_path(row, text)))

    def _at_path(self, document: Value, text: str | None) -> Value:
        path = Unresolved.PATH if text is None else parse_path(text, Style.JSON_PATH)
        return document if path is Unresolved.WHOLE else self._lineage.below(document, path)

    def _lateral(self, node: exp.Expr, scope: Scope) -> None:
        """Add ``LATERAL VIEW f(…) t AS a, b`` or ``LATERAL (SELECT …)`` to the scope."""
        alias = node.args.get("alias")
        if isinstance(node.this, exp.Query):
            scope.add(_rename(self.query(node.this, scope.queries, scope), alias), *_names(node.alias))
            return
        column_names = (
            [each.name.lower() for each in alias.args.get("columns") or ()] if alias is not None else []
        )
        values = self.expressions.extract(node.this, scope)
        if values is None:
            self.expressions.visit(node.this, scope)
            source = DerivedSource([(name, None) for name in column_names])
        else:
            source = DerivedSource(
                list(zip(column_names or (f"c{at}" for at in range(len(values))), values, strict=False))
            )
        scope.add(source, *_names(node.alias))


def _names(alias: str) -> list[tuple[str, ...]]:
    return [(alias.lower(),)] if alias else []


def _rename(source: Source, alias: exp.Expr | None) -> Source:
    columns = [each.name.lower() for each in alias.args.get("columns") or ()] if alias is not None else []
    return source.rename(columns) if columns and isinstance(source, DerivedSource) else source


class ScriptReader:
    """Reads one script. Call ``run`` once."""

    def __init__(self, tables: RawTables, functions: Mapping[str, JsonFunction], database: str) -> None:
        self._lineage = Lineage()
        self._queries = QueryReader(tables, functions, self._lineage, database)
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
            # Later statements of this script may use the view, so record its columns.
            self._views[node.this.name.lower()] = self._queries.query(node.expression, scope.queries, None)
            return
        self._queries.expressions.visit_children(node, scope, skipped=self._sources_of(node, scope))

    def _sources_of(self, node: exp.Expr, scope: Scope) -> tuple[str, ...]:
        """Add the tables of a statement that is not a query to the scope.

        Returns the names of the parts that contain them.
        """
        if isinstance(node, exp.MultitableInserts):
            parts: tuple[str, ...] = ("source",)
        elif isinstance(node, (exp.Merge, exp.Update, exp.Delete)):
            parts = ("this", "using", "from_")
        else:
            return ()
        for part in parts:
            clause = node.args.get(part)
            for source in clause if isinstance(clause, list) else [clause]:
                if isinstance(source, exp.Expr):
                    self._queries.add_from(source.this if isinstance(source, exp.From) else source, scope)
        return parts
