"""Loading a whole table at once: from a listing of its partitions, or from its properties.

A listing of millions is collected per timeline and sorted once; adding one by one would move the runs each time.
"""

from __future__ import annotations

from array import array
from collections import Counter
from typing import TYPE_CHECKING

from state.errors import TimelineInconsistent
from state.timelines import ledger
from state.timelines.periods import UpdatePeriod
from state.timelines.properties import section
from state.timelines.timeline import Timeline


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from state.store import Transaction
    from state.timelines.followed import FollowedTable, TimelineKey
    from state.timelines.ledger import Entry
    from state.timelines.tables import TableSettings


class Listing:
    """Partitions of one table, collected before they are stored."""

    def __init__(self, settings: TableSettings) -> None:
        self._ordinals: dict[TimelineKey, array[int]] = {}
        self._partitions: dict[tuple[str, ...], tuple[Entry, ...]] = {}
        self._remembers = not settings.is_sole

    def take(self, values: Sequence[str], entries: tuple[Entry, ...]) -> None:
        """Take one partition; a repeated one counts once."""
        if self._remembers:
            self._partitions[tuple(values)] = entries
            return
        for entry in entries:
            self._ordinals.setdefault(entry.timeline, array("q")).append(entry.ordinal)

    def store(self, txn: Transaction, table: FollowedTable) -> int:
        """Give the table its timelines, write them, and return how many values were refused as strays."""
        for entries in self._partitions.values():
            for entry in entries:
                self._ordinals.setdefault(entry.timeline, array("q")).append(entry.ordinal)
        strays = 0
        for key, ordinals in self._ordinals.items():
            timeline = table.timelines[key] = table.new_timeline(key)
            strays += timeline.load(ordinals)
            ledger.put_runs(txn, table.number, key, timeline.runs.pairs())
        self._store_partitions(txn, table)
        return strays

    def _store_partitions(self, txn: Transaction, table: FollowedTable) -> None:
        counts: Counter[Entry] = Counter()
        for values, entries in self._partitions.items():
            kept = tuple(entry for entry in entries if entry.ordinal in table.timelines[entry.timeline].runs)
            counts.update(kept)
            ledger.put_entries(txn, table.number, values, kept)
        for entry, count in counts.items():
            if count > 1:
                ledger.put_count(txn, table.number, entry, count)


def from_properties(settings: TableSettings, properties: Mapping[str, str]) -> dict[TimelineKey, Timeline]:
    """Return the timelines that a table's properties hold.

    Raises TimelineInconsistent where one contradicts itself, where one that the settings ask for is not there (one flag
    stands for all, so a period added later has no keys), or where there is none at all; ConfigError for an unknown form.
    """
    loaded = {}
    for number, column in enumerate(settings.time_columns):
        for period in _periods(settings):
            if settings.periods or section(properties, period, column):
                timeline = Timeline.from_properties(properties, period, column, jump_max=settings.jump_max)
                loaded[period, number] = timeline
    if not loaded:
        raise TimelineInconsistent("the properties hold no timeline", columns=settings.time_columns)
    return loaded


def _periods(settings: TableSettings) -> tuple[UpdatePeriod, ...]:
    weeks = UpdatePeriod.WEEKLY if settings.iso_weeks else UpdatePeriod.WEEKLY_ISO
    return settings.periods or tuple(period for period in UpdatePeriod if period is not weeks)
