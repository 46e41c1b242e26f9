"""Binds a filter to a table's partition columns, by the metastore's rules on the constants that each column
allows.

============================ ==================================== ==========================================
column                       Hive 2 and 3                         Hive 4
============================ ==================================== ==========================================
string                       text, date (as its text)             text, date, timestamp (as their texts)
varchar, char                none                                 as string
tinyint, smallint, int,      integer                              integer
bigint
date                         date, text of a date                 date, text of a date
timestamp                    none                                 timestamp, date, text of either
others                       none                                 none
============================ ==================================== ==========================================

With ``all_types``, every other type compares with quoted text. In Hive 4, the default partition's name stands
for NULL if ``=`` or ``!=`` compares a typed column with it: this is how Hive sends IS NULL and IS NOT NULL.

In a typed column, no comparison matches NULL (not even ``!=``) or a text that is not a value of the type.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final

from state.errors import BadFilter
from state.partitions.filters.conditions import Condition, Leaf, all_of, any_of
from state.partitions.filters.dialect import Dialect, HiveVersion
from state.partitions.filters.intervals import (
    NOT_NULL,
    NOTHING,
    NULLS,
    Intervals,
    after,
    between,
    intersect_all,
    point,
    unite,
)
from state.partitions.filters.like_pattern import parse_pattern
from state.partitions.filters.syntax_tree import (
    FLIPPED,
    And,
    Column,
    Comparison,
    Literal,
    Membership,
    Node,
    Operator,
    Or,
    excerpt,
)
from state.partitions.keys.binary_sortable import UNCONVERTIBLE, VALUE, Instant, Value, encode, escape_bytes
from state.partitions.keys.column_types import INTEGER_BYTES, ColumnType, PartitionColumn, TypeKind
from state.partitions.keys.values import (
    DEFAULT_PARTITION,
    calendar_day,
    format_instant,
    parse_timestamp,
    parse_typed,
)


ONLY_STRINGS: Final = "Filtering is supported only on partition keys of type string"
"""Hive's message for a constant that does not fit its column."""
_LENIENT_DATE: Final = re.compile(r"([0-9]{1,4})-([0-9]{1,2})-([0-9]{1,2})")
_WIDE_DECIMAL: Final = ColumnType(TypeKind.DECIMAL, 120, 60)
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
Edges = tuple[bytes, bytes]
"""The field of a constant and the start of larger values; equal if no field of the column can equal the
constant."""


def bind(
    node: Node,
    columns: Sequence[PartitionColumn],
    dialect: Dialect,
    default_partition: str = DEFAULT_PARTITION,
) -> Condition:
    """Return a filter as conditions on a table's columns;
    raise BadFilter if the columns do not allow it.
    """
    return _Binder(columns, dialect, default_partition).bind(node)


