"""Expressions: follows the values of expressions through names, casts, fields and calls, back to a raw column.

A value is followed as long as it is part of the event: renamed, cast, extracted by a JSON function, or accessed by a dot or a bracket.
Any other expression ends the trace, and its operands count as used. A query inside an expression is walked by ``queries``, which passes
in the function for it.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from streaming.mining.json_functions import Path, parse_path, parse_schema
from streaming.mining.model import Style, Unresolved
from streaming.mining.sql.parser import FUNCTION_PREFIX


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from streaming.mining.json_functions import JsonFunction
    from streaming.mining.lineage import Lineage, Value
    from streaming.mining.sql.scopes import Scope


class ExpressionReader:
    """Reads the expressions of one script. ``visit_query`` walks a query inside an expression, all of whose columns are used."""

    def __init__(
        self,
        lineage: Lineage,
        functions: Mapping[str, JsonFunction],
        visit_query: Callable[[exp.Expr, Scope], None],
    ) -> None:
        self._lineage = lineage
        self._functions = functions
        self._visit_query = visit_query

    def visit(self, node: exp.Expr, scope: Scope) -> None:
        """Walk an expression whose value is used."""
        self._lineage.use(self.value(node, scope))

    def visit_children(self, node: exp.Expr, scope: Scope, skipped: Iterable[str] = ()) -> None:
        """Walk all parts of a node except ``skipped`` and its WITH, which is read before all others."""
        for name, part in node.args.items():
            if name == "with_" or name in skipped:
                continue
            for each in part if isinstance(part, list) else (part,):
                if isinstance(each, exp.Expr):
                    self.visit(each, scope)

    def value(self, node: exp.Expr, scope: Scope) -> Value:
        """Return the origins of an expression's value, and walk everything inside the expression."""
        reader = _READERS.get(type(node))
        return reader(self, node, scope) if reader is not None else self._computed(node, scope)

    def resolve(self, parts: Sequence[str], scope: Scope) -> Value:
        """Return the value of a dotted name: a column, or fields below one."""
        value, used = scope.resolve(parts, self._lineage)
        return self._lineage.fields(value, parts[used:])

    def extract(self, node: exp.Expr, scope: Scope) -> list[Value] | None:
        """Return a value for each key that a call extracts; None if the node is not a call of a JSON function."""
        if (
            not isinstance(node, exp.Anonymous)
            or not isinstance(node.this, str)
            or not node.this.startswith(FUNCTION_PREFIX)
        ):
            return None
        call = self._functions[node.this.removeprefix(FUNCTION_PREFIX)]
        arguments = node.expressions
        if len(arguments) <= call.document:
            return [()]
        document = self.value(arguments[call.document], scope)
        rest = arguments[call.document + 1 :]
        if call.style is None:
            for each in rest:
                self.visit(each, scope)
            return [self._lineage.parse(document, _schema(rest))]
        paths = rest if call.takes_many else rest[:1]
        return [self._lineage.below(document, self._path(each, call.style, scope)) for each in paths]

    def _path(self, node: exp.Expr, style: Style, scope: Scope) -> Path | Unresolved:
        if isinstance(node, exp.Literal) and node.is_string:
            return parse_path(node.this, style)
        self.visit(node, scope)
        return Unresolved.PATH

    def _computed(self, node: exp.Expr, scope: Scope) -> Value:
        """Read a function or an operator. Unless it is a JSON function, its operands are used and its value cannot be followed."""
        if isinstance(node, exp.Query):
            self._visit_query(node, scope)
            return None
        values = self.extract(node, scope)
        if values is None:
            self.visit_children(node, scope)
            return None
        if any(value is None for value in values):
            return None
        return tuple(chain.from_iterable(value for value in values if value))

    def _inner(self, node: exp.Expr, scope: Scope) -> Value:
        return self.value(node.this, scope)

    def _column(self, node: exp.Expr, scope: Scope) -> Value:
        assert isinstance(node, exp.Column)
        return self.resolve([part.name for part in node.parts], scope)

    def _field(self, node: exp.Expr, scope: Scope) -> Value:
        """Read ``value.field``, ``value['field']``, ``value[0]`` and ``value:path``."""
        if isinstance(node, exp.Dot) and not isinstance(node.expression, exp.Identifier):
            return self.value(node.expression, scope)  # db.function(…)
        value = self.value(node.this, scope)
        if isinstance(node, exp.JSONExtract):
            return self._lineage.below(value, _path_of(node.expression))
        if isinstance(node, exp.Dot):
            return self._lineage.fields(value, [node.expression.name])
        index = node.expressions[0] if node.expressions else None
        if isinstance(index, exp.Literal) and index.is_string:
            return self._lineage.fields(value, [index.this])
        self.visit_children(node, scope, skipped=("this",))
        return value and tuple(self._lineage.element(each) for each in value)


def _schema(arguments: Sequence[exp.Expr]) -> dict[str, Any] | None:
    first = arguments[0] if arguments else None
    return parse_schema(first.this) if isinstance(first, exp.Literal) and first.is_string else None


def _path_of(node: exp.Expr) -> Path | Unresolved:
    """Return the path of ``col:a.b[0]``, which sqlglot has parsed."""
    members: list[str] = []
    for part in node.expressions if isinstance(node, exp.JSONPath) else ():
        if isinstance(part, exp.JSONPathRoot):
            continue
        if not isinstance(part, exp.JSONPathKey) or not isinstance(part.this, str):
            return Path(tuple(members), ends_in_array=True) if members else Unresolved.BAD_PATH
        members.append(part.this)
    return Path(tuple(members)) if members else Unresolved.BAD_PATH


_READERS: Final[dict[type, Callable[[ExpressionReader, exp.Expr, Scope], Value]]] = {
    exp.Column: ExpressionReader._column,  # noqa: SLF001 - a table of this class's own methods
    exp.Literal: lambda _expressions, _node, _scope: (),
    **dict.fromkeys((exp.Paren, exp.Alias, exp.Cast, exp.TryCast), ExpressionReader._inner),  # noqa: SLF001 - likewise
    **dict.fromkeys((exp.Dot, exp.Bracket, exp.JSONExtract), ExpressionReader._field),  # noqa: SLF001 - likewise
}
"""Expressions through which a value can be followed. The lookup is by exact class, because a walk visits thousands of nodes."""
