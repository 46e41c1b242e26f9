"""Naive models that timelines are held against: the seed's recursion over sets, and a day-by-day shortest path."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from state.timelines.periods import UpdatePeriod, sort_longest_first
from state.timelines.runs import Runs
from state.timelines.tiling import Storage
from state.timelines.time_ranges import PartitionRange, TimeRange


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


@dataclass
class SeedCover:
    """The seed's ``cover``, read as it was meant: one question per partition, missing time recorded and not fatal."""

    exists: Callable[[UpdatePeriod, int], bool]
    parts: list[tuple[UpdatePeriod, int]] = field(default_factory=list)
    missing: list[tuple[int, int]] = field(default_factory=list)
    checks: int = 0

    def cover(self, start_s: int, end_s: int, periods: Sequence[UpdatePeriod]) -> SeedCover:
        """Cover [start_s, end_s) with ``periods``, longest first, in time order."""
        if start_s >= end_s:
            return self
        for at, period in enumerate(periods):
            first, end = period.ceil(start_s), period.floor(end_s)
            if first < end:
                self._inside(start_s, end_s, period, periods[at + 1 :])
                return self
        self.missing.append((start_s, end_s))
        return self

    def _inside(self, start_s: int, end_s: int, period: UpdatePeriod, finer: Sequence[UpdatePeriod]) -> None:
        first, end = period.ceil(start_s), period.floor(end_s)
        self.cover(start_s, period.start_s(first), finer)
        for ordinal in range(first, end):
            self.checks += 1
            if self.exists(period, ordinal):
                self.parts.append((period, ordinal))
            else:
                self.cover(period.start_s(ordinal), period.start_s(ordinal + 1), finer)
        self.cover(period.start_s(end), end_s, finer)


def seed_cover(held: Mapping[UpdatePeriod, set[int]], span: TimeRange) -> SeedCover:
    """Run the recursion over plain sets with every period of ``held``."""
    model = SeedCover(lambda period, ordinal: ordinal in held[period])
    return model.cover(span.start_s, span.end_s, sort_longest_first(held))


def best_by_days(held: Mapping[UpdatePeriod, set[int]], span: TimeRange) -> tuple[int, int]:
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
    return Runs.of_pairs((part.begin, part.end) for part in parsed)


def sets_of(storage_: Storage) -> dict[UpdatePeriod, set[int]]:
    """The same storage as plain sets."""
    return {period: set(held) for period, held in storage_.runs.items()}