class _Binder:
    """Binds filters to the columns of one table."""

    def __init__(self, columns: Sequence[PartitionColumn], dialect: Dialect, default_partition: str) -> None:
        self._columns = columns
        self._numbers = {column.name: number for number, column in enumerate(columns)}
        self._dialect = dialect
        self._default = default_partition
        self._least = [_least(column.type) for column in columns]
        self._converters = [_converter(column.type, dialect) for column in columns]

    def bind(self, node: Node) -> Condition:
        match node:
            case And(children):
                return all_of([self.bind(child) for child in children])
            case Or(children):
                return any_of([self.bind(child) for child in children])
            case Comparison():
                return self._bind_comparison(node)
            case Membership():
                return self._bind_membership(node)

    def _bind_comparison(self, node: Comparison) -> Leaf:
        number = self._column_number(node.column)
        if node.operator is Operator.LIKE:
            return self._bind_like(number, node)
        operator = FLIPPED[node.operator] if node.reversed else node.operator
        return Leaf(number, self._intervals(number, operator, node.literal))

    def _bind_membership(self, node: Membership) -> Leaf:
        number = self._column_number(node.column)
        operator = Operator.NOT_EQUAL if node.negated else Operator.EQUAL
        sets = [self._intervals(number, operator, literal) for literal in node.literals]
        return Leaf(number, intersect_all(sets) if node.negated else unite(sets))

    def _column_number(self, column: Column) -> int:
        number = self._numbers.get(column.name.lower())
        if number is None:
            raise BadFilter(
                f"Specified key <{excerpt(column.name)}> is not a partitioning key for the table",
                position=column.at,
            )
        return number

    def _intervals(self, number: int, operator: Operator, literal: Literal) -> Intervals:
        type_ = self._columns[number].type
        if self._means_null(type_, operator, literal):
            return NULLS if operator is Operator.EQUAL else NOT_NULL
        below, above = self._edges(number, literal)
        match operator:
            case Operator.EQUAL:
                intervals = point(below) if below < above else NOTHING
            case Operator.NOT_EQUAL:
                intervals = between(VALUE, below) + between(above, UNCONVERTIBLE)
            case Operator.LESS:
                intervals = between(VALUE, below)
            case Operator.LESS_OR_EQUAL:
                intervals = between(VALUE, above)
            case Operator.GREATER:
                intervals = between(above, UNCONVERTIBLE)
            case _:
                intervals = between(below, UNCONVERTIBLE)
        return intervals

    def _means_null(self, type_: ColumnType, operator: Operator, literal: Literal) -> bool:
        if literal.value != self._default or self._dialect.hive_version is not HiveVersion.HIVE_4:
            return False
        return operator in {Operator.EQUAL, Operator.NOT_EQUAL} and not type_.is_text

    def _edges(self, number: int, literal: Literal) -> Edges:
        """Return the position of a constant among the column's fields."""
        type_ = self._columns[number].type
        value = self._converters[number](literal.value)
        if value is None:
            raise self._misfit(number, literal)
        least = self._least[number]
        if least and isinstance(value, int) and not least <= value < -least:
            edge = VALUE if value < least else UNCONVERTIBLE
            return edge, edge
        field = encode(type_.kind, value)
        return field, after(field)

    def _bind_like(self, number: int, node: Comparison) -> Leaf:
        if node.reversed:
            raise BadFilter(
                f"Value should be on the RHS for LIKE operator : Key <{excerpt(node.column.name)}>",
                position=node.literal.at,
            )
        column = self._columns[number]
        text = self._converters[number](node.literal.value) if column.type.is_text else None
        if not isinstance(text, str):
            raise self._misfit(number, node.literal)
        pattern = parse_pattern(text, self._dialect.like)
        if pattern.is_equality:
            return Leaf(number, point(encode(column.type.kind, pattern.prefix)))
        start = VALUE + escape_bytes(pattern.prefix.encode(errors="surrogatepass"))
        return Leaf(number, between(start, after(start)), None if pattern.is_prefix else pattern)

    def _misfit(self, number: int, literal: Literal) -> BadFilter:
        column = self._columns[number]
        return BadFilter(
            f"{ONLY_STRINGS}, or of a type that the constant fits",
            position=literal.at,
            column=column.name,
            type=column.declared,
            constant=excerpt(str(literal.value)),
        )


def _least(type_: ColumnType) -> int:
    """Return the smallest integer of an integral type, 0 for others."""
    return -(1 << (8 * INTEGER_BYTES[type_.kind] - 1)) if type_.is_integer else 0


def _converter(type_: ColumnType, dialect: Dialect) -> Callable[[Value], Value]:
    """Return the conversion of a constant to the type;
    it returns None if the metastore does not compare the two.
    """
    kind, wide = type_.kind, dialect.all_types or dialect.hive_version is HiveVersion.HIVE_4
    if kind is TypeKind.STRING or (wide and kind in {TypeKind.VARCHAR, TypeKind.CHAR}):
        return lambda constant: _as_text(kind, constant)
    if type_.is_integer:
        return lambda constant: constant if isinstance(constant, int) else None
    if kind is TypeKind.DATE:
        return _as_date
    if kind is TypeKind.TIMESTAMP and wide:
        return _as_instant
    if not dialect.all_types or kind is TypeKind.OTHER:
        return lambda _: None
    return lambda constant: _as_any(type_, constant)


def _as_text(kind: TypeKind, constant: Value) -> str | None:
    if isinstance(constant, str):
        return constant.rstrip(" ") if kind is TypeKind.CHAR else constant
    if isinstance(constant, dt.date):
        return constant.isoformat()
    if isinstance(constant, Instant):
        return format_instant(constant)
    return None


def _as_date(constant: Value) -> dt.date | None:
    if isinstance(constant, dt.date):
        return constant
    return calendar_day(_LENIENT_DATE.fullmatch(constant)) if isinstance(constant, str) else None


def _as_instant(constant: Value) -> Instant | None:
    if isinstance(constant, Instant):
        return constant
    day = _as_date(constant)
    if day is not None:
        return Instant((day.toordinal() - _EPOCH.toordinal()) * 86_400, 0)
    return parse_timestamp(constant) if isinstance(constant, str) else None


def _as_any(type_: ColumnType, constant: Value) -> Value:
    if isinstance(constant, int) and type_.kind in {TypeKind.DECIMAL, TypeKind.FLOAT, TypeKind.DOUBLE}:
        return Decimal(constant) if type_.kind is TypeKind.DECIMAL else float(constant)
    if not isinstance(constant, str):
        return None
    return parse_typed(_WIDE_DECIMAL if type_.kind is TypeKind.DECIMAL else type_, constant)
