"""The ledger of source transactions: what replication remembers between an ALLOC_WRITE_ID and the commit or abort.

It is fed in event order with what is in scope (tables are ``db.tbl`` as the source names them at that event) and answers:
which write ids does this transaction hold, which target transaction stands for it, which partitions did it touch without a
write event, and what is the valid write-id list of a table at this point of the log.

It lives in memory and writes only differences, with ``flush`` into the caller's store transaction, so that they commit
together with the position. After a store transaction that failed the ledger in memory is worthless: ``load`` it again.

Opening a transaction is not remembered: most of them only read, and nothing depends on it (the target transaction is opened
at the first allocation in scope). Every transition first refuses, then changes, so an error leaves the ledger as it was.
Events at or below the recorded position are not to be handed in; those of transactions still open do no harm if they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.errors import Inconsistent, StateCorrupt, TargetDiverged
from state.transactions.mapping_entries import Book, touched_of
from state.transactions.open_transactions import Allocation, OpenTxn, SourceTxn, Touched


if TYPE_CHECKING:
    from collections.abc import Mapping

    from state.store import Reader, Transaction
    from state.transactions.valid_write_ids import ValidWriteIds


class TxnLedger:
    """Source transactions that write into tables in scope, and the write ids of these tables."""

    def __init__(self) -> None:
        self._book = Book()

    def load(self, reader: Reader) -> None:
        """Become what ``flush`` wrote, whatever was in memory; raise StateCorrupt where it contradicts itself."""
        self._book = Book.load(reader)

    def flush(self, transaction: Transaction) -> None:
        """Write what changed since the last flush into the caller's store transaction."""
        self._book.flush(transaction)

    def check(self) -> None:
        """Assert the invariants of the entries; see ``book``."""
        self._book.check()

    def __len__(self) -> int:
        """How many source transactions are open in scope."""
        return len(self._book.txns)

    def get(self, txn_id: int) -> SourceTxn | None:
        """Return what is remembered of a transaction; None where nothing of it is in scope."""
        txn = self._book.txns.get(txn_id)
        return None if txn is None else txn.value()

    def oldest_open(self) -> SourceTxn | None:
        """Return the open transaction whose first allocation is the longest ago."""
        txns = self._book.txns.values()
        oldest = min(txns, key=lambda txn: (txn.first_event_id, txn.txn_id), default=None)
        return None if oldest is None else oldest.value()

    def unlisted(self, txn_id: int) -> tuple[Touched, ...]:
        """Return the partitions touched without a write event: Hive's name only the first static one of a multi-insert."""
        txn = self._book.txns.get(txn_id)
        return () if txn is None else tuple(txn.touched)

    def tables(self) -> tuple[str, ...]:
        """Return the tables whose write ids are known, sorted."""
        return tuple(sorted(self._book.tables))

    def valid_write_ids(self, table: str) -> ValidWriteIds | None:
        """Return the list of a table at this point of the source's log; None where no write id of it was seen."""
        ids = self._book.tables.get(table)
        return None if ids is None else ids.valid(table)

    def opened(self, first: int, last: int, event_id: int) -> None:
        """Take note of OPEN_TXN, ``first`` to ``last`` included: remembers nothing and costs next to nothing.

        Raises StateCorrupt where an id is opened that already holds write ids from earlier events: transaction ids are
        never used twice, so the source is not the one that this state was made from.
        """
        for txn in self._book.txns.values():
            if first <= txn.txn_id <= last and txn.first_event_id < event_id:
                raise _contradiction(
                    "a source transaction is opened twice", txn_id=txn.txn_id, event_id=event_id
                )

    def allocated(self, txn_id: int, table: str, write_id: int, event_id: int) -> Allocation | None:
        """Note that a transaction drew a write id; return it, or None where that was known before (a re-run).

        A second, higher id for the same transaction and table replaces the first: the source drew it anew because the
        query was compiled again (``reallocate=true``), and the first counts as committed without files.

        Raises StateCorrupt where the id contradicts what is known: it belongs to another open transaction, goes back,
        or leaves ids out while others of the table are open (the target would take the jump for stale rows and forget
        the open ones; TxnHandler.allocateTableWriteIds). A jump in a table without open ids is legal: it was seeded.
        """
        allocation = Allocation(table, write_id, event_id)
        if self._is_known(txn_id, allocation):
            return None
        ids = self._book.tables.get(table)
        if ids is not None and ids.open and write_id > ids.high_water_mark + 1:
            raise _contradiction(
                "write ids are left out while others of the table are open",
                txn_id=txn_id,
                event_id=event_id,
                table=table,
                write_id=write_id,
                expected=ids.high_water_mark + 1,
            )
        self._book.hold(txn_id, allocation)
        return allocation

    def target_opened(self, txn_id: int, target_txn: int) -> None:
        """Note which target transaction stands for one that holds write ids.

        Raises TargetDiverged where it was another before, and StateCorrupt where nothing of ``txn_id`` is in scope: its
        end would not be recognised, and the target transaction would stay open.
        """
        txn = self._book.txns.get(txn_id)
        if txn is None:
            raise _contradiction("a target transaction for a source one without write ids", txn_id=txn_id)
        if txn.target_txn not in {None, target_txn}:
            raise TargetDiverged(
                "the target opened a second transaction for one source transaction",
                txn_id=txn_id,
                target_txn=target_txn,
                known_target_txn=txn.target_txn,
            )
        txn.target_txn = target_txn
        self._book.changed(txn_id)

    def touched(self, table: str, write_id: int, partition_name: str) -> bool:
        """Note that ADD_PARTITION or ALTER_PARTITION(S) named a partition under ``write_id`` (in the partition object).

        Returns whether an open transaction holds that id; statistics that come later name ids long committed. Raises
        BadInput where a name cannot be stored.
        """
        ids = self._book.tables.get(table)
        txn_id = None if ids is None else ids.open.get(write_id)
        if txn_id is None:
            return False
        self._book.touch(self._book.txns[txn_id], Touched(table, write_id, partition_name))
        return True

    def write_seen(self, txn_id: int, table: str, partition_name: str) -> None:
        """Note a write event (``partition_name`` "" for an unpartitioned table): its partition needs no listing."""
        txn = self._book.txns.get(txn_id)
        if txn is None or table not in txn.by_table:
            return
        txn.writes_seen += 1
        self._book.changed(txn_id)
        self._book.untouch(txn, Touched(table, txn.by_table[table].write_id, partition_name))

    def committed(self, txn_id: int) -> SourceTxn | None:
        """Forget a transaction whose write ids count from now on; None where nothing of it is in scope."""
        txn = self._book.txns.get(txn_id)
        if txn is None:
            return None
        for table, write_id, _ in txn.by_table.values():
            del self._book.tables[table].open[write_id]
        return self._forgotten(txn)

    def aborted(self, txn_id: int) -> SourceTxn | None:
        """Forget a transaction whose write ids never count; None where nothing of it is in scope."""
        txn = self._book.txns.get(txn_id)
        if txn is None:
            return None
        for table, write_id, _ in txn.by_table.values():
            self._book.abort(table, write_id)
        return self._forgotten(txn)

    def renamed(self, old: str, new: str) -> None:
        """Carry a table's write ids and open allocations over to its new name.

        What the new name still held (aborted ids of a CREATE TABLE AS that failed) is forgotten. Raises StateCorrupt
        where it has open write ids: the source cannot rename onto a table that is being written.
        """
        ids = self._book.tables.get(old)
        if ids is None or old == new:
            return
        if new in self._book.tables and self._book.tables[new].open:
            raise _contradiction("a table is renamed onto one that is written", table=old, new_table=new)
        valid = ids.valid(new)
        txns = [self._book.txns[txn_id] for txn_id in ids.open.values()]
        moves = [(txn, txn.by_table[old]._replace(table=new), touched_of(txn, old)) for txn in txns]
        self._book.forget_table(old)
        self._book.forget_table(new)
        self._book.adopt(valid)
        for txn, allocation, touched in moves:
            self._book.hold(txn.txn_id, allocation)
            for entry in touched:
                self._book.touch(txn, entry._replace(table=new))

    def dropped(self, table: str) -> None:
        """Forget a table: its write ids start anew if the name comes back. Its open transactions stay remembered."""
        self._book.forget_table(table)

    def database_dropped(self, db: str) -> None:
        """Forget every table of a database."""
        for table in self.tables():
            if table.partition(".")[0] == db:
                self._book.forget_table(table)

    def seed(
        self, valid: ValidWriteIds, owners: Mapping[int, int] | None = None, *, event_id: int = 0
    ) -> None:
        """Start a table from a list taken at a bootstrap, in place of what was known of it.

        ``owners`` maps each open write id to its source transaction; ``event_id`` is where the list was taken. A list
        that ``may_be_cut`` first needs the highest allocated id as its mark. Raises Inconsistent where an open id has no
        owner: its commit could not be recognised.
        """
        owners = owners or {}
        unowned = [write_id for write_id in valid.open if write_id not in owners]
        if unowned:
            raise Inconsistent(
                "a table is taken over while unknown transactions write into it",
                table=valid.table,
                write_ids=unowned[:10],
                hint="Wait until they are finished, or abort them.",
            )
        self._book.forget_table(valid.table)
        self._book.adopt(valid)
        for write_id in valid.open:
            self._book.hold(owners[write_id], Allocation(valid.table, write_id, event_id))

    def _is_known(self, txn_id: int, allocation: Allocation) -> bool:
        """Tell whether this allocation was applied before; raise StateCorrupt where it contradicts what was."""
        table, write_id, event_id = allocation
        txn, ids = self._book.txns.get(txn_id), self._book.tables.get(table)
        held = None if txn is None else txn.by_table.get(table)
        owner = None if ids is None else ids.open.get(write_id, txn_id)
        if held == allocation or (txn is not None and event_id < txn.last_event_id):
            return True
        contradicts = held is not None and (event_id <= held.event_id or write_id <= held.write_id)
        if contradicts or owner not in {None, txn_id}:
            raise _contradiction(
                "a write id contradicts the ones drawn before",
                txn_id=txn_id,
                event_id=event_id,
                table=table,
                write_id=write_id,
            )
        return ids is not None and write_id <= ids.high_water_mark

    def _forgotten(self, txn: OpenTxn) -> SourceTxn:
        value = txn.value()
        self._book.forget_txn(txn)
        return value


def _contradiction(message: str, **context: object) -> StateCorrupt:
    hint = "The source's metastore or this state was restored from a backup: bootstrap the policy anew."
    return StateCorrupt(message, hint=hint, **context)
