"""Finds filters whose answers differ between metastores, or between a metastore and the index. The endpoint
forwards such calls.

The text of a filter decides most cases (``find_doubt``). The rest depends on the partitions: a metastore
compares a number partly as text, so ``hr = 7`` does not find ``hr=007``, and it reports an error for a value
that is not of its column's type. ``TypedColumns`` therefore looks for such values. docs/PARTITIONS.md lists
the differences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from state.partitions.filters.dialect import Dialect, HiveVersion
from state.partitions.filters.syntax_tree import (
    Comparison,
    Literal,
    Membership,
    Node,
    Operator,
    conditions_of,
)
from state.partitions.index.partition_index import PartitionIndex
from state.partitions.index.records import IndexedTable
from state.partitions.keys.binary_sortable import UNCONVERTIBLE, VALUE, encode, escape_bytes
from state.partitions.keys.column_types import PartitionColumn, TypeKind
from state.partitions.keys.partition_key import KeySchema
from state.partitions.keys.values import encode_text


WILDCARDS: Final = re.compile(r"[%_\\]")
"""Characters that a metastore reads as wildcards when it compares names of partitions."""
_ORDERED_BY_DATABASE: Final = re.compile(r"[\x00-\x1f\ue000-\U0010ffff]| \Z")
"""Texts whose order depends on the database: Derby and MySQL pad texts with blanks, and Derby compares UTF-16
units."""
_CANONICAL: Final = {TypeKind.DATE: rb"\d{4}-\d\d-\d\d"}
_CANONICAL_INTEGER: Final = rb"(?:0|-?[1-9]\d*)"
_TEXTS: Final = {TypeKind.STRING, TypeKind.VARCHAR}


@dataclass(frozen=True, slots=True)
class _Condition:
    """One comparison of a filter."""

    column: str
    operator: Operator
    literals: tuple[Literal, ...]
    is_misread: bool = False


def find_doubt(node: Node | None, schema: KeySchema, dialect: Dialect) -> bool:
    """Whether metastores may answer a filter differently, as far as its text shows."""
    if node is None:
        return False
    columns = {column.name: column for column in schema.columns}
    conditions = list(_conditions(node))
    if dialect.hive_version is HiveVersion.HIVE_2 and _falls_back(conditions, columns):
        return True
    return any(_is_doubtful(one, columns, schema.default_partition) for one in conditions)


def _conditions(node: Node) -> Iterator[_Condition]:
    for one in conditions_of(node):
        match one:
            case Comparison(column, operator, literal):
                yield _Condition(column.name.lower(), operator, (literal,))
            case Membership(column, literals, negated, is_misread):
                operator = Operator.NOT_EQUAL if negated else Operator.EQUAL
                yield _Condition(column.name.lower(), operator, literals, is_misread)


def _falls_back(conditions: Iterable[_Condition], columns: dict[str, PartitionColumn]) -> bool:
    """Whether Hive 2 and 3 evaluate the whole filter with JDO because of LIKE. JDO refuses typed columns."""
    has_like = any(one.operator is Operator.LIKE for one in conditions)
    return has_like and any(not columns[one.column].type.is_text for one in conditions)


def _is_doubtful(condition: _Condition, columns: dict[str, PartitionColumn], default_partition: str) -> bool:
    kind = columns[condition.column].type
    if not (kind.kind in _TEXTS or kind.kind is TypeKind.DATE or kind.is_integer):
        return True  # timestamps and fixed-length texts: compared as text by some databases
    texts = [one.value for one in condition.literals if isinstance(one.value, str)]
    if condition.is_misread or any("\\" in text for text in texts):
        return True
    if condition.operator is not Operator.LIKE and any(map(_ORDERED_BY_DATABASE.search, texts)):
        return True
    excludes = condition.operator is Operator.NOT_EQUAL
    return excludes and any(text != default_partition and WILDCARDS.search(text) for text in texts)


def has_default_text(index: PartitionIndex, table: IndexedTable, node: Node) -> bool:
    """Whether a text column of a filter contains the default partition, which some expressions compare as
    NULL and others as text.
    """
    names = {one.column for one in _conditions(node)}
    schema = table.key_schema
    return any(
        index.has_field(table, number, encode_text(column.type, schema.default_partition))
        for number, column in enumerate(schema.columns)
        if column.name in names and column.type.is_text
    )


def has_padded_text(index: PartitionIndex, table: IndexedTable, node: Node | None) -> bool:
    """Whether a column has a value of the filter with trailing blanks, which is equal for some databases."""
    columns = table.key_schema.columns
    numbers = {column.name: number for number, column in enumerate(columns) if column.type.is_text}
    return any(
        _is_padded(index, table, numbers[one.column], literal.value)
        for one in (() if node is None else _conditions(node))
        if one.column in numbers and one.operator is not Operator.LIKE
        for literal in one.literals
        if isinstance(literal.value, str)
    )


def _is_padded(index: PartitionIndex, table: IndexedTable, column: int, text: str) -> bool:
    kind, padded = table.key_schema.columns[column].type.kind, text + " "
    while index.has_field(table, column, VALUE + escape_bytes(padded.encode(errors="surrogatepass"))):
        if index.has_field(table, column, encode(kind, padded)):
            return True
        padded += " "
    return False


class TypedColumns:
    """The columns of a filter compared as numbers or dates."""

    def __init__(self, table: IndexedTable, names: frozenset[str]) -> None:
        self._table = table
        self._columns = [
            number
            for number, column in enumerate(table.key_schema.columns)
            if column.name in names and not column.type.is_text
        ]
        schema = table.key_schema
        self._canonical = _canonical_names(schema, tuple(self._columns)) if self._columns else None

    @staticmethod
    def of(table: IndexedTable, node: Node | None) -> TypedColumns:
        """Return the typed columns that a filter names."""
        names = () if node is None else (one.column for one in _conditions(node))
        return TypedColumns(table, frozenset(names))

    def has_invalid(self, index: PartitionIndex) -> bool:
        """Whether a partition has a value in these columns that is not of the column's type."""
        return any(index.has_field(self._table, number, UNCONVERTIBLE) for number in self._columns)

    def are_canonical(self, names: Iterable[bytes]) -> bool:
        """Whether every partition name has the values of these columns in the only form that a metastore
        finds.
        """
        return self._canonical is None or all(map(self._canonical.fullmatch, names))


@lru_cache(maxsize=256)
def _canonical_names(schema: KeySchema, typed: tuple[int, ...]) -> re.Pattern[bytes]:
    default = re.escape(schema.default_partition.encode())
    parts = []
    for number, column in enumerate(schema.columns):
        if number in typed:
            value = _CANONICAL.get(column.type.kind, _CANONICAL_INTEGER)
            parts.append(rb"[^/=]*=(?:%b|%b)" % (value, default))
        else:
            parts.append(rb"[^/]*")
    return re.compile(b"/".join(parts))
