"""The timelines as a follower of the catalog.

If the values decide which columns contain time, a table without partitions is undecided. The first partition
whose values are strictly times causes a load of the table, so that earlier partitions count again. A table
that has partitions but no strict time column has no further check until an operator requests a rebuild.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from handlers.catalog.following.ports import NullObserver, Observer, SampledPartition
from handlers.catalog.following.table_info import (
    AlteredTable,
    CreatedTable,
    DroppedPartition,
    ForgottenTable,
    Listing,
    PartitionInfo,
    PutPartition,
    RenamedTable,
    Spec,
    TableChange,
    TableInfo,
    TableLoad,
)
from handlers.catalog.following.table_state import parse_state
from handlers.catalog.following.table_states import STATES
from handlers.catalog.timelines.rules import Rules
from handlers.catalog.timelines.timeline_load import TimelineLoad, parse_period
from state.errors import BadInput, ConfigError, TimelineInconsistent
from state.store import Store, Transaction, prefix_end
from state.timelines.periods import UpdatePeriod
from state.timelines.table_properties import APPLIED_EVENT, PARTITION_PERIOD, TIME_COLUMNS, is_present
from state.timelines.tables import records
from state.timelines.tables.projection import Timelines
from state.timelines.tables.settings import TableSettings
from state.timelines.tables.table_timelines import read_timelines


SWEPT: Final = 2_500
"""Keys of forgotten tables removed at once: a few hundredths of a second."""
_UNDECIDED: Final = b"ct/u/"
_UNPUBLISHED: Final = b"ct/d/"


class TimelineFollower:
    """Keeps ``timelines`` up to date; other threads may read them at any time."""

    def __init__(self, rules: Rules, observer: Observer | None = None, *, publishes: bool = False) -> None:
        self.rules = rules
        self.publishes = publishes
        """Whether to record changed tables for publishing."""
        self.unpublished: dict[str, float] = {}
        """Tables with unpublished changes, with the (monotonic) time of the first one."""
        self._observer = observer or NullObserver()
        self.timelines = Timelines()
        self.has_discarded = True
        self._unfinished: set[int] = set()
        """The table numbers of current loads."""

    @property
    def rules_text(self) -> str:
        """The rules as text, which is stored."""
        return repr(self.rules)

    def open(self, store: Store) -> None:
        """Read the timelines from the store."""
        self.timelines = Timelines.open(store)
        self.has_discarded = True
        stored = store.scan(_UNPUBLISHED, prefix_end(_UNPUBLISHED)) if self.publishes else ()
        self.unpublished = {key[len(_UNPUBLISHED) :].decode(): time.monotonic() for key, _ in stored}

    def mark_published(self, store: Store, name: str) -> None:
        """Record that the publication of a table is over, with or without success."""
        self.unpublished.pop(name, None)
        with store.transaction() as txn:
            txn.delete(_UNPUBLISHED + name.encode())

    def accepts(self, table: TableInfo) -> bool:
        """Whether the rules select the table."""
        return self.rules.accepts(table)

    def names_suffice(self, table: TableInfo) -> bool:
        """Whether values alone determine their period;
        Lens tables, which name their time columns, store it in parameters.
        """
        return TIME_COLUMNS not in table.parameters

    def properties_suffice(self, table: TableInfo) -> bool:
        """Whether the table's properties contain its timelines,
        without contradictions; then they are loaded from there.

        Properties with an event id were written by Tideline. They are older than the partitions by the
        publishing delay, so the follower does not trust them. Lens writes its properties with every change.
        """
        settings = self.rules.settings(table)
        if settings is None or not is_present(table.parameters) or APPLIED_EVENT in table.parameters:
            return False
        try:
            read_timelines(settings, table.parameters)
        except (TimelineInconsistent, ConfigError, BadInput):
            return False
        return True

    def begin_load(self, listing: Listing) -> TimelineLoad:
        """Begin a load of the table's timelines."""
        name = listing.table.name
        followed = name in self.timelines.tables()
        known = self.timelines.settings(name).time_columns if followed else ()
        return TimelineLoad(listing, self.rules, tuple(known), self._unfinished)

    @property
    def loads_in_pieces(self) -> bool:
        """False: runs are small, however many partitions there are."""
        return False

    @property
    def partition_parameters(self) -> frozenset[str]:
        """The period, which Lens stores in a parameter."""
        return frozenset({PARTITION_PERIOD})

    def sample(self, name: str) -> Sequence[SampledPartition]:  # noqa: ARG002 - the same for all tables
        """None: data columns do not concern time."""
        return ()

    def open_change(self, txn: Transaction) -> AbstractContextManager[TimelineFollowerChange]:
        """Open a change in the catalog's transaction."""
        return nullcontext(self.change(txn))

    def tidy(self, store: Store) -> bool:
        """Remove some content of forgotten or replaced tables; return whether there may be more."""
        abandoned = self._abandoned(store)
        if abandoned:
            with store.transaction() as txn:
                for number in abandoned:
                    records.abandon_load(txn, number)
            self.has_discarded = True
        if self.has_discarded:
            with store.transaction() as txn:
                self.has_discarded = records.NUMBERS.sweep(txn, SWEPT)
        return self.has_discarded

    def _abandoned(self, store: Store) -> set[int]:
        """Return the loads that nothing continues: their table does not wait for a load,
        or has a newer one.
        """
        loads = records.read_loads(store)
        newest = {name: number for number, name in loads.items()}
        waiting = {number for name, number in newest.items() if name and _is_waiting(store, name)}
        return loads.keys() - self._unfinished - waiting

    def close(self) -> None:
        """Do nothing: it has no separate store."""

    def change(self, txn: Transaction) -> TimelineFollowerChange:
        """Open a change."""
        return TimelineFollowerChange(txn, self, self._observer)


