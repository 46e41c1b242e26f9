"""Loads the timelines of one table from a listing, in parallel with its current ones and in small steps
(``table_loads``).

The content of a load keeps the table's name until the end of the load. After an interruption, the next load
of the same table continues with it, even after a restart (``ListingWriter``). Loads whose table does not wait
any more disappear (``tidy``).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

from handlers.catalog.following.table_info import Listing, PartitionInfo, TableLoad
from handlers.catalog.timelines.rules import Rules
from handlers.failpoints import failpoint
from state.errors import BadInput
from state.store import Store, Transaction
from state.timelines.periods import UpdatePeriod
from state.timelines.table_properties import PARTITION_PERIOD
from state.timelines.tables import records
from state.timelines.tables.listing import ListingLoad, ListingWriter
from state.timelines.tables.settings import TableSettings


WRITTEN: Final = 500
"""Small writes of one transaction: a few hundredths of a second."""
SAMPLE: Final = 1_000
"""Number of partitions to read to find the columns that contain time."""


class TimelineLoad(TableLoad):
    """One load. Its content counts only after ``take_load``; the next load continues an abandoned one, or
    a sweep removes its content later.
    """

    def __init__(
        self,
        listing: Listing,
        rules: Rules,
        known: tuple[str, ...],
        unfinished: set[int],
    ) -> None:
        """``known`` are the table's present time columns;
        ``unfinished`` has the numbers of all loads under way.
        """
        super().__init__(listing)
        self._rules = rules
        self._known = known
        self._unfinished = unfinished
        self._writer: ListingWriter | None = None
        self.number = 0
        """The table number of the written content; 0 for none."""
        self.content: ListingLoad | None = None
        """None for a table without a column that contains time, and for a load from properties."""
        self.is_empty = True

    @property
    def is_from_properties(self) -> bool:
        """Whether the load is from the table's properties, without a listing of partitions."""
        return self.listing.whole is None

    def read(self) -> None:
        """Compute the timelines; raise MalformedEvent if a partition does not fit the table."""
        if self.is_from_properties:
            return
        table, partitions = self.listing.table, self.listing.partitions
        sample = list(islice(partitions(), SAMPLE))
        self.is_empty = not sample
        settings = self._rules.settings(table)
        if settings is None:
            settings = self._rules.detect(table, [partition.spec for partition in sample], self._known)
        if settings is not None:
            self.content = ListingLoad(
                settings, lambda: map(_Periods(settings).read, partitions()), self.listing.pause
            )
            self.content.compute()

    def write(self, store: Store) -> bool:
        """Write a part, in a transaction; return whether there is more."""
        if self.content is None:
            return False
        with store.transaction() as txn:
            if self._writer is None:
                self._writer = self._begin(txn, self.content)
            more = self._writer.write(txn, WRITTEN)
        failpoint("catalog.timelines-written")
        return more

    def _begin(self, txn: Transaction, content: ListingLoad) -> ListingWriter:
        """Continue the newest interrupted load of the table, or begin one."""
        name, loads = self.listing.table.name, records.read_loads(txn)
        interrupted = [
            number for number, table in loads.items() if table == name and number not in self._unfinished
        ]
        self.number = interrupted[-1] if interrupted else records.begin_load(txn, name)
        self._unfinished.add(self.number)
        return ListingWriter(content, self.number, resumed=bool(interrupted))

    def abandon(self) -> None:
        """End the load; the next one continues its content, or a sweep removes it later, unless it has
        finished.
        """
        self._unfinished.discard(self.number)


class _Periods:
    """Reads the values of partitions, and the periods in their parameters."""

    def __init__(self, settings: TableSettings) -> None:
        self._settings = settings

    def read(self, partition: PartitionInfo) -> tuple[Mapping[str, str], UpdatePeriod | None]:
        """Return the values and the period of a partition."""
        return partition.spec, parse_period(partition.parameters, self._settings)


def parse_period(parameters: Mapping[str, str], settings: TableSettings) -> UpdatePeriod | None:
    """Return the period named by a partition's own parameter; None if it names none or an unknown period."""
    name = parameters.get(PARTITION_PERIOD)
    if not name:
        return None
    try:
        return UpdatePeriod.from_lens_name(name, iso_weeks=settings.iso_weeks)
    except BadInput:
        return None
