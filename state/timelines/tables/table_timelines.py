"""The timelines of one table:
settings, timelines in memory, store records, and loading a whole table at once.

Published instances never change. A change works on ``copy()`` and on copies of the timelines that it touches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from state.errors import NotFound, TimelineInconsistent
from state.store import Reader
from state.timelines.ignored_values import IgnoredValues
from state.timelines.periods import UpdatePeriod
from state.timelines.runs import Runs
from state.timelines.storage_forms import find_form
from state.timelines.table_properties import select_keys
from state.timelines.tables import records
from state.timelines.tables.settings import TableSettings
from state.timelines.timeline import Timeline


TimelineKey = tuple[UpdatePeriod, int]
"""A timeline within its table: the period, and the number of the time column."""


@dataclass(slots=True)
class TableTimelines:
    """The timelines of one table, and their settings.

    ``number`` is part of the table's keys in the store; a rename keeps it.
    """

    number: int
    settings: TableSettings
    timelines: dict[TimelineKey, Timeline] = field(default_factory=dict)
    forms: dict[str, str] = field(default_factory=dict)
    """Storage forms other than that of the settings, by ``PERIOD.column``: read from properties, or migrated
    to."""
    counted: bool = True
    """Whether every partition has a record, or needs none; False after loading from properties."""
    stale: bool = False
    """Whether a drop was undecidable and the table needs another load."""
    ignored: dict[int, IgnoredValues] | None = field(default_factory=dict)
    """Values that are in no timeline, by the number of their column.

    None if unknown: properties do not contain them, and older versions did not record them.
    """

    @staticmethod
    def from_record(reader: Reader, record: Mapping[str, Any]) -> TableTimelines:
        """Build from the store; raise StateCorrupt."""
        table = TableTimelines(
            record["number"],
            TableSettings.from_json(record["settings"]),
            forms=dict(record["forms"]),
            counted=record["counted"],
            stale=record["stale"],
            ignored=None,
        )
        if record.get("ignored", False):
            columns = range(len(table.settings.time_columns))
            table.ignored = {column: records.read_ignored(reader, table.number, column) for column in columns}
        for key, runs in records.read_runs(reader, table.number).items():
            table.timelines[key] = table.new_timeline(key, runs)
        return table

    def to_record(self) -> dict[str, object]:
        """Return the stored form of everything except runs and partitions."""
        return {
            "number": self.number,
            "settings": self.settings.to_json(),
            "forms": self.forms,
            "counted": self.counted,
            "stale": self.stale,
            "ignored": self.ignored is not None,
        }

    def copy(self) -> TableTimelines:
        """Return a copy that still shares the timelines."""
        ignored = None if self.ignored is None else dict(self.ignored)
        return replace(self, timelines=dict(self.timelines), forms=dict(self.forms), ignored=ignored)

    def ignored_values(self, column: int) -> IgnoredValues | None:
        """Return the values of a time column outside the timelines, or None if unknown."""
        return None if self.ignored is None else self.ignored.get(column, IgnoredValues())

    def new_timeline(self, key: TimelineKey, runs: Runs | None = None) -> Timeline:
        """Build a timeline with the table's settings."""
        period, number = key
        column = self.settings.time_columns[number]
        form = find_form(self.forms.get(f"{period.lens_name}.{column}", self.settings.form))
        return Timeline(period, column, form=form, runs=runs, jump_max=self.settings.jump_max)

    def set_form(self, key: TimelineKey, form: str) -> None:
        """Set the storage form of one timeline."""
        self.forms[f"{key[0].lens_name}.{self.settings.time_columns[key[1]]}"] = form

    def column_number(self, column: str) -> int:
        """Return the number of a time column, in any case; raise NotFound for another name."""
        names = [name.lower() for name in self.settings.time_columns]
        if column.lower() not in names:
            raise NotFound("not a time column of the table", column=column, columns=names)
        return names.index(column.lower())

    def check(self, reader: Reader, stored: TableTimelines) -> None:
        """Assert that memory equals the store,
        and that counts and runs agree with the recorded partitions.
        """
        runs_by_key = {key: timeline.runs for key, timeline in self.timelines.items() if timeline.runs}
        assert runs_by_key == {key: timeline.runs for key, timeline in stored.timelines.items()}, self.number
        assert self.to_record() == stored.to_record(), self.number
        for timeline in self.timelines.values():
            timeline.check()
        for column in range(len(self.settings.time_columns)):
            ignored = self.ignored_values(column)
            assert ignored is None or not ignored.is_complete or ignored == stored.ignored_values(column)
        if self.counted and not self.settings.is_sole:
            expected = Counter(records.read_all_entries(reader, self.number))
            counts = dict(records.read_counts(reader, self.number))
            assert counts == {entry: count for entry, count in expected.items() if count > 1}, self.number
            members = {(key, ordinal) for key, runs in runs_by_key.items() for ordinal in runs}
            assert members == {(entry.timeline, entry.ordinal) for entry in expected}, self.number


def read_timelines(settings: TableSettings, properties: Mapping[str, str]) -> dict[TimelineKey, Timeline]:
    """Return the timelines in a table's properties.

    Raises TimelineInconsistent if a timeline contradicts itself, if a timeline that the settings require is
    missing (one flag stands for all, so a period added later has no keys), or if there are no timelines at
    all. Raises ConfigError for an unknown form.
    """
    loaded = {}
    for number, column in enumerate(settings.time_columns):
        for period in _list_periods(settings):
            if settings.periods or select_keys(properties, period, column):
                timeline = Timeline.from_properties(properties, period, column, jump_max=settings.jump_max)
                loaded[period, number] = timeline
    if not loaded:
        raise TimelineInconsistent("the properties contain no timeline", columns=settings.time_columns)
    return loaded


def _list_periods(settings: TableSettings) -> tuple[UpdatePeriod, ...]:
    weeks = UpdatePeriod.WEEKLY if settings.iso_weeks else UpdatePeriod.WEEKLY_ISO
    return settings.periods or tuple(period for period in UpdatePeriod if period is not weeks)
