"""Translates Hive's expression trees, sent by ``getPartitionsByExpr``, into filters.

A client sends a tree of calls, columns and constants. Calls that the filter language can express become a
filter. If a part under AND cannot be expressed, the filter omits it, which only enlarges the answer;
elsewhere the whole answer becomes "all partitions". In both cases the answer is marked as possibly containing
partitions that do not match. Clients check those themselves, as the contract of the call requires
(``IMetaStoreClient.listPartitionsByExpr``).

The default partition is NULL here, for text columns too. Hive 4 agrees when it evaluates an expression. When
it turns the expression into its own filter, it compares the default partition as text; the constants decide
which of the two happens (reference: partition-filters.md §6). No query sees the difference, because the rows
of that partition contain NULL.

A column compares only with a constant of its own type. If the types differ, Hive inserts a conversion, which
is a call and not a column.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from state.errors import BadFilter
from state.partitions.filters.syntax_tree import (
    And,
    Column,
    Comparison,
    Literal,
    Membership,
    Node,
    Operator,
    Or,
    invert,
    join_nodes,
)
from state.partitions.keys.binary_sortable import Instant
from state.partitions.keys.values import parse_date, parse_timestamp


@dataclass(frozen=True, slots=True)
class ColumnReference:
    """A column and its type as Hive writes it."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant as text, None for NULL."""

    text: str | None
    type: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a Hive function, named by its class, with its arguments."""

    function: str
    arguments: tuple[Expression, ...]


Expression = ColumnReference | Constant | Call
ReadExpression = Callable[[bytes], Expression | None]
"""Reads the bytes that Hive's clients send; returns None for unreadable ones."""


@dataclass(frozen=True, slots=True)
class Translation:
    """The filter of an expression, None for "all partitions"."""

    filter: Node | None
    is_exact: bool
    """Whether the filter selects only partitions that the expression selects."""


UNKNOWN: Final = Translation(None, is_exact=False)
_GENERIC: Final = "org.apache.hadoop.hive.ql.udf.generic.GenericUDF"
_COMPARISONS: Final = {
    "OPEqual": Operator.EQUAL,
    "OPEqualNS": Operator.EQUAL,
    "OPNotEqual": Operator.NOT_EQUAL,
    "OPLessThan": Operator.LESS,
    "OPEqualOrLessThan": Operator.LESS_OR_EQUAL,
    "OPGreaterThan": Operator.GREATER,
    "OPEqualOrGreaterThan": Operator.GREATER_OR_EQUAL,
}
_LIKE: Final = "org.apache.hadoop.hive.ql.udf.UDFLike"
_INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_DEPTH_MAX: Final = 100


def translate(expression: Expression, default_partition: str) -> Translation:
    """Translate an expression as far as a filter can express it;
    accepts a tree of any form without raising.
    """
    return _Translator(default_partition).translate(expression, 0)


class _Translator:
    """Translates expressions, given the name of the default partition. Pushes NOT down to the comparisons,
    because NULL never matches.
    """

    def __init__(self, default_partition: str) -> None:
        self._default = default_partition

    def translate(self, expression: Expression, depth: int, *, negated: bool = False) -> Translation:
        if depth > _DEPTH_MAX or not isinstance(expression, Call):
            return UNKNOWN
        parts = expression.arguments
        match expression.function.removeprefix(_GENERIC):
            case "OPNot" if len(parts) == 1:
                return self.translate(parts[0], depth + 1, negated=not negated)
            case "OPAnd" | "OPOr" as name:
                inner = [self.translate(part, depth + 1, negated=negated) for part in parts]
                return _combine_all(inner) if (name == "OPAnd") is not negated else _combine_any(inner)
            case name:
                return self._translate_condition(name, parts, negated=negated)

    def _translate_condition(self, name: str, parts: Sequence[Expression], *, negated: bool) -> Translation:
        match name, parts:
            case ("OPNull" | "OPNotNull", [ColumnReference() as column]):
                return _exact(self._null_check(column, is_null=(name == "OPNull") is not negated))
            case ("OPEqualNS", _) if negated:
                return UNKNOWN  # true where = is NULL, which no filter can express
        node = _match_condition(name, parts)
        try:
            filter_ = invert(node) if node is not None and negated else node
        except BadFilter:
            return UNKNOWN
        return UNKNOWN if filter_ is None else _exact(self._without_null(filter_, parts))

    def _without_null(self, node: Node, parts: Sequence[Expression]) -> Node:
        """Exclude the default partition of text columns:
        a filter compares it as text, in an expression it is NULL.
        """
        texts = [part for part in parts if isinstance(part, ColumnReference) and part.type == "string"]
        return join_nodes(And, [node, *(self._null_check(column, is_null=False) for column in texts)])

    def _null_check(self, column: ColumnReference, *, is_null: bool) -> Node:
        operator = Operator.EQUAL if is_null else Operator.NOT_EQUAL
        return Comparison(_column_of(column), operator, Literal(self._default, 0))


