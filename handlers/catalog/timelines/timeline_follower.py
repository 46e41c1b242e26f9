"""Timelines as a follower of the catalog.

Where the values decide which columns hold time, a table without any is remembered as undecided: the first partition whose
values are strictly times has the table loaded, so that what came before is looked at again. A table with partitions, none of
whose columns is strictly time, is not looked at again until somebody asks for a rebuild.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from handlers.catalog.following.ports import NullObserver
from handlers.catalog.following.table_info import TableInfo
from state.errors import BadInput, ConfigError, TimelineInconsistent
from state.store import prefix_end
from state.timelines.periods import UpdatePeriod
from state.timelines.table_properties import APPLIED_EVENT, PARTITION_PERIOD, TIME_COLUMNS, is_present
from state.timelines.tables.projection import Timelines


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractContextManager

    from handlers.catalog.following.ports import Observer
    from handlers.catalog.following.table_info import PartitionInfo, Spec
    from handlers.catalog.timelines.rules import Rules
    from state.store import Reader, Store, Transaction
    from state.timelines.tables.settings import TableSettings


SAMPLE: Final = 1_000
"""How many partitions are looked at to find the columns that hold time."""
_UNDECIDED: Final = b"ct/u/"
_DIRTY: Final = b"ct/d/"


class TimelineFollower:
    """Keeps ``timelines`` true; readers of other threads may use it at any time."""

    def __init__(self, rules: Rules, observer: Observer | None = None, *, publishes: bool = False) -> None:
        self.rules = rules
        self.publishes = publishes
        """Whether tables that changed are remembered as to be published."""
        self.dirty: dict[str, float] = {}
        """Tables to be published, with the moment (monotonic) of the first change that is not."""
        self._observer = observer or NullObserver()
        self.timelines = Timelines()

    @property
    def rules_text(self) -> str:
        """The rules as text."""
        return repr(self.rules)

    def open(self, reader: Reader) -> None:
        """Read the timelines from the store."""
        self.timelines = Timelines.open(reader)
        stored = reader.scan(_DIRTY, prefix_end(_DIRTY)) if self.publishes else ()
        self.dirty = {key[len(_DIRTY) :].decode(): time.monotonic() for key, _ in stored}

    def clean(self, store: Store, name: str) -> None:
        """A table was published, or cannot be."""
        self.dirty.pop(name, None)
        with store.transaction() as txn:
            txn.delete(_DIRTY + name.encode())

    def accepts(self, table: TableInfo) -> bool:
        """Whether the rules say so."""
        return self.rules.accepts(table)

    def names_suffice(self, table: TableInfo) -> bool:
        """Whether values alone tell their period: Lens, which says it in partition parameters, names its time columns."""
        return TIME_COLUMNS not in table.parameters

    @property
    def loads_in_pieces(self) -> bool:
        """It does not: runs are short, whatever the number of partitions."""
        return False

    def lock(self) -> AbstractContextManager[object]:
        """Readers see timelines that are only ever replaced whole."""
        return nullcontext()

    def open_change(self, txn: Transaction) -> AbstractContextManager[TimelineFollowerChange]:
        """Give a change in the catalog's transaction."""
        return nullcontext(self.change(txn))

    def close(self) -> None:
        """Nothing: it has no store of its own."""

    def change(self, txn: Transaction) -> TimelineFollowerChange:
        """Start a change."""
        return TimelineFollowerChange(txn, self, self._observer)


