"""From boxes to ranges of keys: along the columns of a key, as far as the bytes allow.

While a column has single values only, each value opens a prefix and the next column follows; the first column with a real
interval ends the key. What is limited behind it is left to the residual check. Ranges come out sorted and disjoint, so no
partition is read twice and nothing has to be merged afterwards.

A key may begin with any column: the table's own keys begin with the first, a posting begins with its column and goes on with
all of them. ``choose_path`` takes the path that fixes most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from state.partitions.filters.intervals import Interval, Intervals, after
from state.partitions.keys.binary_sortable import UNCONVERTIBLE, VALUE


if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.partitions.index.scan_plans import FilterPlan, ScanPlan


RANGES_MAX: Final = 10_000
"""More are joined with their neighbours: some rows too many are read, none is missed. Clients send lists of 1,000 values."""
Range = tuple[bytes, "bytes | None"]
"""Keys with ``start <= key < end``, without the table's prefix; None is the end of the table."""
_POINT, _CLOSED, _HALF_OPEN = 4, 2, 1


@dataclass(frozen=True, slots=True)
class AccessPath:
    """How a plan is read: through postings of ``column``, or (None) through the table's own keys."""

    column: int | None
    ranges: tuple[Range, ...]
    exact: bool
    """Whether every key in the ranges matches, so that no residual check is needed."""
    capped: bool = False
    """Whether ranges were joined or columns left out because there were too many."""
    whole_keys: bool = False
    """Whether every range is one value of each column: a get, but for partitions that share their typed values."""
    left: tuple[int, ...] = ()
    """Where the plan is a single box: the columns that the ranges say nothing of. Their limits are all there is to check."""


def choose_path(plan: FilterPlan, columns: int) -> AccessPath:
    """Return the way to read a plan for a table with so many columns that fixes most of the key."""
    boxes = plan.plans()
    ways: list[int | None] = [None]
    ways += [column for column in range(1, columns) if all(box.limit(column) is not None for box in boxes)]
    if not boxes:
        return AccessPath(None, (), exact=True)
    best = max(ways, key=lambda way: min(_score(box, _order(way, columns)) for box in boxes))
    return find_ranges(plan, columns, best)


def find_ranges(plan: FilterPlan, columns: int, way: int | None = None) -> AccessPath:
    """Return the ranges of a plan along one way."""
    order = _order(way, columns)
    boxes = plan.plans()
    most = max(1, RANGES_MAX // max(1, len(boxes)))
    lowered = [_lower_box(box, order, most) for box in boxes]
    ranges = _coalesced([range_ for one in lowered for range_ in one.ranges])
    capped = any(one.capped for one in lowered)
    exact = plan.is_exact and not capped and not any(one.left for one in lowered)
    single = len(boxes) == 1 and plan.is_exact and not capped
    left = tuple(sorted(lowered[0].left)) if single else ()
    whole = way is None and not capped and all(_is_fixed(box, column) for box in boxes for column in order)
    return AccessPath(way, tuple(ranges), exact, capped, whole, left)


def _order(way: int | None, columns: int) -> list[int]:
    return [*([] if way is None else [way]), *range(columns)]


class _Lowered(NamedTuple):
    """The ranges of one box, the columns they say nothing of, and whether that is because there were too many values."""

    ranges: list[Range]
    left: set[int]
    capped: bool = False


def _lower_box(box: ScanPlan, order: Sequence[int], most: int) -> _Lowered:
    """Return the ranges of one box, ``most`` at most."""
    prefixes: list[tuple[bytes, bytes]] = [(b"", b"")]  # with the field that the key began with
    left = {column for column, _ in box.limits}
    for depth, column in enumerate(order):
        intervals = box.limit(column)
        if intervals is None:
            break
        if depth and column == order[0]:
            prefixes = [(prefix + first, first) for prefix, first in prefixes]
            continue
        if not depth and len(intervals) > most:
            return _Lowered(_thinned([_behind(b"", one) for one in intervals], most), left, capped=True)
        if len(prefixes) * len(intervals) > most:
            return _Lowered([(prefix, after(prefix)) for prefix, _ in prefixes], left, capped=True)
        left.discard(column)
        if not all(interval.is_point for interval in intervals):
            return _Lowered([_behind(prefix, one) for prefix, _ in prefixes for one in intervals], left)
        prefixes = [
            (prefix + one.lo, first if depth else one.lo) for prefix, first in prefixes for one in intervals
        ]
    return _Lowered([(prefix, after(prefix) if prefix else None) for prefix, _ in prefixes], left)


def _behind(prefix: bytes, interval: Interval) -> Range:
    return prefix + interval.lo, prefix + interval.hi


def _coalesced(ranges: list[Range]) -> list[Range]:
    merged: list[Range] = []
    for start, end in sorted(ranges, key=lambda range_: range_[0]):
        if merged and (merged[-1][1] is None or start <= merged[-1][1]):
            last = merged[-1][1]
            merged[-1] = merged[-1][0], None if last is None or end is None else max(last, end)
        else:
            merged.append((start, end))
    return merged


def _thinned(ranges: list[Range], most: int) -> list[Range]:
    size = -(-len(ranges) // most)
    groups = (ranges[at : at + size] for at in range(0, len(ranges), size))
    return [(group[0][0], group[-1][1]) for group in groups]


def _is_fixed(box: ScanPlan, column: int) -> bool:
    intervals = box.limit(column)
    return intervals is not None and all(interval.is_point for interval in intervals)


def _score(box: ScanPlan, order: Sequence[int]) -> int:
    """Tell how much of the key a way fixes: single values count most, half-open intervals least."""
    score, seen = 0, set()
    for column in order:
        intervals = box.limit(column)
        if intervals is None:
            break
        if column in seen:
            continue
        seen.add(column)
        if not _is_fixed(box, column):
            return score + _tightness(intervals)
        score += _POINT
    return score


def _tightness(intervals: Intervals) -> int:
    open_below, open_above = intervals[0].lo <= VALUE, intervals[-1].hi >= UNCONVERTIBLE
    if open_below and open_above:
        return 0
    return _HALF_OPEN if open_below or open_above else _CLOSED
