"""What is remembered of one source transaction while it is open.

The values that callers see are frozen; ``OpenTxn`` is the ledger's own mutable form, so that a transaction that touches a
hundred thousand partitions costs one small entry per partition and not a copy of all of them.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from state.transactions.valid_write_ids import ValidWriteIds


class Allocation(NamedTuple):
    """``write_id`` of ``table`` (``db.tbl``), drawn in event ``event_id``."""

    table: str
    write_id: int
    event_id: int


class Touched(NamedTuple):
    """A partition that was added or altered under ``write_id`` and for which no write event was seen yet."""

    table: str
    write_id: int
    partition_name: str


@dataclass(frozen=True, slots=True)
class SourceTxn:
    """A source transaction that writes into tables in scope; ``allocations`` has one entry per table, in event order.

    ``first_event_id`` is its first ALLOC_WRITE_ID in scope, not its OPEN_TXN. ``touched`` shrinks as write events are
    seen. ``writes_seen`` counts them; 0 at the commit of a transaction with allocations may mean that the source runs
    without ``hive.metastore.dml.events``.
    """

    txn_id: int
    first_event_id: int
    allocations: tuple[Allocation, ...] = ()
    target_txn: int | None = None
    touched: tuple[Touched, ...] = ()
    writes_seen: int = 0


@dataclass(slots=True)
class OpenTxn:
    """The ledger's entry; ``last_event_id`` is the latest event that allocated for it, ``touched`` an ordered set."""

    txn_id: int
    first_event_id: int
    last_event_id: int
    by_table: dict[str, Allocation] = field(default_factory=dict)
    target_txn: int | None = None
    touched: dict[Touched, None] = field(default_factory=dict)
    writes_seen: int = 0

    def value(self) -> SourceTxn:
        """Return what callers may see of it."""
        return SourceTxn(
            self.txn_id,
            self.first_event_id,
            tuple(sorted(self.by_table.values(), key=_event_then_table)),
            self.target_txn,
            tuple(self.touched),
            self.writes_seen,
        )


def _event_then_table(allocation: Allocation) -> tuple[int, str]:
    return allocation.event_id, allocation.table


ABORTED_MAX: Final = 10_000
"""Aborted ids remembered per table; beyond, the lowest are forgotten.

Forgetting one is harmless: it then reads as committed and holds no files on the target, which is what Hive's own cleaner
makes of a replayed abort within seconds.
"""


@dataclass(slots=True)
class TableWriteIds:
    """``open`` maps a write id to its source transaction; ``aborted`` ascends."""

    high_water_mark: int = 0
    open: dict[int, int] = field(default_factory=dict)
    aborted: list[int] = field(default_factory=list)

    def abort(self, write_id: int) -> int | None:
        """Turn an open id into an aborted one; return the id that is forgotten for it, if any."""
        del self.open[write_id]
        insort(self.aborted, write_id)
        return self.aborted.pop(0) if len(self.aborted) > ABORTED_MAX else None

    def valid(self, table: str) -> ValidWriteIds:
        """Return the list that the source's readers get at this point of the log."""
        return ValidWriteIds(table, self.high_water_mark, tuple(sorted(self.open)), tuple(self.aborted))

    def check(self) -> None:
        """Assert: no id above the mark, none twice, no more aborted ones than are remembered."""
        assert self.high_water_mark >= 0, self
        assert self.aborted == sorted(set(self.aborted)), self
        assert len(self.aborted) <= ABORTED_MAX, len(self.aborted)
        assert self.open.keys().isdisjoint(self.aborted), self
        assert all(1 <= write_id <= self.high_water_mark for write_id in (*self.open, *self.aborted)), self
