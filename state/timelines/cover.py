"""Covering a range of time with partitions, in time proportional to the runs touched.

A recursive cover checks every partition for existence; a year of minutes takes 534,738 checks. Here the range
is one open stretch:

1. Each update period, from the longest to the shortest, takes its existing partitions out of every open
   stretch, run by run. The stretches open at the end are exactly the missing ones.
2. If periods do not nest (weeks next to months), longest-first may leave a stretch open that another tiling
   covers. In that case, and if the caller requests the fewest partitions, the tiling comes from
   ``tile_with_fewest``.
3. The choice of storages is one for the whole cover: the fewest possible answer.

The answer never names a missing parent in addition to its children, one missing hour does not cost its day,
and adjacent missing partitions form one tiling (it uses a week across two missing months).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from state.errors import Uncoverable
from state.timelines.periods import UpdatePeriod
from state.timelines.tiling import (
    Level,
    Segment,
    SegmentKinds,
    Storage,
    Stretch,
    are_nested,
    build_levels,
    count_partitions,
    join_segments,
    tile_longest_first,
    tile_with_fewest,
)
from state.timelines.time_ranges import PartitionRange, TimePartition, TimeRange


EXACT_MAX: Final = 12


@dataclass(frozen=True, slots=True)
class CoverRun:
    """Consecutive partitions of one period in one storage table, ``first`` to ``last``, both included."""

    table: str
    period: UpdatePeriod
    first: int
    last: int

    @property
    def range(self) -> PartitionRange:
        """The run as a range of partitions."""
        return PartitionRange(self.period, self.first, self.last + 1)

    def __str__(self) -> str:
        return f"{self.table} {self.period.lens_name} {self.range}"


class Cover:
    """The answer: runs in time order, and the missing stretches.

    A cover holds moments. Its iterators build runs and partitions only when used, because formatting half a
    million names takes longer than finding them. All iterators can start again.
    """

    __slots__ = ("_missing", "_segments", "_sources", "finest", "span")

    def __init__(
        self,
        span: TimeRange,
        segments: Sequence[Segment],
        missing: Sequence[Stretch],
        sources: Sequence[tuple[str, UpdatePeriod]],
        finest: UpdatePeriod | None,
    ) -> None:
        self.span = span
        self.finest = finest
        """The finest usable period; None if there was none at all."""
        self._segments = segments
        self._missing = missing
        self._sources = sources

    @property
    def complete(self) -> bool:
        """Whether the cover is complete; True for an empty span."""
        return not self._missing

    def runs(self) -> Iterator[CoverRun]:
        """Yield the runs in time order."""
        for start_s, end_s, source in self._segments:
            table, period = self._sources[source]
            yield CoverRun(table, period, period.floor(start_s), period.floor(end_s) - 1)

    def partitions(self) -> Iterator[tuple[str, TimePartition]]:
        """Yield (table, partition) in time order, one by one."""
        for run in self.runs():
            for ordinal in range(run.first, run.last + 1):
                yield run.table, TimePartition(run.period, ordinal)

    def missing(self) -> Iterator[TimeRange]:
        """Yield exactly the time that no partition covers, in order."""
        return (TimeRange(start_s, end_s) for start_s, end_s in self._missing)

    def missing_ranges(self) -> Iterator[PartitionRange]:
        """Yield the missing stretches as partitions of the finest usable period, or of a finer one if bounds
        do not align.
        """
        return (_to_partitions(start_s, end_s, self.finest) for start_s, end_s in self._missing)

    def tables(self) -> list[str]:
        """Return the chosen storage tables, sorted."""
        return sorted({self._sources[source][0] for _, _, source in self._segments})

    def run_count(self) -> int:
        """Return the number of runs."""
        return len(self._segments)

    def partition_count(self) -> int:
        """Return the number of partitions."""
        return sum(
            count_partitions(self._sources[source][1], start, end) for start, end, source in self._segments
        )

    def missing_s(self) -> int:
        """Return the missing time in seconds."""
        return sum(end_s - start_s for start_s, end_s in self._missing)

    def check(self) -> None:
        """Assert that runs and missing stretches tile the span without overlap or omission, and that every
        bound aligns.
        """
        tiles = sorted([(start_s, end_s) for start_s, end_s, _ in self._segments] + list(self._missing))
        at_s = self.span.start_s
        for start_s, end_s in tiles:
            assert at_s == start_s < end_s, (at_s, start_s, end_s)
            at_s = end_s
        assert at_s == self.span.end_s, (at_s, self.span)
        for start_s, end_s, source in self._segments:
            period = self._sources[source][1]
            assert period.ceil(start_s) == period.floor(start_s), (period, start_s)
            assert period.ceil(end_s) == period.floor(end_s), (period, end_s)


def cover(
    storages: Sequence[Storage],
    span: TimeRange,
    periods: Iterable[UpdatePeriod] | None = None,
    *,
    strict: bool = False,
    min_count: bool = False,
) -> Cover:
    """Cover ``span`` from the storages, with the given periods or all they have.

    Longest periods come first; with ``min_count``, the fewest partitions win. If several storages hold the
    same partitions, the cover uses as few storages as possible. ``strict`` raises Uncoverable, with the
    missing ranges, if anything is missing.
    """
    kinds = SegmentKinds()
    levels = build_levels(storages, periods, kinds)
    segments, rest = _tile(levels, span, min_count=min_count)
    finest = levels[-1].period if levels else _find_finest(periods)
    # 3. The storages.
    segments, sources = _assign_storages(segments, kinds, storages)
    answer = Cover(span, segments, rest, sources, finest)
    if strict and rest:
        raise _build_error(answer)
    return answer


def _tile(
    levels: Sequence[Level], span: TimeRange, *, min_count: bool
) -> tuple[list[Segment], list[Stretch]]:
    # 1. Longest periods first: the best order for nested periods.
    if are_nested(levels):
        return tile_longest_first(levels, span.start_s, span.end_s)
    if min_count:
        return tile_with_fewest(levels, span.start_s, span.end_s)
    segments, rest = tile_longest_first(levels, span.start_s, span.end_s)
    if not rest:
        return segments, rest
    # 2. Periods do not nest: another tiling may cover a stretch that longest-first leaves open.
    other, other_rest = tile_with_fewest(levels, span.start_s, span.end_s)
    return (other, other_rest) if _total_s(other_rest) < _total_s(rest) else (segments, rest)


def _total_s(stretches: Sequence[Stretch]) -> int:
    return sum(end_s - start_s for start_s, end_s in stretches)


def _assign_storages(
    segments: list[Segment], kinds: SegmentKinds, storages: Sequence[Storage]
) -> tuple[list[Segment], list[tuple[str, UpdatePeriod]]]:
    """Choose the storages, and join neighbours that become one run by the choice."""
    listed = kinds.to_list()
    if len(storages) == 1:
        return segments, [(storages[0].table, kind.period) for kind in listed]
    used = {listed[number] for _, _, number in segments}
    mask = choose_storages({kind.holders for kind in used}, len(storages))
    sources: dict[tuple[str, UpdatePeriod], int] = {}
    renumbered = []
    for kind in listed:
        able = (kind.holders & mask) or kind.holders
        table = storages[(able & -able).bit_length() - 1].table
        renumbered.append(sources.setdefault((table, kind.period), len(sources)))
    return join_segments(segments, renumbered), list(sources)


def choose_storages(holders: Collection[int], storages: int) -> int:
    """Return the bit mask of the fewest storages that together hold every segment;
    ``holders`` are the segments' masks.

    A query over one table is cheaper than a union over two, so the choice covers the whole answer and not
    each segment. It is a minimum hitting set over the few distinct masks: exact up to ``EXACT_MAX`` storages,
    greedy beyond. Of several equally small choices, the one whose storages come first wins.
    """
    masks = set(holders)
    if all(masks) and storages <= EXACT_MAX:
        bits = [1 << number for number in range(storages)]
        return next(
            chosen
            for size in range(storages + 1)
            for chosen in map(sum, combinations(bits, size))
            if all(mask & chosen for mask in masks)
        )
    return _choose_greedily(masks, storages)


def _choose_greedily(masks: set[int], storages: int) -> int:
    chosen = 0
    left = {mask for mask in masks if mask}
    while left:
        best = max(range(storages), key=lambda number: (sum(mask >> number & 1 for mask in left), -number))
        chosen |= 1 << best
        left = {mask for mask in left if not mask & chosen}
    return chosen


def _find_finest(periods: Iterable[UpdatePeriod] | None) -> UpdatePeriod | None:
    return min(periods or (), key=lambda period: period.weight_ms, default=None)


def _to_partitions(start_s: int, end_s: int, finest: UpdatePeriod | None) -> PartitionRange:
    finer = (UpdatePeriod.DAILY, UpdatePeriod.HOURLY, UpdatePeriod.MINUTELY, UpdatePeriod.SECONDLY)
    candidates = (
        [finest, *(period for period in finer if period.weight_ms < finest.weight_ms)]
        if finest
        else list(finer)
    )
    period = next(
        (
            period
            for period in candidates
            if all(period.ceil(edge) == period.floor(edge) for edge in (start_s, end_s))
        ),
        UpdatePeriod.SECONDLY,
    )
    return PartitionRange(period, period.floor(start_s), period.floor(end_s))


def _build_error(answer: Cover) -> Uncoverable:
    missing = [str(stretch) for _, stretch in zip(range(10), answer.missing_ranges(), strict=False)]
    return Uncoverable(
        "partitions are missing in the range",
        range=str(answer.span),
        missing=missing,
        missing_ranges=sum(1 for _ in answer.missing()),
        missing_s=answer.missing_s(),
        finest=answer.finest.lens_name if answer.finest else None,
    )
