"""Sets of fields as sorted, disjoint intervals of bytes.

An interval records whether it is a single value (``is_point``), because only after a single value can a scan
continue with the next column's bytes. The bounds alone cannot tell: ``p > 255 and p <= 511`` has the bounds
of one value but contains 256. Two adjacent points therefore stay separate.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from state.partitions.keys.binary_sortable import END, NULL, VALUE
from state.store import prefix_end


class Interval(NamedTuple):
    """Fields with ``lo <= field < hi``."""

    lo: bytes
    hi: bytes
    is_point: bool = False


Intervals = tuple[Interval, ...]
NOTHING: Final[Intervals] = ()
NULLS: Final[Intervals] = (Interval(NULL, VALUE, is_point=True),)
NOT_NULL: Final[Intervals] = (Interval(VALUE, END),)
"""Values, and texts that are not a value of the type."""


def after(prefix: bytes) -> bytes:
    """Return the smallest bytes greater than everything that begins with ``prefix``;
    carries over trailing ff bytes.
    """
    if prefix[-1] != 0xFF:
        return prefix[:-1] + bytes((prefix[-1] + 1,))
    end = prefix_end(prefix)
    assert end is not None, "markers are below ff"
    return end


def point(field: bytes) -> Intervals:
    """Return the set of one value."""
    return (Interval(field, after(field), is_point=True),)


def between(lo: bytes, hi: bytes) -> Intervals:
    """Return the fields in [lo, hi), none if the range is empty."""
    return (Interval(lo, hi),) if lo < hi else NOTHING


def unite(sets: Iterable[Intervals]) -> Intervals:
    """Return the union of the sets; costs a sort."""
    pieces = sorted(piece for intervals in sets for piece in intervals)
    merged: list[Interval] = []
    for piece in pieces:
        last = merged[-1] if merged else None
        if last is None or last.hi < piece.lo or (last.hi == piece.lo and (last.is_point or piece.is_point)):
            merged.append(piece)
        elif last[:2] != piece[:2]:
            merged[-1] = Interval(last.lo, max(last.hi, piece.hi))
        elif last.is_point != piece.is_point:
            merged[-1] = Interval(last.lo, last.hi)
    return tuple(merged)


def intersect(one: Intervals, other: Intervals) -> Intervals:
    """Return the intersection of two sets, in one pass."""
    shared, i, j = [], 0, 0
    while i < len(one) and j < len(other):
        a, b = one[i], other[j]
        lo, hi = max(a.lo, b.lo), min(a.hi, b.hi)
        if lo < hi:
            shared.append(Interval(lo, hi, a.is_point or b.is_point))
        if a.hi <= b.hi:
            i += 1
        else:
            j += 1
    return tuple(shared)


def intersect_all(sets: Sequence[Intervals]) -> Intervals:
    """Return the intersection of all sets; pairwise, so the cost for many sets is not quadratic."""
    assert sets
    level = list(sets)
    while len(level) > 1:
        pairs = [intersect(level[at], level[at + 1]) for at in range(0, len(level) - 1, 2)]
        level = pairs + level[len(level) - len(level) % 2 :]
    return level[0]


def contains(lows: Sequence[bytes], highs: Sequence[bytes], field: bytes) -> bool:
    """Whether a field is in the set with these lower and upper bounds."""
    at = bisect_right(lows, field) - 1
    return at >= 0 and field < highs[at]


def check(intervals: Intervals) -> None:
    """Assert that intervals are not empty, sorted and disjoint."""
    assert all(interval.lo < interval.hi for interval in intervals), intervals
    for before, following in itertools.pairwise(intervals):
        assert before.hi <= following.lo, (before, following)
