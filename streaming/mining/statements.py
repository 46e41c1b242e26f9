"""Keys out of a parsed statement: a walk over sqlglot's tree that knows where every column comes from.

sqlglot parses (``parsing``); names are resolved here (``scopes``), because its own qualification wants a schema, rewrites the tree and
costs more than parsing. A value is followed through names, casts, fields and sub-queries; behind any other expression it is lost.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from streaming.mining.calls import Path, read_path
from streaming.mining.lineage import Lineage
from streaming.mining.parsing import OURS
from streaming.mining.schemas import schema_of
from streaming.mining.scopes import Derived, Scope, Source, Union
from streaming.mining.values import Style, Unresolved


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from streaming.mining.calls import Call
    from streaming.mining.lineage import Value
    from streaming.mining.tables import Tables
    from streaming.mining.values import MinedKeys, Parser


_LATER: Final = frozenset({"with_", "from_", "joins", "laterals", "expressions"})
"""Parts of a SELECT that are not simply visited."""


class Walk:
    """One script's walk; ``run`` once."""

    def __init__(self, tables: Tables, calls: Mapping[str, Call], database: str) -> None:
        self._tables, self._calls, self._database = tables, calls, database
        self._lineage = Lineage()
        self._views: dict[str, Source] = {}

    def run(self, statements: Iterable[exp.Expr], parser: Parser) -> MinedKeys:
        """Return the keys of all statements."""
        for statement in statements:
            self._statement(statement)
        return self._lineage.result(parser)

    def _statement(self, node: exp.Expr) -> None:
        if isinstance(node, exp.Use):
            self._database = node.this.name.lower() if node.this else self._database
            return
        scope = Scope(dict(self._views))
        if isinstance(node, exp.Query):
            self._visit_query(node, scope)
            return
        self._with(node, scope)
        if isinstance(node, exp.Create) and node.kind == "VIEW" and isinstance(node.expression, exp.Query):
            # A view of this very script: what is taken out of it later is known.
            self._views[node.this.name.lower()] = self._query(node.expression, scope.queries, None)
            return
        self._children(node, scope, skipped=self._sources_of(node, scope))

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
                    self._from(source.this if isinstance(source, exp.From) else source, scope)
        return parts

    # -- queries

    def _query(self, node: exp.Expr, queries: dict[str, Source], parent: Scope | None) -> Source:
        """Return a query's columns."""
        if isinstance(node, exp.Subquery):
            scope = Scope(dict(queries), parent)
            self._with(node, scope)
            return self._query(node.this, scope.queries, parent)
        if isinstance(node, exp.SetOperation):
            scope = Scope(dict(queries), parent)
            self._with(node, scope)
            return self._set_operation(node, scope.queries, parent)
        if isinstance(node, exp.Select):
            return self._select(node, Scope(dict(queries), parent))
        scope = Scope(dict(queries), parent)
        if isinstance(node, exp.Table):
            self._from(node, scope)
            return Derived(stars=scope.distinct())
        self._children(node, scope)
        return Source()

    def _set_operation(
        self, node: exp.SetOperation, queries: dict[str, Source], parent: Scope | None
    ) -> Source:
        """Walk a chain of UNIONs without recursion: generated ones have hundreds of branches."""
        branches: list[exp.Expr] = []
        left: exp.Expr = node
        while isinstance(left, exp.SetOperation) and (left is node or not left.args.get("with_")):
            branches.append(left.expression)
            left = left.this
        found = self._query(left, queries, parent)
        for branch in reversed(branches):
            found = Union(found, self._query(branch, queries, parent))
        return found

    def _select(self, node: exp.Select, scope: Scope) -> Derived:
        self._with(node, scope)
        start = node.args.get("from_")
        if start is not None:
            self._from(start.this, scope)
        joins = node.args.get("joins") or ()
        for join in joins:
            self._from(join.this, scope)
        for lateral in node.args.get("laterals") or ():
            self._lateral(lateral, scope)
        columns = self._projections(node.expressions, scope)
        for join in joins:
            self._children(join, scope, skipped=("this",))
        self._children(node, scope, skipped=_LATER)
        return columns

    def _projections(self, projections: Sequence[exp.Expr], scope: Scope) -> Derived:
        found = Derived()
        for each in projections:
            if each.is_star:
                found.stars.extend(self._starred(each, scope))
                continue
            inner = each.unalias()
            if isinstance(each, exp.Aliases):
                values = self._extracted(each.this, scope) or []
                names = [name.name.lower() for name in each.args.get("expressions") or ()]
                found.columns.extend(zip(names, values, strict=False))
            else:
                value = self._value(inner, scope)
                name = each.alias_or_name.lower()
                found.columns.append((name, value))
                if isinstance(each, exp.Alias):
                    scope.aliases.setdefault(name, value)
        return found

    def _starred(self, node: exp.Expr, scope: Scope) -> list[Source]:
        """The sources that ``*`` or ``t.*`` stands for; ``struct.*`` is a use of the struct."""
        if isinstance(node, exp.Column) and node.table:
            parts = [part.name for part in node.parts[:-1]]
            source = scope.sources.get(tuple(part.lower() for part in parts))
            if source is not None:
                return [source]
            self._lineage.use(self._fields(*scope.resolve(parts, self._lineage), parts))
            return []
        return scope.distinct() or (scope.parent.distinct() if scope.parent else [])

    def _with(self, node: exp.Expr, scope: Scope) -> None:
        clause = node.args.get("with_")
        for each in clause.expressions if clause is not None else ():
            columns = self._query(each.this, scope.queries, None)
            scope.queries[each.alias.lower()] = _renamed(columns, each.args.get("alias"))

    # -- sources

    def _from(self, node: exp.Expr, scope: Scope) -> None:
        """Put a source of FROM into scope, with the joins and lateral views that hang on it."""
        if isinstance(node, exp.Lateral):
            self._lateral(node, scope)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            self._table(node, scope)
        elif isinstance(node, (exp.Subquery, exp.Query)):
            source = self._query(node, scope.queries, None)
            scope.add(_renamed(source, node.args.get("alias")), *_names(node.alias))
        elif isinstance(node, exp.Paren):
            self._from(node.this, scope)
        else:
            self._children(node, scope)
            scope.add(Source(), *_names(node.alias))
        for join in node.args.get("joins") or ():
            self._from(join.this, scope)
            self._children(join, scope, skipped=("this",))
        for lateral in node.args.get("laterals") or ():
            self._lateral(lateral, scope)

    def _table(self, node: exp.Table, scope: Scope) -> None:
        name, db, catalog = node.name.lower(), node.db.lower(), node.catalog.lower()
        query = None if db else scope.queries.get(name)
        source = query or self._tables.source(catalog, db or self._database, name)
        names = _names(node.alias) or [
            (name,),
            *([(db, name)] if db else []),
            *([(catalog, db, name)] if catalog else []),
        ]
        scope.add(_renamed(source, node.args.get("alias")), *names)

    def _lateral(self, node: exp.Expr, scope: Scope) -> None:
        """``LATERAL VIEW f(…) t AS a, b``, and ``LATERAL (SELECT …)``."""
        alias = node.args.get("alias")
        if isinstance(node.this, exp.Query):
            scope.add(_renamed(self._query(node.this, scope.queries, scope), alias), *_names(node.alias))
            return
        given = [each.name.lower() for each in alias.args.get("columns") or ()] if alias is not None else []
        values = self._extracted(node.this, scope)
        if values is None:
            self._visit(node.this, scope)
            source = Derived([(name, None) for name in given])
        else:
            source = Derived(
                list(zip(given or (f"c{at}" for at in range(len(values))), values, strict=False))
            )
        scope.add(source, *_names(node.alias))

    # -- expressions

    def _visit(self, node: exp.Expr, scope: Scope) -> None:
        """Walk an expression whose value is used."""
        self._lineage.use(self._value(node, scope))

    def _children(self, node: exp.Expr, scope: Scope, skipped: Iterable[str] = ()) -> None:
        for name, part in node.args.items():
            if name == "with_" or name in skipped:
                continue
            for each in part if isinstance(part, list) else (part,):
                if isinstance(each, exp.Expr):
                    self._visit(each, scope)

    def _visit_query(self, node: exp.Expr, scope: Scope) -> None:
        """Walk a query whose columns are all used: a statement's own, or one inside an expression."""
        for value in self._query(node, scope.queries, scope).everything(self._lineage):
            self._lineage.use(value)

    def _value(self, node: exp.Expr, scope: Scope) -> Value:
        """Return where an expression's value comes from, and see to everything inside it."""
        reader = _READERS.get(type(node))
        return reader(self, node, scope) if reader is not None else self._computed(node, scope)

    def _computed(self, node: exp.Expr, scope: Scope) -> Value:
        """A function or an operator: one of ours, or its operands are used and its value is lost track of."""
        if isinstance(node, exp.Query):
            self._visit_query(node, scope)
            return None
        values = self._extracted(node, scope)
        if values is None:
            self._children(node, scope)
            return None
        if any(value is None for value in values):
            return None
        return tuple(chain.from_iterable(value for value in values if value))

    def _inner(self, node: exp.Expr, scope: Scope) -> Value:
        return self._value(node.this, scope)

    def _column(self, node: exp.Expr, scope: Scope) -> Value:
        assert isinstance(node, exp.Column)
        parts = [part.name for part in node.parts]
        return self._fields(*scope.resolve(parts, self._lineage), parts)

    def _fields(self, value: Value, named: int, parts: Sequence[str]) -> Value:
        return self._lineage.fields(value, parts[named:])

    def _reached(self, node: exp.Expr, scope: Scope) -> Value:
        """``value.field``, ``value['field']``, ``value[0]`` and ``value:path``."""
        if isinstance(node, exp.Dot) and not isinstance(node.expression, exp.Identifier):
            return self._value(node.expression, scope)  # db.function(…)
        value = self._value(node.this, scope)
        if isinstance(node, exp.JSONExtract):
            return self._lineage.below(value, _path_of(node.expression))
        if isinstance(node, exp.Dot):
            return self._lineage.fields(value, [node.expression.name])
        index = node.expressions[0] if node.expressions else None
        if isinstance(index, exp.Literal) and index.is_string:
            return self._lineage.fields(value, [index.this])
        self._children(node, scope, skipped=("this",))
        return value and tuple(self._lineage.element(each) for each in value)

    def _extracted(self, node: exp.Expr, scope: Scope) -> list[Value] | None:
        """Return a value for each key that a call takes out; None where the node is no such call."""
        if (
            not isinstance(node, exp.Anonymous)
            or not isinstance(node.this, str)
            or not node.this.startswith(OURS)
        ):
            return None
        call = self._calls[node.this.removeprefix(OURS)]
        arguments = node.expressions
        if len(arguments) <= call.document:
            return [()]
        document = self._value(arguments[call.document], scope)
        rest = arguments[call.document + 1 :]
        if call.style is None:
            for each in rest:
                self._visit(each, scope)
            return [self._lineage.parsed(document, _schema(rest))]
        wanted = rest if call.takes_many else rest[:1]
        return [self._lineage.below(document, self._path(each, call.style, scope)) for each in wanted]

    def _path(self, node: exp.Expr, style: Style, scope: Scope) -> Path | Unresolved:
        if isinstance(node, exp.Literal) and node.is_string:
            return read_path(node.this, style)
        self._visit(node, scope)
        return Unresolved.PATH


