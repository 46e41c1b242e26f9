"""The types of partition columns, read from the metastore's type names.

A type holds only the facts for ordering and filtering: its kind and, for decimals, the number of digits. A
type without a sortable form (``timestamp with local time zone``, intervals, complex types) is ``OTHER``: its
values stay text, without filters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final


class TypeKind(Enum):
    """The kind of a type; the value is Hive's name for it."""

    BOOLEAN = "boolean"
    TINYINT = "tinyint"
    SMALLINT = "smallint"
    INT = "int"
    BIGINT = "bigint"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    STRING = "string"
    VARCHAR = "varchar"
    CHAR = "char"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"
    OTHER = "other"

    __hash__ = (
        object.__hash__
    )  # members are unique; the inherited hash runs in Python, and every encoded value needs it


INTEGER_BYTES: Final = {TypeKind.TINYINT: 1, TypeKind.SMALLINT: 2, TypeKind.INT: 4, TypeKind.BIGINT: 8}
DECIMAL_DIGITS_MAX: Final = 38
"""Hive's ``HiveDecimal.MAX_PRECISION``."""
TEXT_KINDS: Final = frozenset({TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR, TypeKind.OTHER})
"""Kinds for which every text is a value, including the default partition's name (the metastore compares it as
text)."""

_FORM: Final = re.compile(r"\s*(\w+)\s*(?:\(\s*(\d{1,6})\s*(?:,\s*(\d{1,6})\s*)?\))?\s*", re.ASCII)
_KINDS: Final = {kind.value: kind for kind in TypeKind if kind is not TypeKind.OTHER} | {
    "integer": TypeKind.INT,
    "numeric": TypeKind.DECIMAL,
    "dec": TypeKind.DECIMAL,
}


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column: its kind and, for ``decimal(precision, scale)``, the number of digits and how
    many of them follow the point.
    """

    kind: TypeKind
    precision: int = 0
    scale: int = 0

    @staticmethod
    def parse(text: str) -> ColumnType:
        """Read a type as the metastore writes it; a type without a sortable form becomes ``OTHER``."""
        form = _FORM.fullmatch(text.lower())
        kind = _KINDS.get(form[1]) if form else None
        if form is None or kind is None:
            return ColumnType(TypeKind.OTHER)
        if kind is TypeKind.DECIMAL:
            precision, scale = int(form[2] or 10), int(form[3] or 0)
            fits = scale <= precision <= DECIMAL_DIGITS_MAX
            return ColumnType(kind, precision, scale) if fits else ColumnType(TypeKind.OTHER)
        return ColumnType(kind)

    @property
    def is_text(self) -> bool:
        """Whether every text is a value of this type."""
        return self.kind in TEXT_KINDS

    @property
    def is_integer(self) -> bool:
        """Whether it is one of the four integral types."""
        return self.kind in INTEGER_BYTES


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A partition column: its name in lower case and its type."""

    name: str
    type: ColumnType
    declared: str
    """The type as the metastore wrote it."""

    @staticmethod
    def of(name: str, declared: str) -> PartitionColumn:
        """Read a column from its name and type in the metastore."""
        return PartitionColumn(name.lower(), ColumnType.parse(declared), declared)


def parse_columns(pairs: Iterable[tuple[str, str]]) -> tuple[PartitionColumn, ...]:
    """Read (name, type) pairs in key order."""
    return tuple(PartitionColumn.of(name, declared) for name, declared in pairs)
