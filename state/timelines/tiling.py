"""Tiling: cover an open stretch of time with the partitions of several storages, one update period at a time.

A level takes the storages' partitions of its period from every open stretch. Several storages may hold the
same partition. A segment therefore carries its kind: its period, and a bit mask of the storages that hold it.
``cover.choose_storages`` selects the storages when the whole cover is known.

Cost: one binary search per storage and open stretch, and a few C-level passes over the runs inside. No code
here visits a single partition.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, repeat
from typing import Final, NamedTuple

from state.timelines.calendar_units import TIME_END_S, TIME_START_S
from state.timelines.periods import UpdatePeriod, sort_longest_first
from state.timelines.runs import Runs


_ALWAYS: Final = (-(1 << 62), 1 << 62)
_WEEKS: Final = (UpdatePeriod.WEEKLY, UpdatePeriod.WEEKLY_ISO)


@dataclass(frozen=True, slots=True)
class Storage:
    """One storage table of a fact: its partitions by one time column, and the time for which it may answer.

    ``start_s`` and ``end_s`` are its validity window (seconds, UTC). Only partitions that are wholly inside
    count.
    """

    table: str
    runs: Mapping[UpdatePeriod, Runs]
    start_s: int = TIME_START_S
    end_s: int = TIME_END_S


class SegmentKind(NamedTuple):
    """Kind of a segment: its period, and the bit mask of the storages that hold all of it."""

    period: UpdatePeriod
    holders: int


Segment = tuple[int, int, int]
"""(start_s, end_s, kind number): consecutive partitions of one kind, as moments."""
Stretch = tuple[int, int]
"""(start_s, end_s), not empty."""
_Holder = tuple[int, Runs, int, int]
"""(bit of the storage, its runs, its window as ordinals [first, end))."""


@dataclass(slots=True)
class SegmentKinds:
    """Numbers for kinds: a segment is three integers."""

    numbers: dict[SegmentKind, int] = field(default_factory=dict)

    def number(self, period: UpdatePeriod, holders: int) -> int:
        """Return the number of a kind; draws one for a new kind."""
        return self.numbers.setdefault(SegmentKind(period, holders), len(self.numbers))

    def to_list(self) -> list[SegmentKind]:
        """Return the kinds by number."""
        return list(self.numbers)


@dataclass(slots=True)
class Level:
    """One update period, over all storages that have partitions of it."""

    period: UpdatePeriod
    holders: Sequence[_Holder]
    kinds: SegmentKinds

    def take(self, low_s: int, high_s: int, segments: list[Segment], open_: list[Stretch]) -> None:
        """Move the existing part of [low_s, high_s) to ``found`` and the rest to ``open_``, both in time
        order.
        """
        first, end = self.period.ceil(low_s), self.period.floor(high_s)
        parts = [
            (bit, part)
            for bit, runs, window_first, window_end in self.holders
            if (part := _cut(runs, max(first, window_first), min(end, window_end)))
        ]
        if not parts:
            open_.append((low_s, high_s))
        elif len(parts) == 1:
            bit, part = parts[0]
            _collect(
                self.period.starts_s(part),
                self.kinds.number(self.period, bit),
                (low_s, high_s),
                segments,
                open_,
            )
        else:
            self._take_shared(parts, (low_s, high_s), segments, open_)

    def _take_shared(
        self,
        parts: list[tuple[int, array[int]]],
        stretch: Stretch,
        segments: list[Segment],
        open_: list[Stretch],
    ) -> None:
        """Sweep over the edges of several storages; every edge flips one bit of the mask."""
        at_s, high_s = stretch
        holders = 0
        switches = sorted((edge, bit) for bit, part in parts for edge in part)
        for edge_s, (_, bit) in zip(
            self.period.starts_s(edge for edge, _ in switches), switches, strict=True
        ):
            if at_s < edge_s:
                self._emit((at_s, edge_s), holders, segments, open_)
                at_s = edge_s
            holders ^= bit
        if at_s < high_s:
            open_.append((at_s, high_s))

    def _emit(self, stretch: Stretch, holders: int, segments: list[Segment], open_: list[Stretch]) -> None:
        if holders:
            segments.append((*stretch, self.kinds.number(self.period, holders)))
        else:
            open_.append(stretch)

    def find_holders(self, ordinal: int) -> int:
        """Return the bit mask of the storages that hold one partition."""
        return sum(
            bit for bit, runs, first, end in self.holders if first <= ordinal < end and ordinal in runs
        )


def build_levels(
    storages: Sequence[Storage], periods: Iterable[UpdatePeriod] | None, kinds: SegmentKinds
) -> list[Level]:
    """Return the levels from the longest period to the shortest, for periods in which a storage has
    partitions.
    """
    holders: dict[UpdatePeriod, list[_Holder]] = {}
    for number, storage in enumerate(storages):
        for period, runs in storage.runs.items():
            if runs:
                holders.setdefault(period, []).append((1 << number, runs, *_window(storage, period)))
    periods_ = holders if periods is None else holders.keys() & set(periods)
    return [Level(period, holders[period], kinds) for period in sort_longest_first(periods_)]


def tile_longest_first(
    levels: Sequence[Level], start_s: int, end_s: int
) -> tuple[list[Segment], list[Stretch]]:
    """Return the part of [start, end) that the levels cover, longest periods first, and the open rest; both
    in time order.
    """
    segments: list[Segment] = []
    rest: list[Stretch] = [(start_s, end_s)] if start_s < end_s else []
    for level in levels:
        open_: list[Stretch] = []
        for low_s, high_s in rest:
            level.take(low_s, high_s, segments, open_)
        rest = open_
    segments.sort()
    return segments, rest


def join_segments(segments: Iterable[Segment], numbers: Sequence[int]) -> list[Segment]:
    """Renumber the kinds, and join neighbours that then have the same number."""
    together: list[Segment] = []
    for start_s, end_s, kind in segments:
        number = numbers[kind]
        if together and together[-1][1:] == (start_s, number):
            together[-1] = (together[-1][0], end_s, number)
        else:
            together.append((start_s, end_s, number))
    return together


def _window(storage: Storage, period: UpdatePeriod) -> tuple[int, int]:
    """Return the storage's window as ordinals.
    Most storages have none, and skipping its calendar arithmetic makes covers cheaper.
    """
    if storage.start_s <= TIME_START_S and storage.end_s >= TIME_END_S:
        return _ALWAYS
    return period.ceil(storage.start_s), period.floor(storage.end_s)


def _cut(runs: Runs, first: int, end: int) -> array[int] | None:
    return runs.between(first, end) if first < end else None


def _collect(
    edges: list[int], kind: int, stretch: Stretch, segments: list[Segment], open_: list[Stretch]
) -> None:
    low_s, high_s = stretch
    segments.extend(zip(edges[::2], edges[1::2], repeat(kind)))
    if low_s < edges[0]:
        open_.append((low_s, edges[0]))
    open_.extend(zip(edges[1:-1:2], edges[2::2], strict=True))
    if edges[-1] < high_s:
        open_.append((edges[-1], high_s))


class _Path(NamedTuple):
    """The best path to a point: (missing seconds, partitions), the point before, and the segments in
    between.
    """

    cost: tuple[int, int]
    before_s: int
    segments: Sequence[Segment]
    open_: Sequence[Stretch]


def are_nested(levels: Sequence[Level]) -> bool:
    """Whether every partition of a longer period consists of whole partitions of each shorter period."""
    weeks = sum(level.period in _WEEKS for level in levels)
    return weeks == 0 or (weeks == 1 and levels[0].period in _WEEKS)


def tile_with_fewest(
    levels: Sequence[Level], start_s: int, end_s: int
) -> tuple[list[Segment], list[Stretch]]:
    """Return the segments that cover [start, end) with the least missing time, then the fewest partitions,
    and the open rest.

    Days nest in weeks and in months, but weeks do not nest in months. A month may cut a week whose days do
    not exist, and eight weeks across two missing months are better than seven weeks and a dozen days.
    Longest-first is then neither complete nor minimal. Instead, this is a shortest path:

    1. the points are the starts of weeks, months, quarters and years within the range;
    2. the steps are whole partitions that exist, and, from a point to the next one, whatever the periods up
       to a day cover (those nest, so longest-first is best for them);
    3. trace the path back from the end of the range.

    Cost: about 65 points per year, each with one small cover; ten years take milliseconds.
    """
    long = [level for level in levels if level.period.weight_ms >= UpdatePeriod.WEEKLY.weight_ms]
    short = levels[len(long) :]
    low_s, high_s = _narrow(levels, start_s, end_s)
    # 1. The points.
    starts = (point for level in long for point in _list_starts(level.period, low_s, high_s))
    points = sorted({start_s, end_s, *starts})
    paths = {start_s: _Path((0, 0), start_s, (), ())}
    # 2. The steps from each point, the cheapest path to each point kept.
    for here_s, next_s in pairwise(points):
        for there_s, step in _find_steps(long, short, here_s, next_s):
            cost = (paths[here_s].cost[0] + step.cost[0], paths[here_s].cost[1] + step.cost[1])
            if there_s <= end_s and (there_s not in paths or cost < paths[there_s].cost):
                paths[there_s] = step._replace(cost=cost)
    # 3. Back from the end.
    segments, open_ = _trace_back(paths, end_s)
    return join_segments(segments, range(len(levels[0].kinds.numbers))) if levels else segments, open_


def _narrow(levels: Sequence[Level], start_s: int, end_s: int) -> tuple[int, int]:
    """Narrow [start, end) to the existing partitions: a range of 9,999 years costs no more than they do."""
    ends = [
        (level.period.start_s(runs.first), level.period.start_s(runs.last + 1))
        for level in levels
        for _, runs, _, _ in level.holders
        if runs.first is not None and runs.last is not None
    ]
    low_s, high_s = min(first for first, _ in ends), max(last for _, last in ends)
    return max(start_s, low_s), min(end_s, high_s)


def _list_starts(period: UpdatePeriod, start_s: int, end_s: int) -> list[int]:
    return period.starts_s(range(period.ceil(start_s), period.floor(end_s) + 1)) if start_s < end_s else []


def _find_steps(
    long: Sequence[Level], short: Sequence[Level], here_s: int, next_s: int
) -> Iterator[tuple[int, _Path]]:
    for level in long:
        ordinal = level.period.floor(here_s)
        holders = level.find_holders(ordinal) if level.period.start_s(ordinal) == here_s else 0
        if holders:
            there_s = level.period.start_s(ordinal + 1)
            kind = level.kinds.number(level.period, holders)
            yield there_s, _Path((0, 1), here_s, ((here_s, there_s, kind),), ())
    segments, open_ = tile_longest_first(short, here_s, next_s)
    kinds = short[0].kinds.to_list() if short else []
    count = sum(count_partitions(kinds[kind].period, start_s, end_s) for start_s, end_s, kind in segments)
    yield next_s, _Path((sum(high_s - low_s for low_s, high_s in open_), count), here_s, segments, open_)


def count_partitions(period: UpdatePeriod, start_s: int, end_s: int) -> int:
    """Return how many partitions an aligned stretch has."""
    return period.floor(end_s) - period.floor(start_s)


def _trace_back(paths: dict[int, _Path], end_s: int) -> tuple[list[Segment], list[Stretch]]:
    segments: list[Segment] = []
    rest: list[Stretch] = []
    at_s = end_s
    while (path := paths[at_s]).before_s != at_s:
        segments += reversed(path.segments)
        rest += reversed(path.open_)
        at_s = path.before_s
    return segments[::-1], _join_stretches(rest[::-1])


def _join_stretches(stretches: list[Stretch]) -> list[Stretch]:
    joined: list[Stretch] = []
    for start_s, end_s in stretches:
        if joined and joined[-1][1] == start_s:
            joined[-1] = (joined[-1][0], end_s)
        else:
            joined.append((start_s, end_s))
    return joined
