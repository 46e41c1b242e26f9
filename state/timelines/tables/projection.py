"""Timelines of many tables, kept up to date by added and dropped partitions,
and durable with the caller's position.

Inside the store transaction that also writes the position, ``change(txn)`` returns a ``TimelineChange`` that
takes the calls. After the commit, its ``publish()`` shows the result. Until then readers see the complete
previous state, because a change works on copies of the timelines that it touches. A failed transaction leaves
nothing to undo, in memory or in the store.

Every call is idempotent, so a snapshot and the events since its start may overlap. Adding a known partition
with the same values changes nothing; with another period it moves; dropping an unknown partition does
nothing.

A table loaded from its own properties has no records of its partitions. This is exact if the time column is
the only partition column. Otherwise the first drop makes the table stale, because another partition may still
have the value; the caller then loads the table again from its partitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from state.errors import NotFound
from state.shared_tables import SharedTables
from state.store import Reader, Transaction
from state.timelines.calendar_units import TIME_END_S, TIME_START_S
from state.timelines.ignored_values import IgnoredValues
from state.timelines.periods import UpdatePeriod
from state.timelines.runs import Runs
from state.timelines.tables import records
from state.timelines.tables.change import TimelineChange
from state.timelines.tables.settings import TableSettings
from state.timelines.tables.table_timelines import TableTimelines
from state.timelines.tiling import Storage
from state.timelines.timeline import Timeline


class Timelines:
    """All timelines of one projection, in memory; the store has the same content."""

    def __init__(self, tables: Mapping[str, TableTimelines] | None = None) -> None:
        self._tables = SharedTables(tables)
        self.skipped: Counter[str] = Counter()
        """Ignored values since the start, by reason: ``no-time`` or ``stray``."""

    @staticmethod
    def open(reader: Reader) -> Timelines:
        """Read the store, at a cost that depends on runs and not on partitions. Raises StateCorrupt."""
        return Timelines(
            {name: TableTimelines.from_record(reader, record) for name, record in records.read_tables(reader)}
        )

    def change(self, txn: Transaction) -> TimelineChange:
        """Start a change within a store transaction; only one may be in progress."""
        return TimelineChange(txn, self._tables, self._publish)

    def tables(self) -> list[str]:
        """Return the names of all followed tables, sorted."""
        return self._tables.names()

    def followed(self) -> Collection[str]:
        """Return the names of all followed tables, for look-ups; this takes no time."""
        return self._tables

    def settings(self, table: str) -> TableSettings:
        """Return a table's settings; raise NotFound if it has no timelines."""
        return self._table(table).settings

    def timelines(self, table: str) -> list[Timeline]:
        """Return a table's timelines, by column and from the longest period to the shortest;
        do not change them.
        """
        followed = self._table(table)
        keys = sorted(followed.timelines, key=lambda key: (key[1], -key[0].weight_ms))
        return [followed.timelines[key] for key in keys]

    def timeline(self, table: str, period: UpdatePeriod, column: str) -> Timeline | None:
        """Return one timeline, or None if it never had a partition; do not change it."""
        followed = self._table(table)
        return followed.timelines.get((period, followed.column_number(column)))

    def runs(self, table: str, period: UpdatePeriod, column: str) -> Runs:
        """Return the runs of a timeline, empty if it never had a partition; do not change them."""
        timeline = self.timeline(table, period, column)
        return Runs() if timeline is None else timeline.runs

    def ignored(self, table: str, column: str) -> IgnoredValues | None:
        """Return the values of a time column outside its timelines, or None if unknown."""
        followed = self._table(table)
        return followed.ignored_values(followed.column_number(column))

    def storage(
        self, table: str, column: str, *, start_s: int = TIME_START_S, end_s: int = TIME_END_S
    ) -> Storage:
        """Return a table, with its validity window, as input for ``cover``."""
        followed = self._table(table)
        number = followed.column_number(column)
        runs = {key[0]: timeline.runs for key, timeline in followed.timelines.items() if key[1] == number}
        return Storage(table, runs, start_s, end_s)

    def check(self, reader: Reader) -> None:
        """Assert that memory equals the store,
        and that counts and runs agree with the recorded partitions.
        """
        stored = {
            name: TableTimelines.from_record(reader, record) for name, record in records.read_tables(reader)
        }
        assert sorted(stored) == self.tables(), (sorted(stored), self.tables())
        for name, table in self._tables.items():
            table.check(reader, stored[name])

    def _table(self, name: str) -> TableTimelines:
        table = self._tables.get(name)
        if table is None:
            raise NotFound(
                "the table has no timelines", table=name, hint="Name its time columns in the configuration."
            )
        return table

    def _publish(self, touched: Mapping[str, TableTimelines | None], skipped: Counter[str]) -> None:
        self._tables.change(touched)
        self.skipped.update(skipped)


def count_runs(timelines: Timelines) -> int:
    """Return the number of runs of all timelines, for metrics."""
    return sum(len(timeline.runs) for table in timelines.tables() for timeline in timelines.timelines(table))


def iterate_timelines(timelines: Timelines) -> Iterator[tuple[str, Timeline]]:
    """Yield (table, timeline) of all tables."""
    return ((table, timeline) for table in timelines.tables() for timeline in timelines.timelines(table))
