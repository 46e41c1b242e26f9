"""Facts: storage tables with the same data, which a cover combines.

The configuration groups tables into facts, each table with the time for which it may answer. Tables without
timelines (yet) have no partitions for a cover; strict mode then reports the missing ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from state.errors import NotFound
from state.timelines.calendar_units import TIME_END_S, TIME_START_S
from state.timelines.cover import Cover, cover
from state.timelines.time_ranges import TimePartition, TimeRange


if TYPE_CHECKING:
    from collections.abc import Iterable

    from state.timelines.periods import UpdatePeriod
    from state.timelines.tables.projection import Timelines
    from state.timelines.tiling import Storage


@dataclass(frozen=True, slots=True)
class StorageTable:
    """A table of a fact and its validity window, in seconds since the epoch."""

    table: str
    start_s: int = TIME_START_S
    end_s: int = TIME_END_S


@dataclass(frozen=True, slots=True)
class Fact:
    """A name for tables with the same data; a single table is a fact under its own name."""

    name: str
    tables: tuple[StorageTable, ...]

    @staticmethod
    def of_table(table: str) -> Fact:
        """Return the fact that consists of one table."""
        return Fact(table, (StorageTable(table),))

    def storages(self, timelines: Timelines, column: str) -> list[Storage]:
        """Return the partitions of the fact's tables by the time column; raise NotFound if none of the
        tables has timelines.
        """
        followed = set(timelines.tables())
        storages_ = [
            timelines.storage(table.table, column, start_s=table.start_s, end_s=table.end_s)
            for table in self.tables
            if table.table in followed
        ]
        if not storages_:
            raise NotFound(
                "no table of the fact has timelines", fact=self.name, tables=[t.table for t in self.tables]
            )
        return storages_

    def cover(
        self,
        timelines: Timelines,
        column: str,
        span: TimeRange,
        periods: Iterable[UpdatePeriod] | None = None,
        *,
        strict: bool = False,
        min_count: bool = False,
    ) -> Cover:
        """Cover a range of time from the fact's tables; see ``cover.cover``."""
        return cover(self.storages(timelines, column), span, periods, strict=strict, min_count=min_count)

    def latest(self, timelines: Timelines, column: str) -> TimePartition | None:
        """Return the partition that starts last over all tables and periods; of several, the shortest."""
        latest = [
            TimePartition(period, runs.last)
            for storage in self.storages(timelines, column)
            for period, runs in storage.runs.items()
            if runs.last is not None
        ]
        return max(
            latest, key=lambda partition: (partition.start_s, -partition.period.weight_ms), default=None
        )
