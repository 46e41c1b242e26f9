"""The entries of the ledger, in memory and in the store: source transactions, tables, and what belongs to which.

Its operations keep the entries consistent with each other and note what the store does not hold yet. They know no rules: what
an event means, and what contradicts what, is ``ledger``'s.

Invariant (``check``): every open write id of a table is the allocation of exactly one remembered transaction, and every
allocation is an open write id of its table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from state.errors import StateCorrupt
from state.store import Reader, Transaction, prefix_end
from state.transactions import records
from state.transactions.open_transactions import ABORTED_MAX, Allocation, OpenTxn, TableWriteIds, Touched
from state.transactions.records import Unsaved


if TYPE_CHECKING:
    from state.transactions.valid_write_ids import ValidWriteIds


@dataclass(slots=True)
class Book:
    """Open source transactions by id, and tables by ``db.tbl``."""

    txns: dict[int, OpenTxn] = field(default_factory=dict)
    tables: dict[str, TableWriteIds] = field(default_factory=dict)
    unsaved: Unsaved = field(default_factory=Unsaved)

    def hold(self, txn_id: int, allocation: Allocation) -> None:
        """Give a transaction the write id that it drew; one that it held of that table before is given up."""
        table, write_id, event_id = allocation
        txn = self.txns.setdefault(txn_id, OpenTxn(txn_id, event_id, event_id))
        ids = self.tables.setdefault(table, TableWriteIds())
        if table in txn.by_table:
            del ids.open[txn.by_table[table].write_id]
        ids.open[write_id] = txn_id
        ids.high_water_mark = max(ids.high_water_mark, write_id)
        txn.by_table[table] = allocation
        txn.last_event_id = max(txn.last_event_id, event_id)
        self.changed(txn_id)
        self.unsaved.tables.add(table)

    def changed(self, txn_id: int) -> None:
        """Note that a transaction's record has to be written."""
        self.unsaved.txns.add(txn_id)

    def touch(self, txn: OpenTxn, touched: Touched) -> None:
        """Add a touched partition; raises BadInput where its name cannot be stored."""
        if touched not in txn.touched:
            self.unsaved.marker_added(records.touched_key(txn.txn_id, touched))
            txn.touched[touched] = None

    def untouch(self, txn: OpenTxn, touched: Touched) -> None:
        """Remove a touched partition; one that is not there is no error."""
        if touched in txn.touched:
            self.unsaved.marker_removed(records.touched_key(txn.txn_id, touched))
            del txn.touched[touched]

    def abort(self, table: str, write_id: int) -> None:
        """Turn an open write id into an aborted one."""
        forgotten = self.tables[table].abort(write_id)
        self.unsaved.marker_added(records.aborted_key(table, write_id))
        if forgotten is not None:
            self.unsaved.marker_removed(records.aborted_key(table, forgotten))

    def forget_txn(self, txn: OpenTxn) -> None:
        """Remove a transaction whose write ids are not open any more."""
        for touched in tuple(txn.touched):
            self.unsaved.marker_removed(records.touched_key(txn.txn_id, touched))
        del self.txns[txn.txn_id]
        self.changed(txn.txn_id)

    def adopt(self, valid: ValidWriteIds) -> None:
        """Start a table from a list, without its open ids; nothing may be known of it."""
        assert valid.table not in self.tables, valid.table
        aborted = list(valid.aborted[-ABORTED_MAX:])
        self.tables[valid.table] = TableWriteIds(valid.high_water_mark, aborted=aborted)
        self.unsaved.tables.add(valid.table)
        for write_id in aborted:
            self.unsaved.marker_added(records.aborted_key(valid.table, write_id))

    def forget_table(self, table: str) -> None:
        """Remove a table; its transactions stay, with one table less."""
        ids = self.tables.pop(table, None)
        if ids is None:
            return
        self.unsaved.tables.add(table)
        for write_id in ids.aborted:
            self.unsaved.marker_removed(records.aborted_key(table, write_id))
        for txn_id in ids.open.values():
            txn = self.txns[txn_id]
            del txn.by_table[table]
            self.changed(txn_id)
            for touched in touched_of(txn, table):
                self.untouch(txn, touched)

    def flush(self, transaction: Transaction) -> None:
        """Write what changed since the last flush."""
        self.unsaved.flush(transaction, self.txns, self.tables)

    @staticmethod
    def load(reader: Reader) -> Book:
        """Read what ``flush`` wrote; raise StateCorrupt where it cannot be read or breaks the invariant."""
        book = Book()
        try:
            book._read_tables(reader)
            book._read_txns(reader)
            book.check()
        except (AssertionError, KeyError, ValueError, TypeError) as error:
            raise StateCorrupt(
                "the remembered transactions contradict each other",
                reason=repr(error)[:300],
                hint="Bootstrap the policy anew.",
            ) from error
        book.unsaved.stored_txns.update(book.txns)
        book.unsaved.stored_tables.update(book.tables)
        return book

    def _read_tables(self, reader: Reader) -> None:
        for key, value in reader.scan(records.TABLE, prefix_end(records.TABLE)):
            table, high_water_mark = records.read_table(key, value)
            self.tables[table] = TableWriteIds(high_water_mark)
        for key, _ in reader.scan(records.ABORTED, prefix_end(records.ABORTED)):
            table, write_id = records.read_aborted(key)
            self.tables[table].aborted.append(write_id)

    def _read_txns(self, reader: Reader) -> None:
        for key, value in reader.scan(records.TXN, prefix_end(records.TXN)):
            txn = records.read_txn(key, value)
            self.txns[txn.txn_id] = txn
            for table, write_id, _ in txn.by_table.values():
                self.tables[table].open[write_id] = txn.txn_id
        for key, _ in reader.scan(records.TOUCHED, prefix_end(records.TOUCHED)):
            txn_id, touched = records.read_touched(key)
            self.txns[txn_id].touched[touched] = None

    def check(self) -> None:
        """Assert the invariant, and those of every entry."""
        held = {
            (a.table, a.write_id): txn.txn_id for txn in self.txns.values() for a in txn.by_table.values()
        }
        opened = {(table, w): txn_id for table, ids in self.tables.items() for w, txn_id in ids.open.items()}
        assert held == opened, (held, opened)
        assert sum(len(txn.by_table) for txn in self.txns.values()) == len(held), (
            "one write id, two transactions"
        )
        for ids in self.tables.values():
            ids.check()
        for txn_id, txn in self.txns.items():
            assert txn.txn_id == txn_id, txn
            assert all(table == allocation.table for table, allocation in txn.by_table.items()), txn
            assert all(t.write_id <= txn.by_table[t.table].write_id for t in txn.touched), txn
            assert txn.first_event_id <= txn.last_event_id, txn


def touched_of(txn: OpenTxn, table: str) -> tuple[Touched, ...]:
    """Return what a transaction touched of one table."""
    return tuple(touched for touched in txn.touched if touched.table == table)
