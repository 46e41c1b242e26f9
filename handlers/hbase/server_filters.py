"""Conditions on partitions in HBase's filter language, as far as they can be told there.

Every row of a partition has a cell per field, in the same sortable bytes as in its key, and HBase compares bytes: an interval
``low <= field < high`` is exactly two ``SingleColumnValueFilter``. Filters on the row key itself are no use, because where
a field starts differs from key to key, and regular expressions read bytes as UTF-8.

What cannot be told is left out where everything has to hold (AND), and makes the whole untellable where one thing is enough
(OR): what HBase lets through may be too much and is never too little. LIKE and long lists stay with the client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from handlers.hbase.layout import FAMILY
from state.partitions.filters.conditions import AllOf, Condition, Leaf


if TYPE_CHECKING:
    from collections.abc import Iterator

    from state.partitions.filters.intervals import Interval


KEYS_ONLY: Final = b"KeyOnlyFilter()"
"""Cells arrive without their values."""
INTERVALS_MAX: Final = 64
"""Longer lists cost the region servers more than sending the keys."""
FILTER_BYTES_MAX: Final = 16 * 1024


def write_filter(condition: Condition) -> bytes:
    """Return the filter for keys without values; all of them where the condition cannot be told."""
    told = _write(condition)
    if told is None or len(told) > FILTER_BYTES_MAX:
        return KEYS_ONLY
    return told + b" AND " + KEYS_ONLY


def compared_columns(condition: Condition) -> frozenset[int]:
    """Return the numbers of the columns that a condition speaks of; HBase has to read their cells to compare them."""
    if isinstance(condition, Leaf):
        return frozenset([condition.column])
    return frozenset().union(*map(compared_columns, condition.children))


def _write(condition: Condition) -> bytes | None:
    if isinstance(condition, Leaf):
        return _leaf(condition)
    parts = [_write(child) for child in condition.children]
    if isinstance(condition, AllOf):
        return _joined(b" AND ", [part for part in parts if part is not None])
    known = [part for part in parts if part is not None]
    return _joined(b" OR ", known) if len(known) == len(parts) else None


def _leaf(leaf: Leaf) -> bytes | None:
    """Return the intervals of one field; what LIKE asks beyond them is left out."""
    if not 0 < len(leaf.intervals) <= INTERVALS_MAX:
        return None
    return _joined(b" OR ", [_interval(leaf.column, interval) for interval in leaf.intervals])


def _interval(column: int, interval: Interval) -> bytes:
    return b"(" + b" AND ".join(_comparisons(column, interval)) + b")"


def _comparisons(column: int, interval: Interval) -> Iterator[bytes]:
    for operator, field in ((b">=", interval.lo), (b"<", interval.hi)):
        quoted = field.replace(b"'", b"''")
        # false: a row without the cell is let through; true: its newest version is compared
        yield b"SingleColumnValueFilter('%s', '%d', %s, 'binary:%s', false, true)" % (
            FAMILY,
            column,
            operator,
            quoted,
        )


def _joined(word: bytes, parts: list[bytes]) -> bytes | None:
    return b"(" + word.join(parts) + b")" if parts else None
