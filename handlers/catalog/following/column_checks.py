"""Decides whether columns appended to a table have reached its partitions, without reading all of them again.

``ALTER TABLE ADD COLUMNS`` changes every partition with ``CASCADE`` and none without it, and its event does
not say which. So the catalog reads a few partitions. One that still has its former columns, although the
statement gave others to the table, proves that there was no ``CASCADE``: that would have changed all
partitions in one transaction. Two things could make such a partition look unchanged:

- another change of this partition since the statement: partitions that a later event names prove nothing;
- such a change whose event is still to come: the decision waits until the catalog has applied all events up
  to the reading.

Meanwhile the catalog keeps the table's events in memory, and applies them after the decision. After a
restart, with too many events, or without a proof, the load reads all partitions. The same holds for every
other change of columns: Hive then also changes the parameters of partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from handlers.catalog.following.missed_events import MissedEvents, Reading
from handlers.catalog.following.ports import SampledPartition
from handlers.catalog.following.table_info import describe_table
from handlers.catalog.following.table_states import TableStates
from handlers.events import (
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    StatisticsUpdated,
    TableAltered,
)
from handlers.metastore.client import Metastore
from handlers.structs.objects import FieldSchema, Partition, StorageDescriptor, Table


COLUMNS: Final = "columns"
"""Reason of the load of such a table."""
EVENTS_MAX: Final = 2_000
"""Events of a table kept for one decision, at most: a tenth of a second."""
_HARMLESS: Final = (PartitionsAdded, PartitionsAltered, PartitionsDropped, StatisticsUpdated, TableAltered)


@dataclass(frozen=True, slots=True)
class FoundPartitions:
    """The metastore's answer for the sampled partitions."""

    by_values: Mapping[tuple[str, ...], Partition]
    until: int
    """The source's newest event id after the reading."""


@dataclass(eq=False, slots=True)
class ColumnCheck:
    """One table with an undecided change of columns."""

    reading: Reading
    """The table's events from the change on."""
    samples: Sequence[SampledPartition] = ()
    found: FoundPartitions | None = field(default=None)

    @property
    def is_possible(self) -> bool:
        """Whether a decision is still possible: no event is missing, and every change of columns only
        appends columns.
        """
        events = self.reading.events
        return not self.reading.is_lost and all(
            isinstance(event, _HARMLESS) and (not isinstance(event, TableAltered) or _keeps_columns(event))
            for event in events
        )

    def is_proven(self) -> bool:
        """Whether a sample proves that no statement has changed the partitions."""
        if self.found is None:
            return False
        given = [_columns(event.after.value) for event in self._alterations()]
        touched = set(self._touched())
        for sample in self.samples:
            found = self.found.by_values.get(sample.values)
            columns = _columns(sample.partition)
            if found is not None and sample.values not in touched and columns not in given:
                return _columns(found) == columns
        return False

    def _alterations(self) -> Iterator[TableAltered]:
        return (event for event in self.reading.events if isinstance(event, TableAltered))

    def _touched(self) -> Iterator[tuple[str, ...]]:
        """Yield the values of all partitions that an event names."""
        for event in self.reading.events:
            match event:
                case PartitionsAdded():
                    yield from (tuple(one.value.values or ()) for one in event.partitions)
                case PartitionsAltered():
                    before = () if event.before is None else (event.before,)
                    yield from (tuple(one.value.values or ()) for one in (*before, *event.after))
                case PartitionsDropped():
                    columns = describe_table(next(self._alterations()).after.value).columns
                    for spec in event.specs:
                        values = {column.lower(): value for column, value in spec.items()}
                        yield tuple(values.get(column, "") for column in columns)


class ColumnChecks:
    """The checks of all tables. Use it from one thread only."""

    def __init__(self, missed: MissedEvents) -> None:
        self._missed = missed
        self._checks: dict[str, ColumnCheck] = {}

    def begin(self, name: str) -> None:
        """Keep the events of a table from the current one on."""
        self.end(name)
        self._checks[name] = ColumnCheck(self._missed.begin(name, limit=EVENTS_MAX))

    def get(self, name: str) -> ColumnCheck | None:
        """Return the check of a table."""
        return self._checks.get(name)

    def is_ready(self, name: str, applied: int) -> bool:
        """Whether the load of a table, or its decision, is possible with events up to ``applied``."""
        check = self._checks.get(name)
        return check is None or check.found is None or applied >= check.found.until or not check.is_possible

    def end(self, name: str) -> None:
        """Forget the check of a table; harmless if there is none."""
        check = self._checks.pop(name, None)
        if check is not None:
            self._missed.end(check.reading)

    def end_all(self) -> None:
        """Forget all checks; their tables need a complete load."""
        for name in list(self._checks):
            self.end(name)

    def end_obsolete(self, states: TableStates) -> None:
        """Forget the checks of tables that an event has dropped or renamed, and of tables loaded for
        another reason.
        """
        waiting = states.waiting()
        for name in [name for name in self._checks if waiting.get(name) != COLUMNS]:
            self.end(name)


def appends_columns(event: TableAltered) -> bool:
    """Whether a statement changes the columns of a table only by appending data columns."""
    before, after = event.before.value, event.after.value
    return _columns(before) != _columns(after) and _keeps_columns(event)


def read_samples(name: str, samples: Sequence[SampledPartition], source: Metastore) -> FoundPartitions:
    """Read the sampled partitions, in the thread of calls."""
    db, _, table = name.partition(".")
    partitions = source.get_partitions(db, table, [sample.name for sample in samples]) if samples else []
    return FoundPartitions({tuple(one.values or ()): one for one in partitions}, source.current_event_id())


def _keeps_columns(event: TableAltered) -> bool:
    before, after = event.before.value, event.after.value
    old, new = _columns(before), _columns(after)
    same_keys = (before.partitionKeys or []) == (after.partitionKeys or [])
    return same_keys and new[: len(old)] == old


def _columns(holder: Table | Partition) -> list[FieldSchema]:
    descriptor: StorageDescriptor | None = holder.sd
    return [] if descriptor is None else list(descriptor.cols or [])
