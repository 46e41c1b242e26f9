"""The entries of the write-id mapping:
source transactions, tables, and which write id belongs to which transaction.

The operations keep the entries consistent with each other and track the difference from the store.
``write_id_mapping`` has the rules (meaning of events, and contradictions).

Invariant (``check``): every open write id of a table is the allocation of exactly one remembered transaction,
and every allocation is an open write id of its table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from state.errors import StateCorrupt
from state.store import Reader, Transaction, prefix_end
from state.transactions import records
from state.transactions.open_transactions import (
    CONCURRENT_MAX,
    GONE,
    Allocation,
    OpenTxn,
    TableWriteIds,
    Touched,
)
from state.transactions.records import UnsavedChanges
from state.transactions.valid_write_ids import ValidWriteIds


@dataclass(slots=True)
class MappingEntries:
    """Open source transactions by id, and tables by ``db.tbl``."""

    txns: dict[int, OpenTxn] = field(default_factory=dict)
    tables: dict[str, TableWriteIds] = field(default_factory=dict)
    unsaved: UnsavedChanges = field(default_factory=UnsavedChanges)

    def hold(self, txn_id: int, allocation: Allocation) -> None:
        """Give an allocated write id to a transaction, in place of the id that it held for the same table."""
        table, write_id, event_id = allocation
        txn = self.txns.setdefault(txn_id, OpenTxn(txn_id, event_id, event_id))
        ids = self.tables.setdefault(table, TableWriteIds())
        if table in txn.by_table:
            del ids.open[txn.by_table[table].write_id]
        self.set_concurrent(txn, table, sorted(each for each in ids.open if each < write_id))
        ids.open[write_id] = txn_id
        ids.high_water_mark = max(ids.high_water_mark, write_id)
        txn.by_table[table] = allocation
        txn.last_event_id = max(txn.last_event_id, event_id)
        self.mark_changed(txn_id)
        self.unsaved.tables.add(table)

    def set_concurrent(self, txn: OpenTxn, table: str, lower: Sequence[int]) -> None:
        """Set the write ids of a table, in ascending order, that are lower than a transaction's own and
        concurrent with it.
        """
        if lower:
            txn.concurrent[table] = tuple(lower[-CONCURRENT_MAX:])
        else:
            txn.concurrent.pop(table, None)
        self.mark_changed(txn.txn_id)

    def mark_changed(self, txn_id: int) -> None:
        """Note that a transaction's record has changed."""
        self.unsaved.txns.add(txn_id)

    def touch(self, txn: OpenTxn, touched: Touched) -> None:
        """Add a touched partition; raise BadInput for a name that does not fit the store."""
        if touched not in txn.touched:
            self.unsaved.add_marker(records.encode_touched_key(txn.txn_id, touched))
            txn.touched[touched] = None

    def untouch(self, txn: OpenTxn, touched: Touched) -> None:
        """Remove a touched partition."""
        self.unsaved.remove_marker(records.encode_touched_key(txn.txn_id, touched))
        del txn.touched[touched]

    def abort(self, table: str, write_id: int) -> None:
        """End an open write id of an aborted transaction.

        Forgets a table whose only write id ever belonged to the aborted transaction. Such a table is that of
        a failed CREATE TABLE AS SELECT, which no DROP_TABLE follows, or a new table, whose next write id
        starts the record.
        """
        ids = self.tables[table]
        del ids.open[write_id]
        if ids.high_water_mark == 1:
            del self.tables[table]
            self.unsaved.tables.add(table)

    def forget_txn(self, txn: OpenTxn) -> None:
        """Remove a transaction whose write ids are no longer open."""
        for touched in tuple(txn.touched):
            self.unsaved.remove_marker(records.encode_touched_key(txn.txn_id, touched))
        del self.txns[txn.txn_id]
        self.mark_changed(txn.txn_id)

    def adopt_table(self, valid: ValidWriteIds) -> None:
        """Add an unknown table with the high-water mark of a write-id list, without its open ids."""
        assert valid.table not in self.tables, valid.table
        self.tables[valid.table] = TableWriteIds(valid.high_water_mark)
        self.unsaved.tables.add(valid.table)

    def forget_table(self, table: str, current: str = GONE) -> None:
        """Remove a dropped table, or one with ``current`` as its name now; its open transactions stay,
        without their allocations in it.
        """
        ids = self.tables.pop(table, None)
        if ids is None:
            return
        self.unsaved.tables.add(table)
        for write_id, txn_id in ids.open.items():
            txn = self.txns[txn_id]
            del txn.by_table[table]
            txn.concurrent.pop(table, None)
            txn.move(table, write_id, current)
            self.mark_changed(txn_id)
            for touched in select_touched(txn, table):
                self.untouch(txn, touched)

    def flush(self, transaction: Transaction) -> None:
        """Write the changes since the last flush."""
        self.unsaved.flush(transaction, self.txns, self.tables)

    @staticmethod
    def load(reader: Reader) -> MappingEntries:
        """Read the output of ``flush``; raise StateCorrupt if it is unreadable or breaks the invariant."""
        entries = MappingEntries()
        try:
            entries._read_tables(reader)
            entries._read_txns(reader)
            entries.unsaved.stored_txns.update(entries.txns)
            entries.unsaved.stored_tables.update(entries.tables)
            entries.check()
        except (AssertionError, KeyError, ValueError, TypeError) as error:
            raise StateCorrupt(
                "the stored transactions contradict each other",
                reason=repr(error)[:300],
                hint="Bootstrap the policy again.",
            ) from error
        return entries

    def _read_tables(self, reader: Reader) -> None:
        for key, value in reader.scan(records.TABLE, prefix_end(records.TABLE)):
            table, high_water_mark = records.decode_table(key, value)
            self.tables[table] = TableWriteIds(high_water_mark)
        self.unsaved.has_aborted = any(True for _ in records.scan_aborted(reader, 1))

    def _read_txns(self, reader: Reader) -> None:
        for key, value in reader.scan(records.TXN, prefix_end(records.TXN)):
            txn = records.decode_txn(key, value)
            self.txns[txn.txn_id] = txn
            for table, write_id, _ in txn.by_table.values():
                self.tables[table].open[write_id] = txn.txn_id
        for key, _ in reader.scan(records.TOUCHED, prefix_end(records.TOUCHED)):
            txn_id, touched = records.decode_touched(key)
            self.txns[txn_id].touched[touched] = None
        for key, value in reader.scan(records.CONCURRENT, prefix_end(records.CONCURRENT)):
            self._read_concurrent(*records.decode_concurrent(key, value))

    def _read_concurrent(self, txn_id: int, concurrent: Sequence[tuple[str, int, Sequence[int]]]) -> None:
        """Take over those facts of a record that still hold: older versions do not update it when they change
        or end the transaction.
        """
        self.unsaved.stored_concurrent.add(txn_id)
        txn = self.txns.get(txn_id)
        if txn is None:
            self.unsaved.txns.add(txn_id)
            return
        for table, write_id, lower in concurrent:
            allocation = txn.by_table.get(table)
            if allocation is not None and allocation.write_id == write_id:
                txn.concurrent[table] = tuple(lower)

    def check(self) -> None:
        """Assert the invariant of the module, and the invariants of every entry."""
        allocations = {
            (a.table, a.write_id): txn.txn_id for txn in self.txns.values() for a in txn.by_table.values()
        }
        opened = {(table, w): txn_id for table, ids in self.tables.items() for w, txn_id in ids.open.items()}
        assert allocations == opened, (allocations, opened)
        assert sum(len(txn.by_table) for txn in self.txns.values()) == len(allocations), (
            "one write id belongs to two transactions"
        )
        for ids in self.tables.values():
            ids.check()
        for txn_id, txn in self.txns.items():
            assert txn.txn_id == txn_id, txn
            txn.check()
        self.unsaved.check(self.txns, self.tables)


def select_touched(txn: OpenTxn, table: str) -> tuple[Touched, ...]:
    """Return the touched partitions of one table."""
    return tuple(touched for touched in txn.touched if touched.table == table)
