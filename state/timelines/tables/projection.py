"""Timelines of many tables, kept true by "partition added" and "partition dropped", durable with the caller's position.

The seam to whoever reads events: inside the store transaction that also writes the position, ``change(txn)`` gives a
``TimelineChange`` that takes the calls; when the transaction has committed, ``publish()`` shows the result. Readers meanwhile
see the state before, whole: a change works on copies of the timelines it touches. A transaction that fails leaves nothing to
undo, in memory or in the store.

Every call is idempotent, so a snapshot and the events since it started may overlap: adding a known partition with the same
values changes nothing, with another period it moves, dropping an unknown one does nothing.

A table loaded from its own properties does not know its partitions. That is exact where the time column is the only
partition column; else the first drop makes it stale (``stale()``), because nobody can tell whether another partition still
has the value, and the caller loads it again from its partitions.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from state.errors import NotFound
from state.timelines.calendar_units import TIME_END_S, TIME_START_S
from state.timelines.runs import Runs
from state.timelines.tables import records
from state.timelines.tables.change import TimelineChange
from state.timelines.tables.followed import FollowedTable
from state.timelines.tiling import Storage


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from state.store import Reader, Transaction
    from state.timelines.periods import UpdatePeriod
    from state.timelines.tables.settings import TableSettings
    from state.timelines.timeline import Timeline


class Timelines:
    """All timelines of one projection, in memory; the store holds the same."""

    def __init__(self, tables: Mapping[str, FollowedTable] | None = None) -> None:
        self._tables = dict(tables or {})
        self.skipped: Counter[str] = Counter()
        """Values that were not taken since start, by reason: ``no-time``, ``stray``."""

    @staticmethod
    def open(reader: Reader) -> Timelines:
        """Read what the store holds: cost goes with runs, not with partitions. Raises StateCorrupt."""
        return Timelines(
            {name: FollowedTable.read(reader, record) for name, record in records.read_tables(reader)}
        )

    def change(self, txn: Transaction) -> TimelineChange:
        """Start a change within a store transaction; only one may be under way."""
        return TimelineChange(txn, self._tables, self._publish)

    def tables(self) -> list[str]:
        """Return the names of all tables that are followed, sorted."""
        return sorted(self._tables)

    def stale(self) -> list[str]:
        """Return the tables that have to be loaded again from their partitions."""
        return sorted(name for name, table in self._tables.items() if table.stale)

    def settings(self, table: str) -> TableSettings:
        """Return how a table is followed; raise NotFound where it is not."""
        return self._table(table).settings

    def timelines(self, table: str) -> list[Timeline]:
        """Return a table's timelines, by column and from the longest period to the shortest; not to be changed."""
        followed = self._table(table)
        keys = sorted(followed.timelines, key=lambda key: (key[1], -key[0].weight_ms))
        return [followed.timelines[key] for key in keys]

    def timeline(self, table: str, period: UpdatePeriod, column: str) -> Timeline | None:
        """Return one timeline, not to be changed, or None where no partition of that kind was ever seen."""
        followed = self._table(table)
        return followed.timelines.get((period, followed.column_number(column)))

    def runs(self, table: str, period: UpdatePeriod, column: str) -> Runs:
        """Return which partitions exist, not to be changed; empty where none was ever seen."""
        timeline = self.timeline(table, period, column)
        return Runs() if timeline is None else timeline.runs

    def storage(
        self, table: str, column: str, *, start_s: int = TIME_START_S, end_s: int = TIME_END_S
    ) -> Storage:
        """Return a table as ``cover`` takes it, with its validity window."""
        followed = self._table(table)
        number = followed.column_number(column)
        held = {key[0]: timeline.runs for key, timeline in followed.timelines.items() if key[1] == number}
        return Storage(table, held, start_s, end_s)

    def check(self, reader: Reader) -> None:
        """Assert that the store holds the same, and that counts and runs follow from the partitions remembered."""
        stored = {name: FollowedTable.read(reader, record) for name, record in records.read_tables(reader)}
        assert sorted(stored) == self.tables(), (sorted(stored), self.tables())
        for name, table in self._tables.items():
            table.check(reader, stored[name])

    def _table(self, name: str) -> FollowedTable:
        table = self._tables.get(name)
        if table is None:
            raise NotFound(
                "the table has no timelines", table=name, hint="Name its time columns in the configuration."
            )
        return table

    def _publish(self, touched: Mapping[str, FollowedTable | None], skipped: Counter[str]) -> None:
        merged: dict[str, FollowedTable | None] = {**self._tables, **touched}
        self._tables = {name: table for name, table in merged.items() if table is not None}
        self.skipped.update(skipped)


def count_runs(timelines: Timelines) -> int:
    """Count the runs of all timelines, for metrics."""
    return sum(len(timeline.runs) for table in timelines.tables() for timeline in timelines.timelines(table))


def iterate_timelines(timelines: Timelines) -> Iterator[tuple[str, Timeline]]:
    """Yield (table, timeline) of all tables."""
    return ((table, timeline) for table in timelines.tables() for timeline in timelines.timelines(table))
