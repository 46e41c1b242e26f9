"""Hive's expression trees as filters: what ``getPartitionsByExpr`` asks, once its bytes have been read.

A client sends a tree of calls, columns and constants. The calls that a filter can say become a filter; a part it cannot say is
left out where that only makes the answer larger (under AND) and makes the whole answer "all partitions" elsewhere. Either way
the answer is marked as one that may hold partitions which do not match; every client checks those itself, as the contract of
the call demands (``IMetaStoreClient.listPartitionsByExpr``).

The default partition is NULL here, for text columns too. Hive 4 agrees where it evaluates an expression and takes it for a text
where it turns the expression into a filter of its own; which of the two it does depends on the constants (reference:
partition-filters.md §6). No query can tell, since rows of that partition hold NULL.

A column is compared only with a constant of its own type: where the types differ Hive puts a conversion between them, which is
a call of its own and no column.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

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
from state.partitions.keys.values import parse_date, parse_timestamp


if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

    from state.partitions.keys.binary_sortable import Instant


@dataclass(frozen=True, slots=True)
class ColumnReference:
    """A column, with its type as Hive writes it."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant as text, None for NULL."""

    text: str | None
    type: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function of Hive, by its class, and what it is applied to."""

    function: str
    arguments: tuple[Expression, ...]


Expression = ColumnReference | Constant | Call


@dataclass(frozen=True, slots=True)
class Translation:
    """An expression as a filter, None for "all partitions"."""

    filter: Node | None
    is_exact: bool
    """Whether the filter finds nothing that the expression would not."""


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
    """Return what a filter can say of an expression; never raises for a tree of any form."""
    return _Translator(default_partition).of(expression, 0)


class _Translator:
    """One default partition's name; NOT goes down to the conditions, so that NULL stays out on both sides of it."""

    def __init__(self, default_partition: str) -> None:
        self._default = default_partition

    def of(self, expression: Expression, depth: int, *, negated: bool = False) -> Translation:
        if depth > _DEPTH_MAX or not isinstance(expression, Call):
            return UNKNOWN
        parts = expression.arguments
        match expression.function.removeprefix(_GENERIC):
            case "OPNot" if len(parts) == 1:
                return self.of(parts[0], depth + 1, negated=not negated)
            case "OPAnd" | "OPOr" as name:
                inner = [self.of(part, depth + 1, negated=negated) for part in parts]
                return _all(inner) if (name == "OPAnd") is not negated else _any(inner)
            case name:
                return self._condition(name, parts, negated=negated)

    def _condition(self, name: str, parts: Sequence[Expression], *, negated: bool) -> Translation:
        match name, parts:
            case ("OPNull" | "OPNotNull", [ColumnReference() as column]):
                return _exactly(self._null_check(column, is_null=(name == "OPNull") is not negated))
            case ("OPEqualNS", _) if negated:
                return UNKNOWN  # true where = is NULL, which no filter says
        node = _plain_condition(name, parts)
        try:
            wanted = invert(node) if node is not None and negated else node
        except BadFilter:
            return UNKNOWN
        return UNKNOWN if wanted is None else _exactly(self._without_null(wanted, parts))

    def _without_null(self, node: Node, parts: Sequence[Expression]) -> Node:
        """A filter takes the default partition of a text column for a text; in an expression it is NULL."""
        texts = [part for part in parts if isinstance(part, ColumnReference) and part.type == "string"]
        return join_nodes(And, [node, *(self._null_check(column, is_null=False) for column in texts)])

    def _null_check(self, column: ColumnReference, *, is_null: bool) -> Node:
        operator = Operator.EQUAL if is_null else Operator.NOT_EQUAL
        return Comparison(_named(column), operator, Literal(self._default, 0))


def _plain_condition(name: str, parts: Sequence[Expression]) -> Node | None:
    match name, parts:
        case ("In", [ColumnReference() as column, *items]):
            literals = [_literal(column, item) for item in items]
            known = tuple(literal for literal in literals if literal is not None)
            return Membership(_named(column), known) if known and len(known) == len(literals) else None
        case ("Between", [Constant(text), ColumnReference() as column, low, high]):
            return _between(column, low, high, negated=text == "true")
        case (function, [ColumnReference() as column, Constant() as pattern]) if function == _LIKE:
            return _compared(column, Operator.LIKE, pattern)
        case _:
            return _comparison(_COMPARISONS.get(name), parts)


def _comparison(operator: Operator | None, parts: Sequence[Expression]) -> Node | None:
    match operator, parts:
        case (Operator(), [ColumnReference() as column, Constant() as constant]):
            return _compared(column, operator, constant)
        case (Operator(), [Constant() as constant, ColumnReference() as column]):
            return _compared(column, operator, constant, is_reversed=True)
        case _:
            return None


def _compared(
    column: ColumnReference, operator: Operator, constant: Expression, *, is_reversed: bool = False
) -> Node | None:
    literal = _literal(column, constant)
    return None if literal is None else Comparison(_named(column), operator, literal, is_reversed)


def _between(column: ColumnReference, low: Expression, high: Expression, *, negated: bool) -> Node | None:
    first = _compared(column, Operator.LESS if negated else Operator.GREATER_OR_EQUAL, low)
    last = _compared(column, Operator.GREATER if negated else Operator.LESS_OR_EQUAL, high)
    if first is None or last is None:
        return None
    return join_nodes(Or if negated else And, [first, last])


def _literal(column: ColumnReference, constant: Expression) -> Literal | None:
    """Return a constant of the column's own type; None for NULL, for another type and for types that no filter takes."""
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


def _all(parts: Sequence[Translation]) -> Translation:
    known = [part.filter for part in parts if part.filter is not None]
    exact = len(known) == len(parts) and all(part.is_exact for part in parts)
    return Translation(join_nodes(And, known), exact) if known else UNKNOWN


def _any(parts: Sequence[Translation]) -> Translation:
    known = [part.filter for part in parts if part.filter is not None]
    if not known or len(known) < len(parts):
        return UNKNOWN
    return Translation(join_nodes(Or, known), all(part.is_exact for part in parts))


def _exactly(node: Node) -> Translation:
    return Translation(node, is_exact=True)


def _named(column: ColumnReference) -> Column:
    return Column(column.name, 0)
