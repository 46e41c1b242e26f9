"""The partitions that open transactions of a source have added or altered, in bounded memory.

Hive omits write events of some partitions (reference: hive-replication.md §0c.2). A reader of the log can
find these partitions: their objects contain the write id of the transaction. The allocation assigns a write
id to a transaction, so both stay in memory here until the transaction ends.

Too many entries are not an error. Beyond ``partitions_max``, the record forgets the partitions of the
transaction that has the most; beyond ``txns_max`` transactions, it forgets the oldest transaction. ``end``
then says that the record is incomplete. A forgotten transaction may allocate again, so every transaction
first seen with an id up to that of a forgotten one counts as incomplete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


PARTITIONS_MAX: Final = 200_000
TXNS_MAX: Final = 50_000
ALLOCATIONS_MAX: Final = 1_000
"""Tables into which one transaction writes."""

Written = tuple[str, int]
"""A table (``db.tbl``) and a write id of it."""


@dataclass(frozen=True, slots=True)
class TouchedByTxn:
    """The changes of a transaction: for each table and write id the locations of the partitions by name."""

    complete: bool
    partitions: Mapping[Written, Mapping[str, str]] = field(default_factory=dict)


@dataclass(slots=True)
class _OpenTxn:
    first_event_id: int
    complete: bool = True
    count: int = 0
    partitions: dict[Written, dict[str, str]] = field(default_factory=dict)


class TouchedPartitions:
    """Partitions by open transaction; feed events in order. Not thread-safe."""

    def __init__(self, *, partitions_max: int = PARTITIONS_MAX, txns_max: int = TXNS_MAX) -> None:
        self._partitions_max, self._txns_max = partitions_max, txns_max
        self._txns: dict[int, _OpenTxn] = {}
        self._owners: dict[Written, int] = {}
        self._tables: Counter[str] = Counter()
        self._count = 0
        self._forgotten_up_to = -1
        """The highest id of a transaction forgotten before its end."""

    def __len__(self) -> int:
        """Return the number of recorded partitions."""
        return self._count

    @property
    def first_event_id(self) -> int | None:
        """The event id of the first allocation of all open transactions; reading the log from there on
        gives the same record again.
        """
        return next((txn.first_event_id for txn in self._txns.values()), None)

    def allocate(self, txn_id: int, table: str, write_id: int, event_id: int) -> None:
        """Record that a write id of ``table`` belongs to the transaction."""
        txn = self._txns.get(txn_id)
        if txn is None:
            txn = self._txns[txn_id] = _OpenTxn(event_id, complete=txn_id > self._forgotten_up_to)
        if len(txn.partitions) >= ALLOCATIONS_MAX and (table, write_id) not in txn.partitions:
            txn.complete = False
            return
        txn.partitions.setdefault((table, write_id), {})
        self._tables[table] += (table, write_id) not in self._owners
        self._owners[table, write_id] = txn_id
        if len(self._txns) > self._txns_max:
            oldest = next(iter(self._txns))
            self.end(oldest)
            self._forgotten_up_to = max(self._forgotten_up_to, oldest)

    def is_open(self, table: str) -> bool:
        """Whether an open transaction has a write id of ``table``."""
        return self._tables[table] > 0

    def touch(self, table: str, write_id: int, name: str, location: str) -> None:
        """Record a partition added or altered under ``write_id``; ignored if no open transaction owns the
        write id.
        """
        txn_id = self._owners.get((table, write_id))
        if txn_id is None:
            return
        txn = self._txns[txn_id]
        if not txn.complete:
            return
        locations = txn.partitions[table, write_id]
        added = name not in locations
        locations[name] = location
        txn.count += added
        self._count += added
        if self._count > self._partitions_max:
            self._forget_largest()

    def end(self, txn_id: int) -> TouchedByTxn:
        """Forget an ended transaction; return its changes."""
        txn = self._txns.pop(txn_id, None)
        if txn is None:
            return TouchedByTxn(complete=False)
        self._count -= txn.count
        for written in txn.partitions:
            if self._owners.get(written) == txn_id:
                del self._owners[written]
                self._tables[written[0]] -= 1
                if not self._tables[written[0]]:
                    del self._tables[written[0]]
        return TouchedByTxn(txn.complete, txn.partitions if txn.complete else {})

    def _forget_largest(self) -> None:
        largest = max(self._txns.values(), key=lambda txn: txn.count)
        self._count -= largest.count
        largest.count, largest.complete = 0, False
        for partitions in largest.partitions.values():
            partitions.clear()