def _schema(arguments: Sequence[exp.Expr]) -> dict[str, Any] | None:
    first = arguments[0] if arguments else None
    return schema_of(first.this) if isinstance(first, exp.Literal) and first.is_string else None


def _path_of(node: exp.Expr) -> Path | Unresolved:
    """Return the path of ``col:a.b[0]``, which sqlglot has taken apart."""
    members: list[str] = []
    for part in node.expressions if isinstance(node, exp.JSONPath) else ():
        if isinstance(part, exp.JSONPathRoot):
            continue
        if not isinstance(part, exp.JSONPathKey) or not isinstance(part.this, str):
            return Path(tuple(members), is_ended=True) if members else Unresolved.BAD_PATH
        members.append(part.this)
    return Path(tuple(members)) if members else Unresolved.BAD_PATH


def _names(alias: str) -> list[tuple[str, ...]]:
    return [(alias.lower(),)] if alias else []


def _renamed(source: Source, alias: exp.Expr | None) -> Source:
    columns = [each.name.lower() for each in alias.args.get("columns") or ()] if alias is not None else []
    return source.renamed(columns) if columns and isinstance(source, Derived) else source


_READERS: Final[dict[type, Callable[[Walk, exp.Expr, Scope], Value]]] = {
    exp.Column: Walk._column,  # noqa: SLF001 - the class's own table of its methods
    exp.Literal: lambda _walk, _node, _scope: (),
    **dict.fromkeys((exp.Paren, exp.Alias, exp.Cast, exp.TryCast), Walk._inner),  # noqa: SLF001 - likewise
    **dict.fromkeys((exp.Dot, exp.Bracket, exp.JSONExtract), Walk._reached),  # noqa: SLF001 - likewise
}
"""Expressions through which a value can be followed. By exact class: the walk meets thousands of nodes."""
