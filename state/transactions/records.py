"""How the ledger lies in a store: keys and values.

============================================ ==================================================================
key                                          value
============================================ ==================================================================
``txn/`` + txn id                            format byte, JSON ``[first event, last event, [[table, write id, event], …],
                                             target txn, writes seen]``
``txn-touched/`` + txn id, write id, table,   empty: that it is there is what it says
partition
``write-ids/`` + table                       format byte, JSON ``[high-water mark]``
``write-ids-aborted/`` + table, write id     empty
============================================ ==================================================================

Ids are 8 bytes big-endian, so key order is numeric order; a table ends with a zero byte, which no name holds. Entries that
come and go one by one (touched partitions, aborted ids) have keys of their own: a flush writes what changed, however large
the transaction or the table's history is. Open ids are not stored twice: they are the allocations of the transactions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from state.errors import BadInput, LimitExceeded
from state.transactions.open_transactions import Allocation, OpenTxn, Touched


if TYPE_CHECKING:
    from collections.abc import Mapping

    from state.store import Transaction
    from state.transactions.open_transactions import TableWriteIds


TXN: Final = b"txn/"
TOUCHED: Final = b"txn-touched/"
TABLE: Final = b"write-ids/"
ABORTED: Final = b"write-ids-aborted/"

NAME_BYTES_MAX: Final = 4000
"""Of ``db.tbl`` and of a partition's name in UTF-8, so that both fit into a key; Hive's own limits are 257 and 767 characters."""

_FORMAT: Final = b"\x01"


def txn_key(txn_id: int) -> bytes:
    """Return the key of a transaction's record."""
    return TXN + _id(txn_id)


def touched_prefix(txn_id: int) -> bytes:
    """Return what the keys of all partitions touched by a transaction start with."""
    return TOUCHED + _id(txn_id)


def touched_key(txn_id: int, touched: Touched) -> bytes:
    """Return the key of one touched partition; raise LimitExceeded where a name is too long."""
    return b"".join(
        (touched_prefix(txn_id), _id(touched.write_id), _name(touched.table), _text(touched.partition_name))
    )


def table_key(table: str) -> bytes:
    """Return the key of a table's record."""
    return TABLE + _name(table)


def aborted_prefix(table: str) -> bytes:
    """Return what the keys of all aborted ids of a table start with."""
    return ABORTED + _name(table)


def aborted_key(table: str, write_id: int) -> bytes:
    """Return the key of one aborted write id."""
    return aborted_prefix(table) + _id(write_id)


def txn_value(txn: OpenTxn) -> bytes:
    """Return the record of a transaction, without what it touched."""
    return _FORMAT + orjson.dumps(
        [
            txn.first_event_id,
            txn.last_event_id,
            [list(allocation) for allocation in txn.by_table.values()],
            txn.target_txn,
            txn.writes_seen,
        ]
    )


def table_value(high_water_mark: int) -> bytes:
    """Return the record of a table, without its open and aborted ids."""
    return _FORMAT + orjson.dumps([high_water_mark])


def read_txn(key: bytes, value: bytes) -> OpenTxn:
    """Read a transaction's record; raise ValueError or TypeError where it is none (``book`` makes it StateCorrupt)."""
    first_event_id, last_event_id, allocations, target_txn, writes_seen = _json(value)
    by_table = {table: Allocation(table, write_id, event_id) for table, write_id, event_id in allocations}
    (txn_id,) = _ids(key[len(TXN) :], 1)
    return OpenTxn(txn_id, first_event_id, last_event_id, by_table, target_txn, writes_seen=writes_seen)


def read_touched(key: bytes) -> tuple[int, Touched]:
    """Read a touched partition's key as (txn id, what was touched); raises as ``read_txn``."""
    ids, names = key[len(TOUCHED) : len(TOUCHED) + 16], key[len(TOUCHED) + 16 :]
    txn_id, write_id = _ids(ids, 2)
    table, _, partition_name = names.partition(b"\x00")
    return txn_id, Touched(table.decode(), write_id, partition_name.decode())


def read_table(key: bytes, value: bytes) -> tuple[str, int]:
    """Read a table's record as (table, high-water mark); raises as ``read_txn``."""
    (high_water_mark,) = _json(value)
    return key[len(TABLE) : -1].decode(), high_water_mark


def read_aborted(key: bytes) -> tuple[str, int]:
    """Read an aborted id's key as (table, write id); raises as ``read_txn``."""
    (write_id,) = _ids(key[-8:], 1)
    return key[len(ABORTED) : -9].decode(), write_id


def _json(value: bytes) -> list[Any]:
    if value[:1] != _FORMAT:
        raise ValueError(f"format {value[:1].hex()} is unknown")
    decoded = orjson.loads(value[1:])
    if not isinstance(decoded, list):
        raise TypeError("not a list")
    return decoded


def _ids(packed: bytes, count: int) -> tuple[int, ...]:
    if len(packed) != 8 * count:
        raise ValueError("an id is cut short")
    return tuple(int.from_bytes(packed[at : at + 8], "big") for at in range(0, len(packed), 8))


def _id(number: int) -> bytes:
    return number.to_bytes(8, "big")


def _name(table: str) -> bytes:
    return _text(table) + b"\x00"


def _text(name: str) -> bytes:
    try:
        encoded = name.encode()
    except UnicodeEncodeError as error:
        raise BadInput("a name is not valid Unicode", name=repr(name)[:100]) from error
    if b"\x00" in encoded:
        raise BadInput("a name holds a zero byte", name=repr(name)[:100])
    if len(encoded) > NAME_BYTES_MAX:
        raise LimitExceeded("a name is too long", name=name[:100], limit_bytes=NAME_BYTES_MAX)
    return encoded


@dataclass(slots=True)
class Unsaved:
    """``txns`` and ``tables`` changed since the last flush; ``stored_…`` are those that the store has a record of.

    ``markers`` maps a key to True (ours, not in the store yet) or False (in the store, not ours any more).
    """

    txns: set[int] = field(default_factory=set)
    tables: set[str] = field(default_factory=set)
    stored_txns: set[int] = field(default_factory=set)
    stored_tables: set[str] = field(default_factory=set)
    markers: dict[bytes, bool] = field(default_factory=dict)

    def marker_added(self, key: bytes) -> None:
        """Note a marker that was not there; one whose removal is still unsaved is simply kept."""
        if key in self.markers:
            assert self.markers.pop(key) is False, key
        else:
            self.markers[key] = True

    def marker_removed(self, key: bytes) -> None:
        """Note that a marker is gone; one that was never saved leaves no trace."""
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
        self.txns.clear()
        self.tables.clear()
        self.markers.clear()

    def _write_txn(self, transaction: Transaction, txn_id: int, txn: OpenTxn | None) -> None:
        if txn is not None:
            transaction.put(txn_key(txn_id), txn_value(txn))
            self.stored_txns.add(txn_id)
        elif txn_id in self.stored_txns:
            transaction.delete(txn_key(txn_id))
            self.stored_txns.discard(txn_id)

    def _write_table(self, transaction: Transaction, table: str, ids: TableWriteIds | None) -> None:
        if ids is not None:
            transaction.put(table_key(table), table_value(ids.high_water_mark))
            self.stored_tables.add(table)
        elif table in self.stored_tables:
            transaction.delete(table_key(table))
            self.stored_tables.discard(table)
