"""Turns the boxes of a scan plan into ranges of keys, along the columns of a key as far as the bytes allow.

While a column is limited to single values, each value extends a prefix and the next column follows. The first column with a real
interval ends the range. Limits on later columns are left to the check of each key. Ranges are sorted and disjoint, so no partition
is read twice and nothing has to be merged afterwards.

A key may begin with any column: the table's own keys begin with the first column, a posting begins with its column and continues
with all columns. ``choose_path`` takes the path that fixes the largest part of the key. That says little about the number of keys, so
the index compares the ``find_candidates`` by reading their first keys.
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
"""More ranges are merged with their neighbours, which reads some keys too many. Clients send lists of 1,000 values."""
Range = tuple[bytes, "bytes | None"]
"""Keys with ``start <= key < end``, without the table's prefix; None is the end of the table."""
_POINT, _CLOSED, _HALF_OPEN = 4, 2, 1


@dataclass(frozen=True, slots=True)
class AccessPath:
    """How a plan is read: through the postings of ``column``, or through the table's own keys (None)."""

    column: int | None
    ranges: tuple[Range, ...]
    exact: bool
    """Whether every key in the ranges matches, so that no key has to be checked."""
    capped: bool = False
    """Whether ranges were merged or columns left out because there were too many."""
    whole_keys: bool = False
    """Whether every range is one value of each column: a get, except for partitions with the same typed values."""
    unread: tuple[int, ...] = ()
    """Where the plan is a single box: the columns that the ranges do not limit, whose limits must be checked."""


def choose_path(plan: FilterPlan, columns: int) -> AccessPath:
    """Return the path that fixes the largest part of the key, for a table with this number of columns."""
    return find_ranges(plan, columns, _sort_paths(plan, columns)[0])


def find_candidates(plan: FilterPlan, columns: int) -> list[AccessPath]:
    """Return the paths that may be the shortest, the one that fixes the largest part of the key first.

    Only one where its ranges contain nothing but matches: no other path can read less.
    """
    first, *others = _sort_paths(plan, columns)
    best = find_ranges(plan, columns, first)
    if best.exact:
        return [best]
    return [best, *(find_ranges(plan, columns, path) for path in others)]


def _sort_paths(plan: FilterPlan, columns: int) -> list[int | None]:
    boxes = plan.plans()
    if not boxes:
        return [None]
    paths: list[int | None] = [None]
    paths += [column for column in range(1, columns) if all(box.limit(column) is not None for box in boxes)]
    scores = {path: min(_score(box, _order(path, columns)) for box in boxes) for path in paths}
    return sorted(paths, key=lambda path: -scores[path])


def find_ranges(plan: FilterPlan, columns: int, path: int | None = None) -> AccessPath:
    """Return the ranges of a plan along one path (a column with postings, or None)."""
    order = _order(path, columns)
    boxes = plan.plans()
    ranges_max = max(1, RANGES_MAX // max(1, len(boxes)))
    found = [_find_box_ranges(box, order, ranges_max) for box in boxes]
    ranges = _coalesce([range_ for one in found for range_ in one.ranges])
    capped = any(one.capped for one in found)
    exact = plan.is_exact and not capped and not any(one.unread for one in found)
    single = len(boxes) == 1 and plan.is_exact and not capped
    unread = tuple(sorted(found[0].unread)) if single else ()
    whole = (
        path is None
        and plan.is_exact
        and not capped
        and all(_is_fixed(box, column) for box in boxes for column in order)
    )
    return AccessPath(path, tuple(ranges), exact, capped, whole, unread)


def _order(path: int | None, columns: int) -> list[int]:
    return [*([] if path is None else [path]), *range(columns)]


class _BoxRanges(NamedTuple):
    """The ranges of one box, the columns that they do not limit, and whether there were too many values."""

    ranges: list[Range]
    unread: set[int]
    capped: bool = False


def _find_box_ranges(box: ScanPlan, order: Sequence[int], ranges_max: int) -> _BoxRanges:
    """Return at most ``ranges_max`` ranges of one box."""
    prefixes: list[tuple[bytes, bytes]] = [(b"", b"")]  # each with the field that the key begins with
    unread = {column for column, _ in box.limits}
    for depth, column in enumerate(order):
        intervals = box.limit(column)
        if intervals is None:
            break
        if depth and column == order[0]:  # the key contains the posting's own column a second time
            prefixes = [(prefix + first, first) for prefix, first in prefixes]
            continue
        if not depth and len(intervals) > ranges_max:
            ranges = [_extend(b"", one) for one in intervals]
            return _BoxRanges(_merge_neighbours(ranges, ranges_max), unread, capped=True)
        if len(prefixes) * len(intervals) > ranges_max:
            return _BoxRanges([(prefix, after(prefix)) for prefix, _ in prefixes], unread, capped=True)
        unread.discard(column)
        if not all(interval.is_point for interval in intervals):
            return _BoxRanges([_extend(prefix, one) for prefix, _ in prefixes for one in intervals], unread)
        prefixes = [
            (prefix + one.lo, first if depth else one.lo) for prefix, first in prefixes for one in intervals
        ]
    return _BoxRanges([(prefix, after(prefix) if prefix else None) for prefix, _ in prefixes], unread)


def _extend(prefix: bytes, interval: Interval) -> Range:
    return prefix + interval.lo, prefix + interval.hi


def _coalesce(ranges: list[Range]) -> list[Range]:
    merged: list[Range] = []
    for start, end in sorted(ranges, key=lambda range_: range_[0]):
        if merged and (merged[-1][1] is None or start <= merged[-1][1]):
            last = merged[-1][1]
            merged[-1] = merged[-1][0], None if last is None or end is None else max(last, end)
        else:
            merged.append((start, end))
    return merged


def _merge_neighbours(ranges: list[Range], ranges_max: int) -> list[Range]:
    size = -(-len(ranges) // ranges_max)
    groups = (ranges[at : at + size] for at in range(0, len(ranges), size))
    return [(group[0][0], group[-1][1]) for group in groups]


def _is_fixed(box: ScanPlan, column: int) -> bool:
    intervals = box.limit(column)
    return intervals is not None and all(interval.is_point for interval in intervals)


def _score(box: ScanPlan, order: Sequence[int]) -> int:
    """Score how much of the key a path fixes: single values count most, half-open intervals least."""
    score, seen = 0, set()
    for column in order:
        intervals = box.limit(column)
        if intervals is None:
            break
        if column in seen:
            continue
        seen.add(column)
        if not _is_fixed(box, column):
            return score + _score_intervals(intervals)
        score += _POINT
    return score


def _score_intervals(intervals: Intervals) -> int:
    open_below, open_above = intervals[0].lo <= VALUE, intervals[-1].hi >= UNCONVERTIBLE
    if open_below and open_above:
        return 0
    return _HALF_OPEN if open_below or open_above else _CLOSED
