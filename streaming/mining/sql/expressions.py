"""Expressions: traces values through names, casts, fields and calls back to a raw column.

A value is traced as long as it is part of the event: renamed, cast, extracted by a JSON function, or accessed
by a dot or a bracket. Any other expression ends the trace, and its operands count as used. ``queries``
provides the function that walks a query inside an expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from sqlglot import exp

from streaming.mining.json_functions import (
    JsonFunction,
    Path,
    parse_chain,
    parse_member,
    parse_operand,
    parse_path,
    parse_path_array,
    parse_schema,
)
from streaming.mining.lineage import Lineage, Value
from streaming.mining.model import Style, Unresolved
from streaming.mining.sql.parser import FUNCTION_PREFIX
from streaming.mining.sql.scopes import Scope
from streaming.mining.templates import VARIABLE, has_placeholder


_OPERATORS: Final = (exp.JSONExtract, exp.JSONExtractScalar, exp.JSONBExtract, exp.JSONBExtractScalar)


class ExpressionReader:
    """Reads the expressions of one script. ``visit_query`` walks a query inside an expression and marks all
    its columns as used.
    """

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
        """Walk an expression, and mark its value as used."""
        self._lineage.use(self.value(node, scope))

    def visit_children(self, node: exp.Expr, scope: Scope, skipped: Iterable[str] = ()) -> None:
        """Walk all parts of a node except ``skipped`` and its WITH, which has been read before."""
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
        """Return a value for each key that a call extracts; None if the node is not a call of a JSON
        function.
        """
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
        if call.is_chain:
            return [self._lineage.below(document, self._chain(rest, scope))] if rest else [document]
        paths = rest if call.takes_many else rest[:1]
        return [self._lineage.below(document, self._path(each, call.style, scope)) for each in paths]

    def _path(self, node: exp.Expr, style: Style, scope: Scope) -> Path | Unresolved:
        text = text_of(node)
        return self._visit_path(node, scope) if text is None else parse_path(text, style)

    def _chain(self, nodes: Sequence[exp.Expr], scope: Scope) -> Path | Unresolved:
        """Read members that are separate arguments, up to the first one that is not a literal text."""
        texts = [text_of(node) for node in nodes]
        end = texts.index(None) if None in texts else len(texts)
        if end < len(texts) and not (end and nodes[end].is_number):
            return self._visit_path(nodes[end], scope)
        path = parse_chain([text for text in texts[:end] if text is not None])
        return Path(path.members, ends_in_array=True) if isinstance(path, Path) and end < len(texts) else path

    def _visit_path(self, node: exp.Expr, scope: Scope) -> Unresolved:
        """Walk a path that is not a literal; return the reason why it does not name a key."""
        if node.name == VARIABLE:
            return Unresolved.VARIABLE
        self.visit(node, scope)
        return Unresolved.PATH

    def _computed(self, node: exp.Expr, scope: Scope) -> Value:
        """Read a function or an operator. Unless it is a JSON function, its operands are used and its value
        cannot be traced.
        """
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
        if isinstance(node, exp.JSONExtract) and node.args.get("variant_extract"):
            return self._lineage.below(value, _path_of(node.expression))
        if isinstance(node, exp.Dot):
            return self._lineage.fields(value, [node.expression.name])
        index = node.expressions[0] if node.expressions else None
        name = None if index is None else text_of(index)
        if name is not None:
            return (
                self._lineage.below(value, parse_member(name))
                if _is_document(value)
                else self._lineage.fields(value, [name])
            )
        self.visit_children(node, scope, skipped=("this",))
        return value and tuple(self._lineage.element(each) for each in value)

    def _operand(self, node: exp.Expr, scope: Scope) -> Value:
        """Read ``value -> 'member'``, ``value ->> '$.path'``, ``value -> 0`` and ``value #>> '{a,b}'``."""
        if node.args.get("variant_extract"):
            return self._field(node, scope)
        return self._apply(self.value(node.this, scope), node, scope)

    def _apply(self, value: Value, node: exp.Expr, scope: Scope) -> Value:
        """Return the value that the operator of ``node`` extracts."""
        operand = node.args["expression"]
        text = text_of(operand)
        if text is None and operand.is_number:
            return value and tuple(self._lineage.element(each) for each in value)
        if text is None:
            return self._lineage.below(value, self._visit_path(operand, scope))
        is_array = isinstance(node, (exp.JSONBExtract, exp.JSONBExtractScalar))
        return self._lineage.below(value, parse_path_array(text) if is_array else parse_operand(text))

    def _lambda(self, node: exp.Expr, scope: Scope) -> Value:
        """Read a lambda, and ``f(json -> 'a' …)``, which sqlglot takes for a lambda whose body begins with a
        text.
        """
        operators: list[exp.Expr] = []
        body = node.this
        while isinstance(body, exp.Expr) and isinstance(body.this, exp.Expr):
            operators.append(body)
            body = body.this
        text = text_of(body) if isinstance(body, exp.Expr) else None
        if text is None or len(node.expressions) != 1:
            return self._computed(node, scope)
        document = self.resolve([node.expressions[0].name], scope)
        value = self._lineage.below(document, parse_operand(text))
        while operators and type(operators[-1]) in _OPERATORS:
            value = self._apply(value, operators.pop(), scope)
        if not operators:
            return value
        self._lineage.use(value)
        for each in operators:
            self.visit_children(each, scope, skipped=("this",))
        return None

    def _cast(self, node: exp.Expr, scope: Scope) -> Value:
        """Read a cast. A parsed document cast to a row (Trino) has the fields of the row type; other casts
        keep the value's origin.
        """
        value = self.value(node.this, scope)
        schema = _fields_of(node.args["to"]) if value and all(each.is_parsed for each in value) else None
        return self._lineage.parse(value, schema) if schema else value