class TimelineFollowerChange:
    """One transaction's changes."""

    def __init__(self, txn: Transaction, follower: TimelineFollower, observer: Observer) -> None:
        self._txn = txn
        self._follower = follower
        self._observer = observer
        self._timelines = follower.timelines
        self._rules = follower.rules
        self._change = follower.timelines.change(txn)
        self.doubtful: set[str] = set()
        self._touched: set[str] = set()

    @property
    def staging(self) -> None:
        """None: it takes a listing at once."""
        return

    def create_table(self, table: TableInfo) -> None:
        """Follow it anew, empty."""
        self.forget_table(table.name)
        settings = self._rules.settings(table)
        if settings is not None:
            self._change.follow(table.name, settings)
            self._touch(table.name)
        elif self._rules.looks(table):
            self._txn.put(_UNDECIDED + table.name.encode(), b"")

    def alter_table(self, table: TableInfo) -> None:
        """Load it again where its parameters now say something else."""
        settings = self._rules.settings(table)
        if settings is None:
            return
        current = self._timelines.settings(table.name) if table.name in self._timelines.tables() else None
        if settings != current:
            self.doubtful.add(table.name)

    def rename_table(self, old: str, table: TableInfo) -> None:
        """Carry the timelines over; what the rules say about the new name is applied as to an altered table."""
        undecided = self._txn.get(_UNDECIDED + old.encode()) is not None
        before = self._timelines.settings(old) if old in self._timelines.tables() else None
        self._change.rename(old, table.name)
        self._txn.delete(_UNDECIDED + old.encode())
        if undecided:
            self._txn.put(_UNDECIDED + table.name.encode(), b"")
        settings = self._rules.settings(table)
        if settings is not None and settings != before:
            self.doubtful.add(table.name)
        self._touch(table.name)

    def forget_table(self, name: str) -> None:
        """Forget its timelines."""
        self._change.forget(name)
        self._txn.delete(_UNDECIDED + name.encode())

    def load_from_properties(self, table: TableInfo) -> bool:
        """Take the timelines from the table's properties, where they are there and make sense.

        Those that carry an event id are our own, which trail behind the partitions by the time that publishing is delayed:
        they are not trusted. Lens writes with every change.
        """
        settings = self._rules.settings(table)
        if settings is None or not is_present(table.parameters) or APPLIED_EVENT in table.parameters:
            return False
        self._follow(table.name, settings)
        try:
            self._change.load_properties(table.name, table.parameters)
        except (TimelineInconsistent, ConfigError, BadInput):
            return False
        self._touch(table.name)
        return True

    def load_partitions(self, table: TableInfo, partitions: Iterable[PartitionInfo]) -> None:
        """Take the timelines from a listing."""
        listing = iter(partitions)
        settings = self._rules.settings(table)
        if settings is None:
            sample = list(islice(listing, SAMPLE))
            settings = self._rules.detected(table, (partition.spec for partition in sample))
            listing = chain(sample, listing)
            if settings is None:
                self._undecided(table.name, empty=not sample)
                return
        self._txn.delete(_UNDECIDED + table.name.encode())
        self._follow(table.name, settings)
        self._change.load(
            table.name, ((partition.spec, period_of(partition.parameters, settings)) for partition in listing)
        )
        self._touch(table.name)

    def put_partition(self, name: str, partition: PartitionInfo) -> None:
        """Add it, where the table has timelines."""
        if self._change.follows(name):
            settings = self._change.settings(name)
            self._change.add(name, partition.spec, period_of(partition.parameters, settings))
            self._touch(name)
        elif self._txn.get(_UNDECIDED + name.encode()) is not None:
            self._look(name, partition.spec)

    def update_statistics(
        self, name: str, spec: Spec, parameters: Mapping[str, str], write_id: int | None
    ) -> None:
        """Statistics say nothing about time."""

    def drop_partition(self, name: str, spec: Spec) -> None:
        """Drop it, where the table has timelines; the table is unsure where that cannot be decided."""
        if self._change.follows(name):
            self._change.drop(name, spec)
            self._touch(name)
            if self._change.is_stale(name):
                self.doubtful.add(name)

    def publish(self) -> None:
        """Show the timelines."""
        self._change.publish()
        for reason, count in self._change.skipped.items():
            self._observer.values_refused(reason, count)
        now_s = time.monotonic()
        for name in self._touched if self._follower.publishes else ():
            self._follower.dirty.setdefault(name, now_s)

    def _touch(self, name: str) -> None:
        """Remember that a table's timelines may differ from before."""
        if name not in self._touched:
            self._touched.add(name)
            if self._follower.publishes:
                self._txn.put(_DIRTY + name.encode(), b"")

    def _follow(self, name: str, settings: TableSettings) -> None:
        """Follow with these settings, keeping the storage forms that single timelines were given."""
        self._change.follow(name, settings)

    def _look(self, name: str, spec: Spec) -> None:
        table = TableInfo(name, tuple(spec), {})
        if self._rules.detected(table, [spec]) is not None:
            self.doubtful.add(name)

    def _undecided(self, name: str, *, empty: bool) -> None:
        self._change.forget(name)
        key = _UNDECIDED + name.encode()
        if empty:
            self._txn.put(key, b"")
        else:
            self._txn.delete(key)


def period_of(parameters: Mapping[str, str], settings: TableSettings) -> UpdatePeriod | None:
    """Return the period that a partition's own parameter names; one that is no period says nothing."""
    name = parameters.get(PARTITION_PERIOD)
    if not name:
        return None
    try:
        return UpdatePeriod.from_lens_name(name, iso_weeks=settings.iso_weeks)
    except BadInput:
        return None
