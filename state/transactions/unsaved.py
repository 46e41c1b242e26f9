"""What of a ledger the store does not hold yet: the difference, so that a flush writes what changed and nothing else.

A transaction that comes and goes between two flushes leaves no trace in the store but its tables' high-water marks. Markers
are the keys with an empty value (touched partitions, aborted ids).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from state.transactions.records import table_key, table_value, txn_key, txn_value


if TYPE_CHECKING:
    from collections.abc import Mapping

    from state.store import Transaction
    from state.transactions.source_txns import OpenTxn
    from state.transactions.table_ids import TableWriteIds


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
