"""The write-id mapping in a store: keys, values, and unsaved changes.

============================================ ================================================================
key                                          value
============================================ ================================================================
``txn/`` + txn id                            format byte, JSON ``[first event, last event,
                                             [[table, write id, event], …], target txn,
                                             [[table, write id, current name], …] or 0]``
``txn-touched/`` + txn id, write id, table,  empty: only the key's presence counts
partition
``txn-concurrent/`` + txn id                 format byte, JSON ``[[table, write id, [lower write id, …]],
                                             …]``; only if there are some
``write-ids/`` + table                       format byte, JSON ``[high-water mark]``
``write-ids-aborted/`` + table, write id     written by older versions, and removed step by step
============================================ ================================================================

Ids are 8 bytes big-endian, so key order is numeric order. A table ends with a zero byte, which no name
contains. Touched partitions come and go one by one. Each has its own key: a flush writes the changes, however
large the transaction is. Open ids have no separate records: they are the allocations of the transactions.

The last field of a transaction has the tables renamed or dropped after the allocation. It was once a count of
write events, and older versions ignore it; every version of Tideline reads the records of every other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import orjson

from state.errors import BadInput, LimitExceeded
from state.store import Reader, Transaction, prefix_end
from state.transactions.open_transactions import Allocation, OpenTxn, TableWriteIds, Touched


TXN: Final = b"txn/"
TOUCHED: Final = b"txn-touched/"
CONCURRENT: Final = b"txn-concurrent/"
TABLE: Final = b"write-ids/"
ABORTED: Final = b"write-ids-aborted/"

ABORTED_STEP: Final = 10_000
"""Aborted ids of an older version that one flush removes."""

NAME_BYTES_MAX: Final = 4000
"""Limit of ``db.tbl`` and of a partition name in UTF-8; both fit into a key. Hive's limits are 257 and 767
characters."""

_FORMAT: Final = b"\x01"


def encode_txn_key(txn_id: int) -> bytes:
    """Return the key of a transaction's record."""
    return TXN + _encode_id(txn_id)


def encode_touched_key(txn_id: int, touched: Touched) -> bytes:
    """Return the key of one touched partition; raise LimitExceeded if a name is too long."""
    return b"".join(
        (
            TOUCHED,
            _encode_id(txn_id),
            _encode_id(touched.write_id),
            _encode_table(touched.table),
            _encode_name(touched.partition_name),
        )
    )


def encode_concurrent_key(txn_id: int) -> bytes:
    """Return the key of a transaction's concurrent write ids."""
    return CONCURRENT + _encode_id(txn_id)


def encode_concurrent(txn: OpenTxn) -> bytes:
    """Return the record of a transaction's concurrent write ids."""
    concurrent = [[table, txn.by_table[table].write_id, ids] for table, ids in txn.concurrent.items()]
    return _FORMAT + orjson.dumps(concurrent)


def decode_concurrent(key: bytes, value: bytes) -> tuple[int, list[tuple[str, int, list[int]]]]:
    """Read a transaction's concurrent write ids as (txn id, [(table,
    its write id, concurrent ones)]); raises as ``decode_txn``.
    """
    (txn_id,) = _decode_ids(key[len(CONCURRENT) :], 1)
    return txn_id, [(table, write_id, ids) for table, write_id, ids in _decode_list(value)]


def encode_table_key(table: str) -> bytes:
    """Return the key of a table's record."""
    return TABLE + _encode_table(table)


def encode_txn(txn: OpenTxn) -> bytes:
    """Return the record of a transaction, without its touched partitions."""
    allocations = [list(allocation) for allocation in txn.by_table.values()]
    moved = [[*key, name] for key, name in txn.moved.items()] or 0
    return _FORMAT + orjson.dumps([txn.first_event_id, txn.last_event_id, allocations, txn.target_txn, moved])


def encode_table(high_water_mark: int) -> bytes:
    """Return the record of a table, without its open and aborted ids."""
    return _FORMAT + orjson.dumps([high_water_mark])


def decode_txn(key: bytes, value: bytes) -> OpenTxn:
    """Read a transaction's record.

    Raises ValueError or TypeError for an invalid record; ``mapping_entries`` turns these into StateCorrupt.
    """
    first_event_id, last_event_id, allocations, target_txn, last = _decode_list(value)
    by_table = {table: Allocation(table, write_id, event_id) for table, write_id, event_id in allocations}
    (txn_id,) = _decode_ids(key[len(TXN) :], 1)
    moved = {(table, write_id): name for table, write_id, name in last} if isinstance(last, list) else {}
    return OpenTxn(txn_id, first_event_id, last_event_id, by_table, target_txn, moved=moved)


def decode_touched(key: bytes) -> tuple[int, Touched]:
    """Read a touched partition's key as (txn id, touched partition); raises as ``decode_txn``."""
    ids, names = key[len(TOUCHED) : len(TOUCHED) + 16], key[len(TOUCHED) + 16 :]
    txn_id, write_id = _decode_ids(ids, 2)
    table, _, partition_name = names.partition(b"\x00")
    return txn_id, Touched(table.decode(), write_id, partition_name.decode())


def decode_table(key: bytes, value: bytes) -> tuple[str, int]:
    """Read a table's record as (table, high-water mark); raises as ``decode_txn``."""
    (high_water_mark,) = _decode_list(value)
    return key[len(TABLE) : -1].decode(), high_water_mark


