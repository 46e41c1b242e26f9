"""The write-id mapping: replication's memory of a source transaction between ALLOC_WRITE_ID and commit or
abort.

It receives events in order, for tables in scope (``db.tbl`` with the source's name at that event). It returns
the write ids of a transaction, its target transaction, the partitions that it touched, and the valid write-id
list of a table at this point of the log.

The mapping is in memory. ``flush`` writes only differences, into the caller's store transaction, and they
commit together with the position. After a failed store transaction the mapping in memory is invalid: load it
again.

The mapping ignores the opening of a transaction: most transactions only read, and nothing depends on it (the
first allocation in scope opens the target transaction). Every operation first refuses, then changes, so an
error leaves the mapping as it was. Do not pass in events at or below the recorded position, except those of
transactions that are still open.
"""

from __future__ import annotations

from itertools import islice

from state.errors import StateCorrupt, TargetDiverged
from state.store import Reader, Transaction
from state.transactions.mapping_entries import MappingEntries, select_touched
from state.transactions.open_transactions import Allocation, OpenTxn, SourceTxn, Touched
from state.transactions.valid_write_ids import ValidWriteIds


class WriteIdMapping:
    """Source transactions that write into tables in scope, and the write ids of these tables."""

    def __init__(self) -> None:
        self._entries = MappingEntries()

    def load(self, reader: Reader) -> None:
        """Replace the memory by the output of ``flush``; raise StateCorrupt if that contradicts itself."""
        self._entries = MappingEntries.load(reader)

    def flush(self, transaction: Transaction) -> None:
        """Write the changes since the last flush into the caller's store transaction."""
        self._entries.flush(transaction)

    def check(self) -> None:
        """Assert the invariants of the entries; see ``mapping_entries``."""
        self._entries.check()

    def __len__(self) -> int:
        """Return the number of source transactions that are open in scope."""
        return len(self._entries.txns)

    def __contains__(self, txn_id: object) -> bool:
        """Whether a transaction is open in scope."""
        return txn_id in self._entries.txns

    def get(self, txn_id: int) -> SourceTxn | None:
        """Return a transaction's entry; None if nothing of it is in scope.

        This copies the list of touched partitions: call it at the end of a transaction and not for each of
        its events.
        """
        txn = self._entries.txns.get(txn_id)
        return None if txn is None else txn.to_value()

    def holds(self, txn_id: int, table: str, write_id: int) -> bool:
        """Whether a transaction holds this write id of ``table``."""
        return self.find_write_id(txn_id, table) == write_id

    def find_write_id(self, txn_id: int, table: str) -> int | None:
        """Return the newest write id that a transaction holds in ``table``; None if it holds none."""
        txn = self._entries.txns.get(txn_id)
        allocation = None if txn is None else txn.by_table.get(table)
        return None if allocation is None else allocation.write_id

    def find_target_txn(self, txn_id: int) -> int | None:
        """Return the target transaction that stands for a source transaction; None without a link."""
        txn = self._entries.txns.get(txn_id)
        return None if txn is None else txn.target_txn

    def open_txns(self) -> tuple[int, ...]:
        """Return the ids of the open transactions."""
        return tuple(self._entries.txns)

    def tables(self) -> tuple[str, ...]:
        """Return the tables with known write ids, sorted."""
        return tuple(sorted(self._entries.tables))

    def valid_write_ids(self, table: str) -> ValidWriteIds | None:
        """Return the list of a table at this point of the source's log; None without a known write id.

        Aborted ids count as committed.
        """
        ids = self._entries.tables.get(table)
        return None if ids is None else ids.to_valid_write_ids(table)

    def list_valid_write_ids(self, tables_max: int) -> tuple[ValidWriteIds, ...]:
        """Return the lists of at most this number of tables, as ``valid_write_ids`` does."""
        tables = islice(self._entries.tables.items(), tables_max)
        return tuple(ids.to_valid_write_ids(table) for table, ids in tables)

    def high_water_mark(self, table: str) -> int:
        """Return the highest known write id of a table; 0 if there is none."""
        ids = self._entries.tables.get(table)
        return 0 if ids is None else ids.high_water_mark

    def held_write_ids(self, table: str) -> frozenset[tuple[int, int]]:
        """Return the open write ids of a table, each with its transaction."""
        ids = self._entries.tables.get(table)
        return frozenset() if ids is None else frozenset(ids.open.items())

    def find_concurrent(self, table: str, write_id: int) -> tuple[int, ...]:
        """Return the lower write ids of a table, at most ``CONCURRENT_MAX``, that were open at the allocation
        of the open ``write_id``.

        Its transaction does not see their rows. Empty for an id that is not open, and for one that an older
        version recorded.
        """
        ids = self._entries.tables.get(table)
        txn_id = None if ids is None else ids.open.get(write_id)
        return () if txn_id is None else self._entries.txns[txn_id].concurrent.get(table, ())

    def allocate(self, txn_id: int, table: str, write_id: int, event_id: int) -> Allocation | None:
        """Record the write id that a transaction allocated; return it, or None for a repeated event.

        A second, higher id for the same transaction and table replaces the first: the source compiled the
        query again and allocated again (``reallocate=true``), and the first id counts as committed without
        files.

        Raises StateCorrupt for a contradiction: the id belongs to another open transaction, is lower than one
        before, or skips ids while others of the table are open. The target would take such a jump for stale
        rows and forget the open ids (TxnHandler.allocateTableWriteIds). A jump in a table without open ids is
        legal: a load precedes it.
        """
        allocation = Allocation(table, write_id, event_id)
        if self._is_known(txn_id, allocation):
            return None
        ids = self._entries.tables.get(table)
        if ids is not None and ids.open and write_id > ids.high_water_mark + 1:
            raise _contradiction(
                "a write id skips ids while others of the table are open",
                txn_id=txn_id,
                event_id=event_id,
                table=table,
                write_id=write_id,
                expected=ids.high_water_mark + 1,
            )
        self._entries.hold(txn_id, allocation)
        return allocation

    def link_target_txn(self, txn_id: int, target_txn: int) -> None:
        """Record which target transaction stands for a source transaction that holds write ids.

        Raises TargetDiverged for a link to another one. Raises StateCorrupt if nothing of ``txn_id`` is in
        scope: the mapping would miss its end, and the target transaction would stay open.
        """
        txn = self._entries.txns.get(txn_id)
        if txn is None:
            raise _contradiction(
                "a target transaction replaces a source transaction without write ids", txn_id=txn_id
            )
        if txn.target_txn not in {None, target_txn}:
            raise TargetDiverged(
                "the target opened a second transaction for one source transaction",
                txn_id=txn_id,
                target_txn=target_txn,
                known_target_txn=txn.target_txn,
            )
        txn.target_txn = target_txn
        self._entries.mark_changed(txn_id)

    def touch_partition(self, table: str, write_id: int, partition_name: str) -> bool:
        """Record that ADD_PARTITION or ALTER_PARTITION(S) named
        a partition under ``write_id`` (in the partition object).

        Returns whether an open transaction holds that id; later statistics events name ids of old commits.
        Raises BadInput for a name that does not fit the store.
        """
        ids = self._entries.tables.get(table)
        txn_id = None if ids is None else ids.open.get(write_id)
        if txn_id is None:
            return False
        self._entries.touch(self._entries.txns[txn_id], Touched(table, write_id, partition_name))
        return True

    def commit(self, txn_id: int) -> SourceTxn | None:
        """Forget a transaction and make its write ids count; None if nothing of it is in scope."""
        txn = self._entries.txns.get(txn_id)
        if txn is None:
            return None
        for table, write_id, _ in txn.by_table.values():
            del self._entries.tables[table].open[write_id]
        return self._forget(txn)

    def abort(self, txn_id: int) -> SourceTxn | None:
        """Forget a transaction whose write ids never count; None if nothing of it is in scope."""
        txn = self._entries.txns.get(txn_id)
        if txn is None:
            return None
        for table, write_id, _ in txn.by_table.values():
            self._entries.abort(table, write_id)
        return self._forget(txn)

    def find_written_table(self, txn_id: int, table: str, write_id: int) -> str | None:
        """Return the current name of the table for which a
        transaction allocated ``write_id`` under the name ``table``.

        ``GONE`` if the table was dropped since; None if no known transaction holds that id.
        """
        txn = self._entries.txns.get(txn_id)
        if txn is None:
            return None
        allocation = txn.by_table.get(table)
        if allocation is not None and allocation.write_id == write_id:
            return table
        return txn.moved.get((table, write_id))

    def rename_table(self, old: str, new: str) -> None:
        """Carry a table's write ids and open allocations over to its new name.

        Forgets anything still known under the new name (write ids of a failed CREATE TABLE AS). Raises
        StateCorrupt if the new name has open write ids: the source cannot rename onto a table with writers.
        """
        ids = self._entries.tables.get(old)
        if ids is None or old == new:
            return
        if new in self._entries.tables and self._entries.tables[new].open:
            raise _contradiction(
                "a table is renamed to the name of a table that is being written", table=old, new_table=new
            )
        valid = ids.to_valid_write_ids(new)
        txns = [self._entries.txns[txn_id] for txn_id in ids.open.values()]
        moves = [(txn, txn.by_table[old]._replace(table=new), select_touched(txn, old)) for txn in txns]
        concurrent = [txn.concurrent.get(old, ()) for txn in txns]
        self._entries.forget_table(old, new)
        self._entries.forget_table(new)
        self._entries.adopt_table(valid)
        for txn, allocation, touched in moves:
            self._entries.hold(txn.txn_id, allocation)
            for entry in touched:
                self._entries.touch(txn, entry._replace(table=new))
        for txn, lower in zip(txns, concurrent, strict=True):
            self._entries.set_concurrent(txn, new, lower)

    def drop_table(self, table: str) -> None:
        """Forget a table: if the name comes back, its write ids start again.
        Its open transactions stay remembered.
        """
        self._entries.forget_table(table)

    def drop_database(self, db: str) -> None:
        """Forget every table of a database."""
        for table in self.tables():
            if table.partition(".")[0] == db:
                self._entries.forget_table(table)

    def adopt(self, table: str, other: WriteIdMapping) -> None:
        """Take over a table and its open transactions from a mapping of this table's events alone.

        Forgets earlier facts about the table, and keeps those about the transactions in other tables.
        """
        self._entries.forget_table(table)
        valid = other.valid_write_ids(table)
        if valid is None:
            return
        self._entries.adopt_table(valid)
        for txn in other._entries.txns.values():
            allocation = txn.by_table.get(table)
            if allocation is None:
                continue
            self._entries.hold(txn.txn_id, allocation)
            own = self._entries.txns[txn.txn_id]
            own.first_event_id = min(own.first_event_id, allocation.event_id)
            own.target_txn = txn.target_txn if own.target_txn is None else own.target_txn
            self._entries.set_concurrent(own, table, txn.concurrent.get(table, ()))
            for touched in select_touched(txn, table):
                self._entries.touch(own, touched)

    def _is_known(self, txn_id: int, allocation: Allocation) -> bool:
        """Return whether this allocation is already recorded; raise StateCorrupt for a contradiction."""
        table, write_id, event_id = allocation
        txn, ids = self._entries.txns.get(txn_id), self._entries.tables.get(table)
        current = None if txn is None else txn.by_table.get(table)
        owner = None if ids is None else ids.open.get(write_id, txn_id)
        if current == allocation or (txn is not None and event_id < txn.last_event_id):
            return True
        contradicts = current is not None and (event_id <= current.event_id or write_id <= current.write_id)
        if contradicts or owner not in {None, txn_id}:
            raise _contradiction(
                "a write id contradicts those allocated before",
                txn_id=txn_id,
                event_id=event_id,
                table=table,
                write_id=write_id,
            )
        return ids is not None and write_id <= ids.high_water_mark

    def _forget(self, txn: OpenTxn) -> SourceTxn:
        value = txn.to_value()
        self._entries.forget_txn(txn)
        return value


def _contradiction(message: str, **context: object) -> StateCorrupt:
    hint = "The source's metastore or this state was restored from a backup: bootstrap the policy again."
    return StateCorrupt(message, hint=hint, **context)