def text_of(node: exp.Expr) -> str | None:
    """Return the value of a literal text: quoted in any way, in parentheses, cast, or joined from such texts.
    None for any other expression.
    """
    if isinstance(node, exp.Literal):
        return node.this if node.is_string else None
    if isinstance(node, (exp.RawString, exp.National, exp.UnicodeString)):
        return str(node.this)
    if isinstance(node, (exp.Paren, exp.Cast)):
        return text_of(node.this)
    if isinstance(node, (exp.Concat, exp.DPipe)):
        parts = [text_of(each) for each in (node.expressions or (node.this, node.expression))]
        return None if None in parts else "".join(part or "" for part in parts)
    return None


def _fields_of(type_: exp.Expr) -> dict[str, Any] | None:
    """Return the fields of a row type as a schema; None for any other type."""
    if not isinstance(type_, exp.DataType) or type_.this is not exp.DType.STRUCT:
        return None
    return {
        field.name: _fields_of(field.args["kind"])
        for field in type_.expressions
        if isinstance(field, exp.ColumnDef) and field.args.get("kind") is not None
    }


def _schema(arguments: Sequence[exp.Expr]) -> dict[str, Any] | None:
    first = arguments[0] if arguments else None
    text = None if first is None else text_of(first)
    return None if text is None else parse_schema(text)


def _is_document(value: Value) -> bool:
    """Whether a value is the raw column itself. Only as a variant or JSON type can it have members in
    brackets (Snowflake, BigQuery).
    """
    return bool(value) and not any(each.members or each.is_parsed for each in value or ())


def _path_of(node: exp.Expr) -> Path | Unresolved:
    """Return the path of ``col:a.b[0]``, which sqlglot has parsed."""
    members: list[str] = []
    for part in node.expressions if isinstance(node, exp.JSONPath) else ():
        if isinstance(part, exp.JSONPathRoot):
            continue
        if not isinstance(part, exp.JSONPathKey) or not isinstance(part.this, str):
            return Path(tuple(members), ends_in_array=True) if members else Unresolved.BAD_PATH
        if has_placeholder(part.this):
            return Unresolved.VARIABLE
        members.append(part.this)
    return Path(tuple(members)) if members else Unresolved.BAD_PATH


_READERS: Final[dict[type, Callable[[ExpressionReader, exp.Expr, Scope], Value]]] = {
    exp.Column: ExpressionReader._column,  # noqa: SLF001 - a table of this class's own methods
    exp.Literal: lambda _expressions, _node, _scope: (),
    **dict.fromkeys((exp.Paren, exp.Alias), ExpressionReader._inner),  # noqa: SLF001 - likewise
    **dict.fromkeys((exp.Cast, exp.TryCast), ExpressionReader._cast),  # noqa: SLF001 - likewise
    **dict.fromkeys((exp.Dot, exp.Bracket), ExpressionReader._field),  # noqa: SLF001 - likewise
    **dict.fromkeys(_OPERATORS, ExpressionReader._operand),  # noqa: SLF001 - likewise
    exp.Lambda: ExpressionReader._lambda,  # noqa: SLF001 - likewise
}
"""Expressions that pass a value on. The lookup is by exact class, because a walk visits thousands of
nodes."""