def _is_waiting(store: Store, name: str) -> bool:
    stored = store.get(STATES + name.encode())
    return stored is not None and parse_state(stored).load is not None


class TimelineFollowerChange:
    """The changes of one transaction."""

    def __init__(self, txn: Transaction, follower: TimelineFollower, observer: Observer) -> None:
        self._txn = txn
        self._follower = follower
        self._observer = observer
        self._rules = follower.rules
        self._change = follower.timelines.change(txn)
        self._touched: set[str] = set()

    def apply(self, change: TableChange) -> bool:  # noqa: PLR0911 - one for each kind
        """Apply a change; return False if the table is doubtful. Changes of statistics and data columns
        have no effect on timelines.
        """
        match change:
            case PutPartition():
                return self._put(change.name, change.partition)
            case DroppedPartition():
                return self._drop(change.name, change.spec)
            case CreatedTable():
                return self._create(change.table)
            case AlteredTable():
                return self._alter(change.table)
            case RenamedTable():
                return self._rename(change.old, change.table)
            case ForgottenTable():
                return self._forget(change.name)
            case _:
                return True

    def take_load(self, load: TableLoad) -> bool:
        """Replace the timelines of a table by those of its properties,
        or of a load that is completely written.
        """
        assert isinstance(load, TimelineLoad), load
        table = load.listing.table
        if load.is_from_properties:
            settings = self._rules.settings(table)
            assert settings is not None, table.name
            self._change.follow(table.name, settings)
            self._change.load_properties(table.name, table.parameters)
        elif load.content is None:
            self._mark_undecided(table.name, empty=load.is_empty)
            return True
        else:
            self._txn.delete(_UNDECIDED + table.name.encode())
            self._change.follow(table.name, load.content.settings)
            self._change.finish_listing(table.name, load.content, load.number)
        self._touch(table.name)
        return True

    def _create(self, table: TableInfo) -> bool:
        """Follow the table, without partitions."""
        self._forget(table.name)
        settings = self._rules.settings(table)
        if settings is not None:
            self._change.follow(table.name, settings)
            self._touch(table.name)
        elif self._rules.decides_by_values(table):
            self._txn.put(_UNDECIDED + table.name.encode(), b"")
        return True

    def _alter(self, table: TableInfo) -> bool:
        """Return False if the table's settings changed; forget a table that the rules no longer select."""
        if not self._rules.accepts(table):
            return self._forget(table.name)
        settings = self._rules.settings(table)
        return settings is None or settings == self._settings(table.name)

    def _rename(self, old: str, table: TableInfo) -> bool:
        """Move the timelines to the new name; the rules for the new name apply as to an altered table."""
        undecided = self._txn.get(_UNDECIDED + old.encode()) is not None
        before = self._settings(old)
        self._change.rename(old, table.name)
        self._txn.delete(_UNDECIDED + old.encode())
        if undecided:
            self._txn.put(_UNDECIDED + table.name.encode(), b"")
        settings = self._rules.settings(table)
        self._touch(table.name)
        return settings is None or settings == before

    def _forget(self, name: str) -> bool:
        """Forget the table's timelines."""
        self._change.forget(name)
        self._txn.delete(_UNDECIDED + name.encode())
        return True

    def _put(self, name: str, partition: PartitionInfo) -> bool:
        """Add the partition if the table has timelines;
        return False if it may be the first one that contains time.
        """
        if self._change.follows(name):
            settings = self._change.settings(name)
            self._change.add(name, partition.spec, parse_period(partition.parameters, settings))
            self._touch(name)
        elif self._txn.get(_UNDECIDED + name.encode()) is not None:
            table = TableInfo(name, tuple(partition.spec), {})
            return self._rules.detect(table, [partition.spec]) is None
        return True

    def _drop(self, name: str, spec: Spec) -> bool:
        """Drop the partition if the table has timelines; return False if the effect is unclear."""
        if not self._change.follows(name):
            return True
        self._change.drop(name, spec)
        self._touch(name)
        return not self._change.is_stale(name)

    def set_form(self, name: str, period: UpdatePeriod, column: str, form: str) -> None:
        """Set the storage form of a timeline, and mark the table as unpublished, because a write under way
        may contain the former one.
        """
        self._change.set_form(name, period, column, form)
        self._touch(name)

    def publish(self) -> None:
        """Make the changed timelines visible."""
        self._change.publish()
        self._follower.has_discarded |= self._change.has_discarded
        for reason, count in self._change.skipped.items():
            self._observer.values_refused(reason, count)
        now_s = time.monotonic()
        for name in self._touched if self._follower.publishes else ():
            self._follower.unpublished.setdefault(name, now_s)

    def _touch(self, name: str) -> None:
        """Record that a table's timelines may have changed."""
        if name not in self._touched:
            self._touched.add(name)
            if self._follower.publishes:
                self._txn.put(_UNPUBLISHED + name.encode(), b"")

    def _settings(self, name: str) -> TableSettings | None:
        """Return a table's settings, including this change; None if it has no timelines."""
        return self._change.settings(name) if self._change.follows(name) else None

    def _mark_undecided(self, name: str, *, empty: bool) -> None:
        self._change.forget(name)
        key = _UNDECIDED + name.encode()
        if empty:
            self._txn.put(key, b"")
        else:
            self._txn.delete(key)
