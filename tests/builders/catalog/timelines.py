"""Storages built from text, and the naive model that covers are checked against: a day-by-day shortest
path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from state.timelines.periods import UpdatePeriod
from state.timelines.runs import Runs
from state.timelines.tiling import Storage
from state.timelines.time_ranges import PartitionRange, TimePartition, TimeRange
from state.timelines.timeline import Timeline


def find_best_by_days(held: Mapping[UpdatePeriod, set[int]], span: TimeRange) -> tuple[int, int]:
    """Return (missing days, partitions) of the best tiling, walking day by day over every choice."""
    day = UpdatePeriod.DAILY
    first, end = day.ceil(span.start_s), day.floor(span.end_s)
    best = dict.fromkeys(range(first, end + 1), (end - first + 1, 0)) | {first: (0, 0)}
    for at in range(first, end):
        missing, count = best[at]
        best[at + 1] = min(best[at + 1], (missing + 1, count))
        for period, ordinals in held.items():
            ordinal = period.ceil(day.start_s(at))
            there = day.floor(period.start_s(ordinal + 1))
            if period.start_s(ordinal) == day.start_s(at) and ordinal in ordinals and there <= end:
                best[there] = min(best[there], (missing, count + 1))
    return best[end]


def storage(table: str = "t", **ranges: str | Iterable[str]) -> Storage:
    """Build a storage from ranges of partitions: ``storage(daily="[2015-01-01, 2015-02-01)")``."""
    return Storage(
        table,
        {
            UpdatePeriod[name.upper()]: runs(UpdatePeriod[name.upper()], texts)
            for name, texts in ranges.items()
        },
    )


def runs(period: UpdatePeriod, texts: str | Iterable[str]) -> Runs:
    """Build runs from one range of partitions or several."""
    listed = [texts] if isinstance(texts, str) else texts
    parsed = [PartitionRange.parse(period, text) for text in listed]
    return join_pairs((part.begin, part.end) for part in parsed)


def join_pairs(pairs: Iterable[tuple[int, int]]) -> Runs:
    """Build runs from [start, end) pairs in any order, overlapping or not."""
    joined = Runs()
    for start, end in pairs:
        joined.add_range(start, end)
    return joined


def find_holes(timeline: Timeline) -> list[TimePartition]:
    """Return the partitions that are missing between the first and the latest."""
    return [TimePartition(timeline.period, hole) for gap in timeline.runs.gaps() for hole in range(*gap)]


def sets_of(storage_: Storage) -> dict[UpdatePeriod, set[int]]:
    """Return the same storage as plain sets."""
    return {period: set(held) for period, held in storage_.runs.items()}