def scan_aborted(reader: Reader, most: int) -> Iterator[bytes]:
    """Yield at most ``most`` keys of aborted ids that an older version wrote."""
    return islice(reader.scan_keys(ABORTED, prefix_end(ABORTED)), most)


@dataclass(slots=True)
class UnsavedChanges:
    """The difference between the mapping and the store: a flush writes these changes and nothing else.

    ``txns`` and ``tables`` changed since the last flush; ``stored_txns``, ``stored_concurrent`` and
    ``stored_tables`` have a record in the store. ``markers`` are the keys with an empty value (touched
    partitions): True means present in memory but not in the store, False the reverse. ``has_aborted`` says
    that the store has aborted ids of an older version, which each flush removes a part of. A transaction that
    begins and ends between two flushes leaves no trace in the store but its tables' high-water marks.
    """

    txns: set[int] = field(default_factory=set)
    tables: set[str] = field(default_factory=set)
    stored_txns: set[int] = field(default_factory=set)
    stored_concurrent: set[int] = field(default_factory=set)
    stored_tables: set[str] = field(default_factory=set)
    markers: dict[bytes, bool] = field(default_factory=dict)
    has_aborted: bool = False

    def add_marker(self, key: bytes) -> None:
        """Note a new marker; it cancels an unsaved removal."""
        if key in self.markers:
            assert self.markers.pop(key) is False, key
        else:
            self.markers[key] = True

    def remove_marker(self, key: bytes) -> None:
        """Note the removal of a marker; it cancels an unsaved marker."""
        if key in self.markers:
            assert self.markers.pop(key) is True, key
        else:
            self.markers[key] = False

    def flush(
        self, transaction: Transaction, txns: Mapping[int, OpenTxn], tables: Mapping[str, TableWriteIds]
    ) -> None:
        """Write the difference and forget it."""
        for txn_id in self.txns:
            self._write_txn(transaction, txn_id, txns.get(txn_id))
        for table in self.tables:
            self._write_table(transaction, table, tables.get(table))
        for key, present in self.markers.items():
            if present:
                transaction.put(key, b"")
            else:
                transaction.delete(key)
        if self.has_aborted:
            aborted = list(scan_aborted(transaction, ABORTED_STEP))
            for key in aborted:
                transaction.delete(key)
            self.has_aborted = len(aborted) == ABORTED_STEP
        self.txns.clear()
        self.tables.clear()
        self.markers.clear()

    def check(self, txns: Mapping[int, OpenTxn], tables: Mapping[str, TableWriteIds]) -> None:
        """Assert that the changes include everything unstored, and everything stored but gone."""
        assert txns.keys() ^ self.stored_txns <= self.txns, (txns.keys(), self.stored_txns, self.txns)
        assert tables.keys() ^ self.stored_tables <= self.tables, (tables.keys(), self.stored_tables)

    def _write_txn(self, transaction: Transaction, txn_id: int, txn: OpenTxn | None) -> None:
        if txn is not None:
            transaction.put(encode_txn_key(txn_id), encode_txn(txn))
            self.stored_txns.add(txn_id)
        elif txn_id in self.stored_txns:
            transaction.delete(encode_txn_key(txn_id))
            self.stored_txns.discard(txn_id)
        self._write_concurrent(transaction, txn_id, txn)

    def _write_concurrent(self, transaction: Transaction, txn_id: int, txn: OpenTxn | None) -> None:
        if txn is not None and txn.concurrent:
            transaction.put(encode_concurrent_key(txn_id), encode_concurrent(txn))
            self.stored_concurrent.add(txn_id)
        elif txn_id in self.stored_concurrent:
            transaction.delete(encode_concurrent_key(txn_id))
            self.stored_concurrent.discard(txn_id)

    def _write_table(self, transaction: Transaction, table: str, ids: TableWriteIds | None) -> None:
        if ids is not None:
            transaction.put(encode_table_key(table), encode_table(ids.high_water_mark))
            self.stored_tables.add(table)
        elif table in self.stored_tables:
            transaction.delete(encode_table_key(table))
            self.stored_tables.discard(table)


def _decode_list(value: bytes) -> list[Any]:
    if value[:1] != _FORMAT:
        raise ValueError(f"unknown format {value[:1].hex()}")
    decoded = orjson.loads(value[1:])
    if not isinstance(decoded, list):
        raise TypeError("not a list")
    return decoded


def _decode_ids(packed: bytes, count: int) -> tuple[int, ...]:
    if len(packed) != 8 * count:
        raise ValueError("truncated id")
    return tuple(int.from_bytes(packed[at : at + 8], "big") for at in range(0, len(packed), 8))


def _encode_id(number: int) -> bytes:
    return number.to_bytes(8, "big")


def _encode_table(table: str) -> bytes:
    return _encode_name(table) + b"\x00"


def _encode_name(name: str) -> bytes:
    try:
        encoded = name.encode()
    except UnicodeEncodeError as error:
        raise BadInput("the name is not valid Unicode", name=repr(name)[:100]) from error
    if b"\x00" in encoded:
        raise BadInput("the name contains a zero byte", name=repr(name)[:100])
    if len(encoded) > NAME_BYTES_MAX:
        raise LimitExceeded("the name is too long", name=name[:100], limit_bytes=NAME_BYTES_MAX)
    return encoded