def _match_condition(name: str, parts: Sequence[Expression]) -> Node | None:
    match name, parts:
        case ("In", [ColumnReference() as column, *items]):
            literals = [_literal(column, item) for item in items]
            constants = tuple(literal for literal in literals if literal is not None)
            return (
                Membership(_column_of(column), constants)
                if constants and len(constants) == len(literals)
                else None
            )
        case ("Between", [Constant(text), ColumnReference() as column, low, high]):
            return _between(column, low, high, negated=text == "true")
        case (function, [ColumnReference() as column, Constant() as pattern]) if function == _LIKE:
            return _compare(column, Operator.LIKE, pattern)
        case _:
            return _match_comparison(_COMPARISONS.get(name), parts)


def _match_comparison(operator: Operator | None, parts: Sequence[Expression]) -> Node | None:
    match operator, parts:
        case (Operator(), [ColumnReference() as column, Constant() as constant]):
            return _compare(column, operator, constant)
        case (Operator(), [Constant() as constant, ColumnReference() as column]):
            return _compare(column, operator, constant, is_reversed=True)
        case _:
            return None


def _compare(
    column: ColumnReference, operator: Operator, constant: Expression, *, is_reversed: bool = False
) -> Node | None:
    literal = _literal(column, constant)
    return None if literal is None else Comparison(_column_of(column), operator, literal, is_reversed)


def _between(column: ColumnReference, low: Expression, high: Expression, *, negated: bool) -> Node | None:
    first = _compare(column, Operator.LESS if negated else Operator.GREATER_OR_EQUAL, low)
    last = _compare(column, Operator.GREATER if negated else Operator.LESS_OR_EQUAL, high)
    if first is None or last is None:
        return None
    return join_nodes(Or if negated else And, [first, last])


def _literal(column: ColumnReference, constant: Expression) -> Literal | None:
    """Return a constant of the column's type;
    None for NULL, another type or a type that filters do not support.
    """
    if not isinstance(constant, Constant) or constant.text is None:
        return None
    both_integers = {column.type, constant.type} <= _INTEGERS
    if not both_integers and column.type != constant.type:
        return None
    value = _value(constant.text, column.type)
    return None if value is None else Literal(value, 0)


def _value(text: str, type_: str) -> str | int | dt.date | Instant | None:
    if type_ in _INTEGERS:
        return int(text) if _INTEGER.fullmatch(text) else None
    if type_ == "date":
        return parse_date(text)
    if type_ == "timestamp":
        return parse_timestamp(text)
    return text if type_ == "string" else None


def _combine_all(parts: Sequence[Translation]) -> Translation:
    filters = [part.filter for part in parts if part.filter is not None]
    exact = len(filters) == len(parts) and all(part.is_exact for part in parts)
    return Translation(join_nodes(And, filters), exact) if filters else UNKNOWN


def _combine_any(parts: Sequence[Translation]) -> Translation:
    filters = [part.filter for part in parts if part.filter is not None]
    if not filters or len(filters) < len(parts):
        return UNKNOWN
    return Translation(join_nodes(Or, filters), all(part.is_exact for part in parts))


def _exact(node: Node) -> Translation:
    return Translation(node, is_exact=True)


def _column_of(column: ColumnReference) -> Column:
    return Column(column.name, 0)
