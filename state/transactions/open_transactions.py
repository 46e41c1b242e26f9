"""Values of the write-id mapping: one open source transaction, and the write ids of one source table.

Callers see frozen values. ``OpenTxn`` and ``TableWriteIds`` are the mapping's own mutable entries: a
transaction that touches a hundred thousand partitions costs one small entry for each partition, not a copy of
all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from state.transactions.valid_write_ids import ValidWriteIds


GONE: Final = ""
"""The current name of a dropped table."""

CONCURRENT_MAX: Final = 200
"""Concurrent write ids of the same table in memory: the newest ones, because streaming clients open thousands
at once."""


class Allocation(NamedTuple):
    """Write id ``write_id`` of ``table`` (``db.tbl``), allocated in event ``event_id``."""

    table: str
    write_id: int
    event_id: int


class Touched(NamedTuple):
    """A partition added or altered under ``write_id``."""

    table: str
    write_id: int
    partition_name: str


@dataclass(frozen=True, slots=True)
class SourceTxn:
    """A source transaction that writes into tables in scope.

    ``first_event_id`` is its first ALLOC_WRITE_ID in scope, not its OPEN_TXN. ``allocations`` has one entry
    per table, in event order.
    """

    txn_id: int
    first_event_id: int
    allocations: tuple[Allocation, ...] = ()
    target_txn: int | None = None
    touched: tuple[Touched, ...] = ()


@dataclass(slots=True)
class OpenTxn:
    """The mapping's entry for an open transaction.

    ``last_event_id`` is the latest event that allocated a write id for it. ``touched`` is an ordered set.
    """

    txn_id: int
    first_event_id: int
    last_event_id: int
    by_table: dict[str, Allocation] = field(default_factory=dict)
    target_txn: int | None = None
    touched: dict[Touched, None] = field(default_factory=dict)
    moved: dict[tuple[str, int], str] = field(default_factory=dict)
    """The current name of each table renamed since it allocated a write id, by earlier name and write id;
    ``GONE`` for a dropped one. The source names its write events as at the time of the write."""
    concurrent: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """By table: the lower write ids, at most ``CONCURRENT_MAX``, open at its allocation; no entry
    without any."""

    def move(self, table: str, write_id: int, current: str) -> None:
        """Record that the table of an allocation has another name now, or none (``GONE``)."""
        for key, name in self.moved.items():
            if name == table and key[1] == write_id:
                self.moved[key] = current
        self.moved[table, write_id] = current

    def to_value(self) -> SourceTxn:
        """Return the frozen value for callers."""
        return SourceTxn(
            self.txn_id,
            self.first_event_id,
            tuple(sorted(self.by_table.values(), key=lambda each: (each.event_id, each.table))),
            self.target_txn,
            tuple(self.touched),
        )

    def check(self) -> None:
        """Assert that allocations and touched partitions agree, and that event ids are in order."""
        assert self.first_event_id <= self.last_event_id, self
        assert all(table == allocation.table for table, allocation in self.by_table.items()), self
        assert self.concurrent.keys() <= self.by_table.keys(), self
        assert all(
            ids and ids[-1] < self.by_table[table].write_id for table, ids in self.concurrent.items()
        ), self
        assert all(touched.write_id <= self.by_table[touched.table].write_id for touched in self.touched), (
            self
        )


@dataclass(slots=True)
class TableWriteIds:
    """The write ids of one source table, tracked from events alone.

    The source allocates the write ids of a table consecutively. The high-water mark and the open ids are
    therefore all that replay needs. Every other id is committed, aborted, or replaced by a reallocation.
    ``open`` maps a write id to its source transaction.

    The mapping forgets aborted ids, because there may be thousands for each table and nothing depends on
    them: none of their files is on the target, and Hive's own cleaner forgets a replayed abort within
    seconds.
    """

    high_water_mark: int = 0
    open: dict[int, int] = field(default_factory=dict)

    def to_valid_write_ids(self, table: str) -> ValidWriteIds:
        """Return the list at this point of the log, in which aborted ids count as committed."""
        return ValidWriteIds(table, self.high_water_mark, tuple(sorted(self.open)))

    def check(self) -> None:
        """Assert that ids are between 1 and the mark."""
        assert self.high_water_mark >= 0, self
        assert all(1 <= write_id <= self.high_water_mark for write_id in self.open), self
