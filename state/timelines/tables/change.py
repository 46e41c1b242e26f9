"""A set of changes to timelines within one store transaction; see ``projection`` for the promise.

Writes go to the transaction at once, memory changes go to copies. ``publish`` shows the copies, after the commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from state.errors import NotFound
from state.timelines.storage_forms import find_form
from state.timelines.tables import records
from state.timelines.tables.followed import FollowedTable, Listing, TimelineKey, read_timelines
from state.timelines.tables.records import Entry


if TYPE_CHECKING:
    from state.store import Transaction
    from state.timelines.periods import UpdatePeriod
    from state.timelines.runs import Runs
    from state.timelines.tables.settings import TableSettings


Spec = Mapping[str, str]
"""Partition columns (lower case) to values."""
Publish = Callable[[Mapping[str, FollowedTable | None], "Counter[str]"], None]


class TimelineChange:
    """What happened to partitions and tables, in order."""

    def __init__(self, txn: Transaction, tables: Mapping[str, FollowedTable], publish: Publish) -> None:
        self._txn = txn
        self._before = tables
        self._publish = publish
        self._touched: dict[str, FollowedTable | None] = {}
        self._own: set[tuple[int, TimelineKey]] = set()
        self.skipped: Counter[str] = Counter()

    def publish(self) -> None:
        """Show the changes to readers; to be called once, when the transaction has committed."""
        self._publish(self._touched, self.skipped)

    def follows(self, name: str) -> bool:
        """Whether a table is followed, this change included."""
        return self._current(name) is not None

    def settings(self, name: str) -> TableSettings:
        """Return how a table is followed, this change included; raise NotFound where it is not."""
        return self._known(name).settings

    def is_stale(self, name: str) -> bool:
        """Whether a table has to be loaded again, this change included; False where it is not followed."""
        current = self._current(name)
        return current is not None and current.stale

    def follow(self, name: str, settings: TableSettings) -> None:
        """Follow a table, empty; where it is followed with the same settings already nothing changes."""
        current = self._current(name)
        if current is not None and current.settings == settings:
            return
        self.forget(name)
        self._save(name, FollowedTable(records.draw_number(self._txn), settings))

    def forget(self, name: str) -> None:
        """Forget a table and its timelines; an unknown one is no error."""
        current = self._current(name)
        if current is not None:
            records.clear_table(self._txn, current.number)
            records.delete_table(self._txn, name)
            self._touched[name] = None

    def rename(self, old: str, new: str) -> None:
        """Keep a table's timelines under a new name, at the price of one record; an unknown table is no error."""
        current = self._current(old)
        if current is not None and old != new:
            self.forget(new)
            records.delete_table(self._txn, old)
            self._touched[old] = None
            self._save(new, current.copy())

    def add(self, name: str, spec: Spec, period: UpdatePeriod | None = None) -> None:
        """A partition exists; ``period`` is what its parameter says, None where it has none.

        Raises NotFound where the table is not followed.
        """
        table = self._writable(name)
        self._replace(table, spec, self._read(table, spec, period))

    def drop(self, name: str, spec: Spec) -> None:
        """A partition is gone. Raises NotFound where the table is not followed."""
        table = self._writable(name)
        if not table.counted and not table.settings.is_sole:
            if not table.stale:
                table.stale = True
                self._save(name, table)
            return
        self._replace(table, spec, None)

    def load(self, name: str, partitions: Iterable[tuple[Spec, UpdatePeriod | None]]) -> None:
        """Replace what is known of a table by a listing of all its partitions, in one pass."""
        table = self._writable(name)
        records.clear_table(self._txn, table.number)
        table.timelines = {}
        listing = Listing(table.settings)
        for spec, period in partitions:
            listing.take(_values(table, spec), self._read(table, spec, period))
        self.skipped["stray"] += listing.store(self._txn, table)
        self._loaded(name, table, counted=True)

    def load_properties(self, name: str, properties: Mapping[str, str]) -> None:
        """Replace what is known of a table by what its properties say.

        Raises TimelineInconsistent or ConfigError, and then nothing has changed: load it from its partitions.
        """
        loaded = read_timelines(self._writable(name).settings, properties)
        table = self._writable(name)
        records.clear_table(self._txn, table.number)
        table.timelines = loaded
        for key, timeline in loaded.items():
            table.set_form(key, timeline.form.name)
            records.put_runs(self._txn, table.number, key, timeline.runs.pairs())
        self._loaded(name, table, counted=table.settings.is_sole)

    def set_form(self, name: str, period: UpdatePeriod, column: str, form: str) -> None:
        """Remember the storage form of one timeline; what its properties need is told by ``migrated``.

        Raises ConfigError for an unknown form, NotFound for a table or column that is not followed.
        """
        table = self._writable(name)
        key = (period, table.column_number(column))
        table.set_form(key, find_form(form).name)
        if key in table.timelines:
            table.timelines[key] = table.new_timeline(key, table.timelines[key].runs)
        self._save(name, table)

    def _replace(self, table: FollowedTable, spec: Spec, after: tuple[Entry, ...] | None) -> None:
        """Make what a partition adds ``after``, or forget it where that is None."""
        values = _values(table, spec)
        sole = table.settings.is_sole
        before = _held(table, values[0]) if sole else records.read_entries(self._txn, table.number, values)
        for entry in before or ():
            if entry not in (after or ()):
                records.drop_entry(self._txn, table.number, entry, self._runs(table, entry.timeline))
        fresh = [entry for entry in after or () if entry not in (before or ())]
        for entry in fresh:
            records.add_entry(self._txn, table.number, entry, self._runs(table, entry.timeline))
        if sole:
            return
        if after is None:
            records.delete_entries(self._txn, table.number, values)
        elif before != after:
            records.put_entries(self._txn, table.number, values, after)

    def _read(self, table: FollowedTable, spec: Spec, period: UpdatePeriod | None) -> tuple[Entry, ...]:
        found = []
        for number, column in enumerate(table.settings.time_columns):
            read = table.settings.read(spec.get(column.lower(), ""), period)
            timeline = table.timelines.get((read[0], number)) if read else None
            if read is None:
                self.skipped["no-time"] += 1
            elif timeline is not None and timeline.is_stray(read[1]):
                self.skipped["stray"] += 1
            else:
                found.append(Entry(read[0], number, read[1]))
        return tuple(found)

    def _current(self, name: str) -> FollowedTable | None:
        return self._touched[name] if name in self._touched else self._before.get(name)

    def _known(self, name: str) -> FollowedTable:
        current = self._current(name)
        if current is None:
            raise NotFound("the table has no timelines", table=name)
        return current

    def _writable(self, name: str) -> FollowedTable:
        current = self._known(name)
        if name not in self._touched:
            current = self._touched[name] = current.copy()
        return current

    def _runs(self, table: FollowedTable, key: TimelineKey) -> Runs:
        """The runs of one timeline that this change may write to."""
        if (table.number, key) not in self._own:
            shared = table.timelines.get(key)
            table.timelines[key] = table.new_timeline(key) if shared is None else shared.copy()
            self._own.add((table.number, key))
        return table.timelines[key].runs

    def _loaded(self, name: str, table: FollowedTable, *, counted: bool) -> None:
        table.counted, table.stale = counted, False
        self._own |= {(table.number, key) for key in table.timelines}
        self._save(name, table)

    def _save(self, name: str, table: FollowedTable) -> None:
        self._touched[name] = table
        records.put_table(self._txn, name, table.record())


def _values(table: FollowedTable, spec: Spec) -> Sequence[str]:
    return [spec.get(column.lower(), "") for column in table.settings.partition_columns]


def _held(table: FollowedTable, text: str) -> tuple[Entry, ...]:
    """What the one partition with this value adds, in a table where the value is all there is."""
    found = ((key, timeline.period.parse_or_none(text)) for key, timeline in table.timelines.items())
    return tuple(
        Entry(*key, ordinal)
        for key, ordinal in found
        if ordinal is not None and ordinal in table.timelines[key].runs
    )
