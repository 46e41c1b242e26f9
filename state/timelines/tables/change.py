"""A set of changes to timelines within one store transaction; see ``projection`` for the guarantees.

1. The caller opens a store transaction and calls ``Timelines.change``.
2. Every call writes to the transaction at once, and changes copies in memory.
3. The transaction commits, with the position.
4. ``publish`` shows the copies to readers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from state.errors import NotFound
from state.shared_tables import SharedTables
from state.store import Transaction
from state.timelines.ignored_values import IgnoredValues
from state.timelines.periods import UpdatePeriod
from state.timelines.runs import Runs
from state.timelines.storage_forms import find_form
from state.timelines.tables import records
from state.timelines.tables.listing import ListingLoad, list_ignored, list_time_values, list_values
from state.timelines.tables.records import PartitionEntry
from state.timelines.tables.settings import TableSettings
from state.timelines.tables.table_timelines import TableTimelines, TimelineKey, read_timelines


Spec = Mapping[str, str]
"""Partition columns (lower case) to values."""
Publish = Callable[[Mapping[str, TableTimelines | None], "Counter[str]"], None]


class TimelineChange:
    """Changes of partitions and tables, applied in order."""

    def __init__(self, txn: Transaction, tables: SharedTables[TableTimelines], publish: Publish) -> None:
        self._txn = txn
        self._before = tables
        self._publish = publish
        self._touched: dict[str, TableTimelines | None] = {}
        self._owned: set[tuple[int, TimelineKey]] = set()
        self.skipped: Counter[str] = Counter()
        self.has_discarded = False
        """Whether the content of a table waits for its removal (``Numbers.sweep``)."""

    def publish(self) -> None:
        """Show the changes to readers; call it once, after the transaction has committed."""
        self._publish(self._touched, self.skipped)

    def follows(self, name: str) -> bool:
        """Whether a table has timelines, including this change."""
        return self._current(name) is not None

    def settings(self, name: str) -> TableSettings:
        """Return a table's settings, including this change; raise NotFound if it has no timelines."""
        return self._require(name).settings

    def is_stale(self, name: str) -> bool:
        """Whether a table needs another load, including this change; False without timelines."""
        current = self._current(name)
        return current is not None and current.stale

    def follow(self, name: str, settings: TableSettings) -> None:
        """Follow a table, without partitions; changes nothing if its settings are the same.

        If the settings change, single timelines keep their storage forms, unless the settings' own form
        changes.
        """
        current = self._current(name)
        if current is not None and current.settings == settings:
            return
        keeps_form = current is not None and current.settings.form == settings.form
        forms = dict(current.forms) if current is not None and keeps_form else {}
        self.forget(name)
        self._save(name, TableTimelines(records.NUMBERS.draw(self._txn), settings, forms=forms))

    def forget(self, name: str) -> None:
        """Forget a table and its timelines; ignore an unknown one."""
        current = self._current(name)
        if current is not None:
            self._discard(current.number)
            records.delete_table(self._txn, name)
            self._touched[name] = None

    def rename(self, old: str, new: str) -> None:
        """Keep a table's timelines under a new name, at the cost of one record; ignore an unknown table."""
        current = self._current(old)
        if current is not None and old != new:
            self.forget(new)
            records.delete_table(self._txn, old)
            self._touched[old] = None
            self._save(new, current.copy())

    def add(self, name: str, spec: Spec, period: UpdatePeriod | None = None) -> None:
        """Add a partition; ``period`` is the period in its parameter, or None.

        Raises NotFound without timelines of the table.
        """
        table = self._copy_on_write(name)
        self._replace(table, spec, self._read(table, spec, period))

    def drop(self, name: str, spec: Spec) -> None:
        """Drop a partition. Raises NotFound without timelines of the table."""
        table = self._copy_on_write(name)
        if not table.counted and not table.settings.is_sole:
            if not table.stale:
                table.stale = True
                self._save(name, table)
            return
        self._replace(table, spec, None)

    def load(self, name: str, partitions: Iterable[tuple[Spec, UpdatePeriod | None]]) -> None:
        """Replace a table's timelines by a listing of all its partitions, at once;
        a repeated partition counts once.
        """
        settings = self._require(name).settings
        unique = {tuple(list_values(settings, spec)): (spec, period) for spec, period in partitions}
        listing = ListingLoad(settings, unique.values)
        listing.compute()
        number = records.begin_load(self._txn)
        for key, value in listing.content(number):
            self._txn.put(key, value)
        self.finish_listing(name, listing, number)

    def finish_listing(self, name: str, listing: ListingLoad, number: int) -> None:
        """Replace a table's timelines by a listing, for the same settings, whose content is complete under
        ``number``.
        """
        table = self._copy_on_write(name)
        assert table.settings == listing.settings, name
        self._discard(table.number)
        records.end_load(self._txn, number)
        table.number = number
        table.timelines = {key: table.new_timeline(key, runs) for key, runs in listing.runs.items()}
        table.ignored = dict(listing.ignored)
        self.skipped.update(listing.skipped)
        self._finish_load(name, table, counted=True)

    def load_properties(self, name: str, properties: Mapping[str, str]) -> None:
        """Replace a table's timelines by those in its properties.

        Raises TimelineInconsistent or ConfigError without any change; in that case, load the table from its
        partitions.
        """
        loaded = read_timelines(self._copy_on_write(name).settings, properties)
        table = self._renumber(name)
        table.timelines, table.ignored = loaded, None
        for key, timeline in loaded.items():
            table.set_form(key, timeline.form.name)
            records.put_runs(self._txn, table.number, key, timeline.runs.pairs())
        self._finish_load(name, table, counted=table.settings.is_sole)

    def set_form(self, name: str, period: UpdatePeriod, column: str, form: str) -> None:
        """Set the storage form of one timeline; ``build_form_properties`` returns the properties to write.

        Raises ConfigError for an unknown form, NotFound for a table or column without timelines.
        """
        table = self._copy_on_write(name)
        key = (period, table.column_number(column))
        table.set_form(key, find_form(form).name)
        if key in table.timelines:
            table.timelines[key] = table.new_timeline(key, table.timelines[key].runs)
        self._save(name, table)

    def _replace(self, table: TableTimelines, spec: Spec, after: tuple[PartitionEntry, ...] | None) -> None:
        """Replace the entries of a partition by ``after``, or forget the partition if that is None."""
        values = list_values(table.settings, spec)
        sole = table.settings.is_sole
        before = (
            _find_entries(table, values[0]) if sole else records.read_entries(self._txn, table.number, values)
        )
        for entry in before or ():
            if entry not in (after or ()):
                records.drop_entry(self._txn, table.number, entry, self._runs(table, entry.timeline))
        fresh = [entry for entry in after or () if entry not in (before or ())]
        for entry in fresh:
            records.add_entry(self._txn, table.number, entry, self._runs(table, entry.timeline))
        self._replace_ignored(table, spec, after)
        if sole:
            return
        if after is None:
            records.delete_entries(self._txn, table.number, values)
        elif before != after:
            records.put_entries(self._txn, table.number, values, after)

    def _replace_ignored(
        self, table: TableTimelines, spec: Spec, after: tuple[PartitionEntry, ...] | None
    ) -> None:
        """Record the ignored values of a partition; ``after`` are its entries, or None if dropped."""
        if table.ignored is None:
            return
        values = list_values(table.settings, spec)
        ignored = [] if after is None else list_ignored(table.settings, spec, after)
        for column, text in enumerate(list_time_values(table.settings, spec)):
            before = table.ignored.get(column, IgnoredValues())
            if (column, text) in ignored:
                records.add_ignored(self._txn, table.number, column, text, values)
                table.ignored[column] = before.with_value(text)
            elif before.may_contain(text) and records.drop_ignored(
                self._txn, table.number, column, text, values
            ):
                table.ignored[column] = before.without_value(text)

    def _read(
        self, table: TableTimelines, spec: Spec, period: UpdatePeriod | None
    ) -> tuple[PartitionEntry, ...]:
        entries = []
        for number, column in enumerate(table.settings.time_columns):
            read = table.settings.read(spec.get(column.lower(), ""), period)
            timeline = table.timelines.get((read[0], number)) if read else None
            if read is None:
                self.skipped["no-time"] += 1
            elif timeline is not None and timeline.is_stray(read[1]):
                self.skipped["stray"] += 1
            else:
                entries.append(PartitionEntry(read[0], number, read[1]))
        return tuple(entries)

    def _current(self, name: str) -> TableTimelines | None:
        return self._touched[name] if name in self._touched else self._before.get(name)

    def _require(self, name: str) -> TableTimelines:
        current = self._current(name)
        if current is None:
            raise NotFound("the table is not followed", table=name)
        return current

    def _copy_on_write(self, name: str) -> TableTimelines:
        current = self._require(name)
        if name not in self._touched:
            current = self._touched[name] = current.copy()
        return current

    def _renumber(self, name: str) -> TableTimelines:
        """Return a table under a new number, which replaces its content without deleting the old one now."""
        table = self._copy_on_write(name)
        self._discard(table.number)
        table.number = records.NUMBERS.draw(self._txn)
        return table

    def _discard(self, number: int) -> None:
        records.NUMBERS.discard(self._txn, number)
        self.has_discarded = True

    def _runs(self, table: TableTimelines, key: TimelineKey) -> Runs:
        """Return the runs of one timeline, copied if this change does not own them yet."""
        if (table.number, key) not in self._owned:
            shared = table.timelines.get(key)
            table.timelines[key] = table.new_timeline(key) if shared is None else shared.copy()
            self._owned.add((table.number, key))
        return table.timelines[key].runs

    def _finish_load(self, name: str, table: TableTimelines, *, counted: bool) -> None:
        table.counted, table.stale = counted, False
        self._owned |= {(table.number, key) for key in table.timelines}
        self._save(name, table)

    def _save(self, name: str, table: TableTimelines) -> None:
        self._touched[name] = table
        records.put_table(self._txn, name, table.to_record())


def _find_entries(table: TableTimelines, text: str) -> tuple[PartitionEntry, ...]:
    """Return the entries of the one partition with this value, in a table with a single partition column."""
    found = ((key, timeline.period.parse_or_none(text)) for key, timeline in table.timelines.items())
    return tuple(
        PartitionEntry(*key, ordinal)
        for key, ordinal in found
        if ordinal is not None and ordinal in table.timelines[key].runs
    )
