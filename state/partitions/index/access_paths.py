"""Access paths: the boxes of a scan plan as ranges of keys,
along the columns of a key as far as the bytes allow, and their choice.

As long as a column has single values, each value extends a prefix and the next column follows. The first
column with a real interval ends the range. The check of each key applies the limits on later columns. Ranges
are sorted and disjoint: no partition is read twice, and no merge follows.

A key may begin with any column: the table's own keys begin with the first column, a posting begins with its
column and continues with all columns. ``choose_path`` takes the path that fixes the largest part of the key.

This does not show the number of keys. So ``PathChoice`` reads the keys of all possible paths side by side, in
rounds, and takes the path that ends first. This reads at most about twice as many keys of each path as the
answer will. If no single path is short, each alternative of an OR may have its own. A cache keeps the plans
of filters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from state.partitions.filters.intervals import Interval, Intervals, after
from state.partitions.index.records import IndexedTable
from state.partitions.index.scan_plans import FilterPlan, MultiScanPlan, ScanPlan
from state.partitions.keys.binary_sortable import UNCONVERTIBLE, VALUE
from state.store import Reader, prefix_end


RANGES_MAX: Final = 10_000
"""Further ranges merge with their neighbours, at the cost of some extra keys. Clients send lists of 1,000
values."""
PROBED_KEYS: Final = tuple(32 << number for number in range(14))
"""Keys to read of each possible path to find the shortest, in rounds that continue each other."""
PROBED_KEYS_MAX: Final = 1 << 20
"""Keys to read of all paths together; if this is not enough, choose the path that fixes most of the key."""
FEW_KEYS: Final = 256
"""An answer that reads no more keys needs no further plan."""
ALTERNATIVES_MAX: Final = 64
"""Boxes that may each have a path, if no single path is short."""
_PROBE_SLACK: Final = 4
"""Keys that do not matter: among nearly equal paths, the one that fixes most of the key."""
Range = tuple[bytes, "bytes | None"]
"""Keys with ``start <= key < end``, without the table's prefix; None is the end of the table."""
_POINT, _CLOSED, _HALF_OPEN = 4, 2, 1


@dataclass(frozen=True, slots=True)
class AccessPath:
    """The way to read a plan: through the postings of ``column``, or through the table's own keys (None)."""

    column: int | None
    ranges: tuple[Range, ...]
    exact: bool
    """Whether every key in the ranges matches and needs no check."""
    capped: bool = False
    """Whether too many ranges were merged, or columns left out."""
    whole_keys: bool = False
    """Whether every range is one value of each column: a get, except for partitions with the same typed
    values."""
    unread: tuple[int, ...] = ()
    """If the plan is a single box: the columns outside the ranges, whose limits need a check."""


def choose_path(plan: FilterPlan, columns: int) -> AccessPath:
    """Return the path that fixes the largest part of the key, for a table with this number of columns."""
    return find_ranges(plan, columns, _sort_paths(plan, columns)[0])


def find_candidates(plan: FilterPlan, columns: int) -> list[AccessPath]:
    """Return the paths that may be the shortest, the one that fixes the largest part of the key first.

    Returns only one path if its ranges contain nothing but matches, because no other path can read less.
    """
    first, *others = _sort_paths(plan, columns)
    best = find_ranges(plan, columns, first)
    if best.exact:
        return [best]
    return [best, *(find_ranges(plan, columns, path) for path in others)]


class PathChoice:
    """A choice for one table in one local store."""

    def __init__(self, reader: Reader, table: IndexedTable) -> None:
        self._reader = reader
        self._table = table
        self._columns = len(table.key_schema.columns)

    def choose(self, plan: FilterPlan) -> tuple[Sequence[AccessPath], int | None]:
        """Return the path with the fewest keys, or several paths for the alternatives of an OR if these
        together have fewer keys.

        Returns the number of their keys if there was a choice and the count is complete.
        """
        boxes = plan.plans()
        paths = find_candidates(plan, self._columns)
        if paths[0].exact or (len(paths) == 1 and len(boxes) <= 1):
            return paths[:1], None  # there is nothing to choose
        path, size = self._choose_path(plan)
        counted = size if size < max(self._rounds(len(paths))) else None
        if size <= FEW_KEYS or not 1 < len(boxes) <= ALTERNATIVES_MAX:
            return [path], counted
        apart, total = self._choose_each(boxes, size // 2)
        return (apart, total) if total <= size // 2 else ([path], counted)

    def _choose_each(self, boxes: Sequence[ScanPlan], most: int) -> tuple[list[AccessPath], int]:
        """Return a path for every group of boxes that share their best path, and the number of keys; stops
        counting above ``most``.
        """
        groups: dict[int | None, list[ScanPlan]] = {}
        total = 0
        for box in boxes:
            path, size = self._choose_path(box)
            groups.setdefault(path.column, []).append(box)
            total += size
            if total > most:
                break
        return [
            find_ranges(MultiScanPlan(tuple(group)), self._columns, at) for at, group in groups.items()
        ], total

    def _choose_path(self, plan: FilterPlan) -> tuple[AccessPath, int]:
        """Return the path with the fewest keys and their number, or, without a result, the number of keys
        read.
        """
        paths = find_candidates(plan, self._columns)
        unread = [self._entries(path) for path in paths]
        sizes, limit = [0] * len(paths), 0
        for limit in self._rounds(len(paths)):
            for number, entries in enumerate(unread):
                sizes[number] += sum(1 for _ in islice(entries, limit - sizes[number]))
            ended = [size for size in sizes if size < limit]
            if ended:
                enough = min(limit - 1, min(ended) + _PROBE_SLACK)
                return next((path, size) for path, size in zip(paths, sizes, strict=True) if size <= enough)
        return paths[0], limit

    @staticmethod
    def _rounds(paths: int) -> Iterator[int]:
        """Yield, for each round of a choice between this number of paths, how many keys of each path to read
        in total.
        """
        for number, limit in enumerate(PROBED_KEYS):
            if number and limit * paths > PROBED_KEYS_MAX:
                return
            yield limit

    def _entries(self, access: AccessPath) -> Iterator[bytes]:
        """Yield one item for every range of a path and one for every key in it: the cost of reading the
        path.
        """
        prefix = self._table.prefix(access.column)
        for start, end in access.ranges:
            yield start
            yield from self._reader.scan_keys(
                prefix + start, prefix_end(prefix) if end is None else prefix + end
            )


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
    box_ranges = [_find_box_ranges(box, order, ranges_max) for box in boxes]
    ranges = _coalesce([range_ for one in box_ranges for range_ in one.ranges])
    capped = any(one.capped for one in box_ranges)
    exact = plan.is_exact and not capped and not any(one.unread for one in box_ranges)
    single = len(boxes) == 1 and plan.is_exact and not capped
    unread = tuple(sorted(box_ranges[0].unread)) if single else ()
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
    """The ranges of one box, the columns that they do not limit, and whether the box has too many values."""

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
