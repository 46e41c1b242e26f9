"""The eight types of flat columns, and the evidence from which a column's type follows.

Values appear in different rows, batches and hours, on different executors and in any order, and must lead to
one type. Tideline therefore keeps evidence, which forms a semilattice: ``join`` is associative, commutative
and idempotent. The evidence determines the type at the end. The order of types alone (NULL < TINYINT < … <
DOUBLE < STRING, BOOLEAN next to the numbers) is a semilattice too, but loses information: whether DOUBLE can
hold the integers depends on how large they are.

Rules (json-splitting.md §6):

* integers take the narrowest width; beyond 64 bits they are text, never floats;
* integers mixed with floats are DOUBLE as long as DOUBLE represents each of them exactly (2^53);
* true and false mixed with anything else are text;
* objects, arrays, quoted strings and numbers that no DOUBLE can hold are text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class ColumnType(IntEnum):
    """A type of a flat column. The numbers order the types from narrow to wide; BOOLEAN is outside of this
    order.
    """

    NULL = 0
    TINYINT = 1
    SMALLINT = 2
    INT = 3
    BIGINT = 4
    DOUBLE = 5
    STRING = 6
    BOOLEAN = 7

    def join(self, other: ColumnType) -> ColumnType:
        """Return the narrowest type that holds the values of both."""
        if self is other or other is ColumnType.NULL:
            return self
        if self is ColumnType.NULL:
            return other
        if ColumnType.BOOLEAN in {self, other}:
            return ColumnType.STRING
        return max(self, other)

    @property
    def hive(self) -> str:
        """The name in Hive and Spark; NULL has none."""
        assert self is not ColumnType.NULL, "a column must have a type"
        return self.name.lower()

    @property
    def is_integer(self) -> bool:
        """Whether this is one of the four integer types."""
        return ColumnType.TINYINT <= self <= ColumnType.BIGINT

    @property
    def is_numeric(self) -> bool:
        """Whether this is an integer type or DOUBLE."""
        return ColumnType.TINYINT <= self <= ColumnType.DOUBLE


INTEGER_BITS: Final = {
    ColumnType.TINYINT: 8,
    ColumnType.SMALLINT: 16,
    ColumnType.INT: 32,
    ColumnType.BIGINT: 64,
}
DOUBLE_EXACT_MAX: Final = 1 << 53
"""DOUBLE represents every integer up to this one exactly."""
_INT64_END: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class Evidence:
    """The kinds and bounds of a key's values, without NULLs and absent values.
    The default stands for no values.
    """

    least: int | None = None
    """The least integer, ``most`` the greatest; both are None if there was none."""
    most: int | None = None
    has_floats: bool = False
    has_booleans: bool = False
    has_text: bool = False
    """Something that only a STRING can hold."""

    def join(self, other: Evidence) -> Evidence:
        """Return the evidence of both together."""
        return Evidence(
            _either(min, self.least, other.least),
            _either(max, self.most, other.most),
            self.has_floats or other.has_floats,
            self.has_booleans or other.has_booleans,
            self.has_text or other.has_text,
        )

    @property
    def type(self) -> ColumnType:
        """The narrowest type that holds every value without loss."""
        numbers = self._number_type()
        if self.has_text or (self.has_booleans and numbers is not ColumnType.NULL):
            return ColumnType.STRING
        return ColumnType.BOOLEAN if self.has_booleans else numbers

    @property
    def is_within_64_bits(self) -> bool:
        """Whether BIGINT holds every integer."""
        return (
            self.least is None or self.most is None or (self.least >= -_INT64_END and self.most < _INT64_END)
        )

    @property
    def is_exact_as_double(self) -> bool:
        """Whether DOUBLE represents every integer exactly."""
        return (
            self.least is None
            or self.most is None
            or (self.least >= -DOUBLE_EXACT_MAX and self.most <= DOUBLE_EXACT_MAX)
        )

    @property
    def numbers(self) -> Evidence:
        """The evidence for a numeric type alone:
        without text, booleans, or integers beyond 64 bits.
        """
        return Evidence(*self._limit(-_INT64_END, _INT64_END - 1), self.has_floats)

    @property
    def doubles(self) -> Evidence:
        """The evidence for DOUBLE alone:
        ``numbers`` without the integers that DOUBLE does not represent exactly.
        """
        return Evidence(*self._limit(-DOUBLE_EXACT_MAX, DOUBLE_EXACT_MAX), self.has_floats)

    def _number_type(self) -> ColumnType:
        if self.least is None or self.most is None:
            return ColumnType.DOUBLE if self.has_floats else ColumnType.NULL
        if self.has_floats:
            return ColumnType.DOUBLE if self.is_exact_as_double else ColumnType.STRING
        return integer_type(self.least, self.most)

    def _limit(self, least: int, most: int) -> tuple[int | None, int | None]:
        if self.least is None or self.most is None:
            return None, None
        return min(max(self.least, least), most), min(max(self.most, least), most)

    def check(self) -> None:
        """Assert that both bounds exist or neither, and that they are in order."""
        assert (self.least is None) == (self.most is None), self
        assert self.least is None or self.most is None or self.least <= self.most, self


NOTHING: Final = Evidence()


def integers(least: int, most: int) -> Evidence:
    """Return the evidence of integers from ``least`` to ``most``, both observed."""
    return Evidence(least=least, most=most)


def integer_type(least: int, most: int) -> ColumnType:
    """Return the narrowest integer type for both; STRING if they need more than 64 bits."""
    for column_type, bits in INTEGER_BITS.items():
        if -(1 << (bits - 1)) <= least and most < 1 << (bits - 1):
            return column_type
    return ColumnType.STRING


def readers_accept(old: ColumnType, new: ColumnType) -> bool:
    """Whether a column may change from ``old`` to ``new`` while files of the old type remain.

    Readers accept wider integers, and DOUBLE for integers that it represents exactly. If the new type is
    STRING, Spark's reader fails on filters pushed down to old files, and the metastore refuses BOOLEAN ->
    STRING (json-splitting.md §3.2, flat-tables-hive4.md §2).
    """
    if not (old.is_numeric and new.is_numeric):
        return old is new
    return old <= new


def metastore_accepts(old: ColumnType, new: ColumnType) -> bool:
    """Whether the metastore accepts a change of a column
    from ``old`` to ``new`` (flat-tables-hive4.md §2).
    """
    if old is new:
        return True
    return old.is_numeric and (new is ColumnType.STRING or (new.is_numeric and old < new))


def choose_reused_type(old: ColumnType, needed: ColumnType) -> ColumnType:
    """Return the type that an empty column of type ``old`` gets for values of ``needed``:
    the wider one if both are integers.
    """
    return old.join(needed) if old.is_integer and needed.is_integer else needed


def _either(choose: Callable[[int, int], int], one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return choose(one, other)
