"""Writes conditions on partitions in HBase's filter language, as far as it can express them.

Every row of a partition has a cell for each field, with the same sortable bytes as in its key, and HBase compares bytes. So an
interval ``low <= field < high`` is exactly two ``SingleColumnValueFilter``. Filters on the row key itself would not work: the start
of a field differs from key to key, and regular expressions read bytes as UTF-8.

A part that cannot be expressed is left out of an AND and makes a whole OR inexpressible. So HBase may return too many keys and never
too few. LIKE and long lists are checked by the client only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from handlers.hbase.layout import FAMILY
from state.partitions.filters.conditions import AllOf, Condition, Leaf


if TYPE_CHECKING:
    from collections.abc import Iterator

    from state.partitions.filters.intervals import Interval


KEYS_ONLY: Final = b"KeyOnlyFilter()"
"""Makes HBase send cells without their values."""
INTERVALS_MAX: Final = 64
"""Longer lists cost the region servers more than sending the keys does."""
FILTER_BYTES_MAX: Final = 16 * 1024


def write_filter(condition: Condition) -> bytes:
    """Return the filter for keys without values; it selects all keys where the condition cannot be expressed."""
    written = _write(condition)
    if written is None or len(written) > FILTER_BYTES_MAX:
        return KEYS_ONLY
    return written + b" AND " + KEYS_ONLY


def compared_columns(condition: Condition) -> frozenset[int]:
    """Return the columns that a condition compares; HBase must read their cells."""
    if isinstance(condition, Leaf):
        return frozenset([condition.column])
    return frozenset().union(*map(compared_columns, condition.children))


def _write(condition: Condition) -> bytes | None:
    if isinstance(condition, Leaf):
        return _write_leaf(condition)
    parts = [_write(child) for child in condition.children]
    if isinstance(condition, AllOf):
        return _join(b" AND ", [part for part in parts if part is not None])
    expressible = [part for part in parts if part is not None]
    return _join(b" OR ", expressible) if len(expressible) == len(parts) else None


def _write_leaf(leaf: Leaf) -> bytes | None:
    """Write the intervals of one field, without the text match of LIKE."""
    if not 0 < len(leaf.intervals) <= INTERVALS_MAX:
        return None
    written = (b" AND ".join(_write_comparisons(leaf.column, each)) for each in leaf.intervals)
    return _join(b" OR ", [b"(" + each + b")" for each in written])


def _write_comparisons(column: int, interval: Interval) -> Iterator[bytes]:
    for operator, field in ((b">=", interval.lo), (b"<", interval.hi)):
        quoted = field.replace(b"'", b"''")
        # false: a row without the cell passes; true: the newest version is compared
        yield b"SingleColumnValueFilter('%s', '%d', %s, 'binary:%s', false, true)" % (
            FAMILY,
            column,
            operator,
            quoted,
        )


def _join(word: bytes, parts: list[bytes]) -> bytes | None:
    return b"(" + word.join(parts) + b")" if parts else None
