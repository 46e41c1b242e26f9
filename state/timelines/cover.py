"""Which storage tables answer: the fewest that together hold every stretch of a cover.

A query over one table is cheaper than a union over two, so the choice is made for the whole cover and not stretch by
stretch. It is a minimum hitting set over the few distinct sets of holders: exact up to a dozen storages, greedy beyond.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

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
    tile_largest_first,
    tile_with_fewest,
)
from state.timelines.time_ranges import PartitionRange, TimePartition, TimeRange


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence


EXACT_MAX: Final = 12


def choose_storages(holders: Collection[int], storages: int) -> int:
    """Return the bit mask of the chosen storages: it meets every mask of ``holders``.

    Where several choices are equally small, the one whose storages come first wins.
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
    return _greedy(masks, storages)


def _greedy(masks: set[int], storages: int) -> int:
    chosen = 0
    left = {mask for mask in masks if mask}
    while left:
        best = max(range(storages), key=lambda number: (sum(mask >> number & 1 for mask in left), -number))
        chosen |= 1 << best
        left = {mask for mask in left if not mask & chosen}
    return chosen


@dataclass(frozen=True, slots=True)
class CoverRun:
    """Consecutive partitions of one period in one storage table, ``first`` to ``last``, both included."""

    table: str
    period: UpdatePeriod
    first: int
    last: int

    @property
    def range(self) -> PartitionRange:
        """The same as a range of partitions."""
        return PartitionRange(self.period, self.first, self.last + 1)

    def __str__(self) -> str:
        return f"{self.table} {self.period.lens_name} {self.range}"


class Cover:
    """The answer: runs in time order, what is missing, and whether nothing is.

    Kept as moments; runs and partitions are made when they are asked for, because formatting half a million names takes
    longer than finding them. Iterate as often as you like.
    """

    __slots__ = ("_missing", "_segments", "_sources", "grain", "span")

    def __init__(
        self,
        span: TimeRange,
        segments: Sequence[Segment],
        missing: Sequence[Stretch],
        sources: Sequence[tuple[str, UpdatePeriod]],
        grain: UpdatePeriod | None,
    ) -> None:
        self.span = span
        self.grain = grain
        """The finest period that could have been used; None where there was none at all."""
        self._segments = segments
        self._missing = missing
        self._sources = sources

    @property
    def complete(self) -> bool:
        """Whether the whole span is covered; an empty span is."""
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
        """Yield exactly what no partition covers, in time order."""
        return (TimeRange(start_s, end_s) for start_s, end_s in self._missing)

    def missing_ranges(self) -> Iterator[PartitionRange]:
        """Yield what is missing as partitions of the finest usable period; of a finer one where bounds do not align."""
        return (_as_partitions(start_s, end_s, self.grain) for start_s, end_s in self._missing)

    def tables(self) -> list[str]:
        """Return the storage tables that answer, sorted."""
        return sorted({self._sources[source][0] for _, _, source in self._segments})

    def run_count(self) -> int:
        """How many runs there are."""
        return len(self._segments)

    def partition_count(self) -> int:
        """How many partitions there are."""
        return sum(
            count_partitions(self._sources[source][1], start, end) for start, end, source in self._segments
        )

    def missing_s(self) -> int:
        """How much time is missing, in seconds."""
        return sum(end_s - start_s for start_s, end_s in self._missing)

    def check(self) -> None:
        """Assert that runs and missing stretches tile the span: no overlap, nothing left out, every bound aligned."""
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

    Longest periods first; with ``min_count`` the fewest partitions. Of several storages that hold the same the fewest
    possible answer. ``strict`` raises Uncoverable where anything is missing, naming what.
    """
    slots = SegmentKinds()
    levels = build_levels(storages, periods, slots)
    found, rest = _tiled(levels, span, min_count=min_count)
    grain = levels[-1].period if levels else _finest(periods)
    segments, sources = _answered(found, slots, storages)
    answer = Cover(span, segments, rest, sources, grain)
    if strict and rest:
        raise _uncoverable(answer)
    return answer


def _tiled(
    levels: Sequence[Level], span: TimeRange, *, min_count: bool
) -> tuple[list[Segment], list[Stretch]]:
    if are_nested(levels):
        return tile_largest_first(levels, span.start_s, span.end_s)
    if min_count:
        return tile_with_fewest(levels, span.start_s, span.end_s)
    found, rest = tile_largest_first(levels, span.start_s, span.end_s)
    if not rest:
        return found, rest
    other, other_rest = tile_with_fewest(levels, span.start_s, span.end_s)
    return (other, other_rest) if _length(other_rest) < _length(rest) else (found, rest)


def _length(stretches: Sequence[Stretch]) -> int:
    return sum(end_s - start_s for start_s, end_s in stretches)


def _answered(
    found: list[Segment], slots: SegmentKinds, storages: Sequence[Storage]
) -> tuple[list[Segment], list[tuple[str, UpdatePeriod]]]:
    """Choose the storages, and join neighbours that the choice made one run."""
    listed = slots.listed()
    if len(storages) == 1:
        return found, [(storages[0].table, slot.period) for slot in listed]
    used = {listed[number] for _, _, number in found}
    chosen = choose_storages({slot.holders for slot in used}, len(storages))
    sources: dict[tuple[str, UpdatePeriod], int] = {}
    renumbered = []
    for slot in listed:
        first_chosen = (slot.holders & chosen) or slot.holders
        table = storages[(first_chosen & -first_chosen).bit_length() - 1].table
        renumbered.append(sources.setdefault((table, slot.period), len(sources)))
    return join_segments(found, renumbered), list(sources)


def _finest(periods: Iterable[UpdatePeriod] | None) -> UpdatePeriod | None:
    return min(periods or (), key=lambda period: period.weight_ms, default=None)


def _as_partitions(start_s: int, end_s: int, grain: UpdatePeriod | None) -> PartitionRange:
    finer = (UpdatePeriod.DAILY, UpdatePeriod.HOURLY, UpdatePeriod.MINUTELY, UpdatePeriod.SECONDLY)
    candidates = (
        [grain, *(period for period in finer if period.weight_ms < grain.weight_ms)] if grain else list(finer)
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


def _uncoverable(answer: Cover) -> Uncoverable:
    missing = [str(stretch) for _, stretch in zip(range(10), answer.missing_ranges(), strict=False)]
    return Uncoverable(
        "the range is not covered completely",
        range=str(answer.span),
        missing=missing,
        missing_ranges=sum(1 for _ in answer.missing()),
        missing_s=answer.missing_s(),
        finest=answer.grain.lens_name if answer.grain else None,
    )
