"""The files of committed transactions on their way to the target.

A write event lists the files that one transaction put into one table or partition. Their copies start at the
write event, or earlier if that is safe (``coming_events``), and only the commit waits for them. If some of a
table's files cannot be copied, those already copied are discarded. The transaction is then committed, because
other tables need it, and shows no file of this table.

Replay never removes or replaces files under a committed write id. A run killed between a commit and its
record repeats the commit, and by then the source may have compacted the files away or replaced them.
Therefore replay checks the target before it copies the files of the first event after the recorded position,
because only that event can be a commit which the target already has, and before it removes files. If the
state was lost or is old, this applies to all events up to the source's newest one at the start. The same
applies to write ids that the mapping does not know. A committed write id needs no copies.

Readers would see a base of an overwrite before its commit; its name on the target prevents that
(``base_names``).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import product
from typing import Final

from handlers.events import Event, FilesWritten, TxnCommitted
from handlers.failpoints import failpoint
from handlers.files.copying.copies import build_copy_task
from handlers.replication.context import Context
from handlers.replication.effects.files.plain_files import remove_file
from handlers.replication.effects.partitions import add_one
from handlers.replication.transactions.coming_events import find_early_copies
from handlers.replication.transactions.copies.base_names import BaseNames, has_base
from handlers.replication.transactions.copies.pending_writes import (
    PendingTransaction,
    PendingWrite,
    discard_writes,
    group_by_table,
    to_infos,
)
from handlers.replication.transactions.copies.unlogged_files import copy_empty_buckets, find_unlogged_write
from handlers.replication.transactions.lookahead import WriteIdLookahead
from handlers.replication.transactions.target_write_ids import OpeningMarks, find_state, is_committed
from handlers.structs import tjson
from handlers.structs.notifications import WriteEventInfo
from handlers.structs.objects import Partition
from state.errors import (
    BadInput,
    FileLost,
    FilesUnavailable,
    NotFound,
    Refused,
    TargetDiverged,
    TidelineError,
    UnloggedFilesGone,
)
from state.transactions.open_transactions import SourceTxn
from state.transactions.valid_write_ids import WriteIdState


EARLY_FILES_MAX: Final = 1_000
"""Files that may wait in the pool before their turn; more would only block it."""
_LOADED: Final = (
    "Tideline loads the table again. To avoid this, keep the lag of the relay below the time that "
    "the source's compactor needs."
)


class TransactionFiles:
    """The copies of transactions that are not yet committed on the target; kept in memory only."""

    def __init__(self, context: Context, lookahead: WriteIdLookahead) -> None:
        """``lookahead`` knows the transactions and write ids of the target whose turn has not come."""
        self._context = context
        self._lookahead = lookahead
        self._bases = BaseNames(context, lookahead)
        self._pending: dict[int, PendingTransaction] = {}
        """The transactions being replayed."""
        self._early: dict[tuple[int, int], PendingWrite] = {}
        """Write events whose copies started before their turn, by event id and part."""
        self._marks = OpeningMarks()

    def resume(self, marks: OpeningMarks) -> None:
        """Continue after the policy was opened, perhaps again."""
        self._marks = marks

    def __contains__(self, txn_id: int) -> bool:
        """Whether write events of the transaction have been replayed."""
        return txn_id in self._pending and self._pending[txn_id].has_events

    def is_committed(self, txn_id: int) -> bool:
        """Whether the target had committed the transaction before it was replayed,
        so that some of its files were not copied.
        """
        return txn_id in self._pending and self._pending[txn_id].is_committed

    def list_entries(self, txn_id: int) -> set[tuple[str, str]]:
        """Return the file entries of a transaction that write events in the topic named,
        each with its table.
        """
        return {(write.table, entry) for write in self._of(txn_id).writes for entry in write.raw_files}

    def _of(self, txn_id: int) -> PendingTransaction:
        return self._pending.setdefault(txn_id, PendingTransaction())

    def start_early_copies(self, coming: Iterable[Event]) -> None:
        """Start copies for write events among ``coming``, the rest of a batch's look-ahead events."""
        others = (event for event in coming if (event.event_id, event.part) not in self._early)
        for event in find_early_copies(others, self._may_copy):
            repeated = event.event_id <= self._marks.repeated_event_id
            if repeated or not self._context.in_scope(event.db, event.table):
                continue
            if self._context.copies.pending()[0] + len(event.files) > EARLY_FILES_MAX:
                return
            if not self._holds(event) and not self._knows_directory(event):
                continue  # its partition may come with a later event, and each query costs a call
            # An error occurs again at the event's turn, and counts there.
            with suppress(BadInput, Refused, FilesUnavailable):
                suffix = self._bases.find_suffix(event)
                if not suffix and has_base(event.files):
                    continue
                directory = self._context.table_cache.location(event.table or "", event.partition_name)
                self._early[event.event_id, event.part] = self._submit(event, directory, suffix)

    def _knows_directory(self, event: FilesWritten) -> bool:
        table, partition = event.table or "", event.partition_name
        return not partition or self._context.table_cache.knows_partition(table, partition)

    def _may_copy(self, txn_id: int, table: str, write_id: int) -> bool:
        return self._context.tables.write_ids.holds(txn_id, table, write_id) or self._lookahead.holds(
            txn_id, table, write_id
        )

    def start_copies(self, event: FilesWritten) -> None:
        """Start the copies of a write event at its turn, unless they started early.

        Copies no files of a write id committed on the target. Raises BadInput, Refused or TargetDiverged if
        the table cannot be followed, and UnloggedFilesGone if it must be loaded.
        """
        assert event.table is not None
        transaction = self._of(event.txn_id)
        if event.partition_name and not self._holds(event):
            transaction.unknown_tables.add(event.table)
        if self._is_shown(event):
            transaction.is_committed = transaction.has_events = True
            return
        if event.incomplete is not None:
            raise UnloggedFilesGone(event.incomplete, partition=event.partition_name, write_id=event.write_id)
        write = self._early.pop((event.event_id, event.part), None)
        if write is None:
            directory = self._ensure_directory(event, event.table)
            write = self._submit(event, directory, self._bases.find_suffix(event))
        transaction.has_events = True
        transaction.writes.append(write)
        if event.owner_text is not None:
            transaction.owners.setdefault(event.table, event.owner_text)

    def _is_shown(self, event: FilesWritten) -> bool:
        """Whether the target has committed the event's write id;
        raise TargetDiverged if it has not allocated it.

        Files under an id that the target has not allocated would become visible with a later transaction.
        """
        table = event.table or ""
        if event.event_id > self._marks.repeated_event_id and self._holds(event):
            return False
        state = self._find_state(event.txn_id, table, event.write_id)
        if state not in {WriteIdState.OPEN, WriteIdState.VISIBLE}:
            raise TargetDiverged(
                "the target has not allocated, or has aborted, the write id of files to copy",
                table=f"{self._context.policy.target_db}.{table}",
                txn_id=event.txn_id,
                write_id=event.write_id,
                state=state.value,
                hint="Run 'tideline release POLICY TABLE'.",
            )
        return state is WriteIdState.VISIBLE

    def _holds(self, event: FilesWritten) -> bool:
        return self._context.tables.write_ids.holds(event.txn_id, f"{event.db}.{event.table}", event.write_id)

    def list_unknown(self, txn_id: int) -> set[str]:
        """Return the partitioned tables that the transaction
        wrote under write ids that the mapping does not know.

        The state file was lost after their allocation, and with it the partitions that the transaction
        touched. Hive leaves some of them out of its write events (hive-replication.md §0c.2).
        """
        return self._of(txn_id).unknown_tables

    def _find_state(self, txn_id: int, table: str, write_id: int) -> WriteIdState:
        """Return the state of a write id on the target, read once per table of a transaction."""
        states = self._of(txn_id).states
        if (table, write_id) not in states:
            states[table, write_id] = find_state(self._context, table, write_id, txn_id)
        return states[table, write_id]

    def _submit(self, event: FilesWritten, directory: str, base_suffix: str) -> PendingWrite:
        root = self._context.table_cache.location(event.table or "") if event.files else None
        tasks = [
            build_copy_task(file, directory, table_root=root, base_suffix=base_suffix) for file in event.files
        ]
        self._bases.remove_others(event, directory, base_suffix)
        failpoint("replay.before-copies")
        return PendingWrite(
            event.table or "",
            event.partition_name,
            event.txn_id,
            event.write_id,
            event.raw_files,
            tuple(self._context.copies.submit(task) for task in tasks),
            base_suffix,
            event.listed,
        )

    def _ensure_directory(self, event: FilesWritten, table: str) -> str:
        """Return the directory of the write's table or partition.

        A partition that no event has added is added here (hive-replication.md §3.4).
        """
        try:
            return self._context.table_cache.location(table, event.partition_name)
        except NotFound:
            if not event.partition_name or event.partition_text is None:
                raise
        add_one(tjson.decode(Partition, event.partition_text), table, self._context)
        return self._context.table_cache.location(table, event.partition_name)

    def find_unlogged_writes(self, source_txn: SourceTxn, event: TxnCommitted) -> list[FilesWritten]:
        """Return write events for partitions that the transaction touched but that have none
        (hive-replication.md §0c.2).

        The relay has already listed most of them, soon after the commit. Its parts count as write events,
        including those without files.
        """
        transaction = self._of(event.txn_id)
        logged = {(write.table, write.partition_name) for write in transaction.writes}
        written_tables = {table for table, _ in logged}
        writes = []
        for touched in source_txn.touched:
            db, _, table = touched.table.partition(".")
            if (table, touched.partition_name) in logged or not self._context.in_scope(db, table):
                continue
            if self._is_repeated(event, table, touched.write_id):
                transaction.is_committed = True
                continue
            try:
                write = find_unlogged_write(
                    touched,
                    event,
                    self._context,
                    written=table in written_tables,
                    owner_text=transaction.owners.get(table),
                )
            except (FileLost, BadInput) as error:
                self._context.handle_failure(table, event.event_id, error)
                self.discard_table(table)
                continue
            writes += [] if write is None else [write]
        return writes

    def _is_repeated(self, event: TxnCommitted, table: str, write_id: int) -> bool:
        """Whether a killed run has committed this write id already, so that its files are on the target."""
        return (
            event.event_id <= self._marks.repeated_event_id
            and self._find_state(event.txn_id, table, write_id) is WriteIdState.VISIBLE
        )

    def wait_for_copies(self, event: TxnCommitted) -> list[WriteEventInfo]:
        """Wait for the copies of a transaction;
        return the write events of the tables whose files are all on the target.

        A table with a missing file is handled as the policy requires, and its other files are discarded,
        unless the target shows them already: then this commit is repeated, and the table is complete.
        """
        infos: list[WriteEventInfo] = []
        transaction = self._of(event.txn_id)
        for table, writes in group_by_table(transaction.writes).items():
            try:
                for write in writes:
                    self._context.copies.wait(write.handles)
                    failpoint("replay.after-copies")
                owner_text = transaction.owners.get(table)
                transaction.writes += copy_empty_buckets(writes, event, self._context, owner_text=owner_text)
            except (FileLost, BadInput, Refused) as error:
                if discard_writes(writes, self._context):
                    self._context.handle_failure(table, event.event_id, _explain(error, writes))
                else:
                    transaction.is_committed = True
                continue
            infos.extend(to_infos(self._context.policy.target_db, table, writes))
        return infos

    def discard_transaction(self, txn_id: int) -> list[str]:
        """Discard the copied files of a transaction, except committed ones; return the tables that had
        some.
        """
        transaction = self._of(txn_id)
        tables = group_by_table(transaction.writes)
        transaction.writes, transaction.owners, transaction.has_events = [], {}, False
        return [table for table, writes in tables.items() if discard_writes(writes, self._context)]

    def discard_early_copies(self, event: FilesWritten) -> None:
        """Remove the files that a killed run may have copied early for a table that is now quarantined."""
        with suppress(BadInput, Refused):
            if is_committed(self._context, event.table or "", event.write_id, event.txn_id):
                return
            directory = self._context.table_cache.location(event.table or "", event.partition_name)
            for suffix, file in product(self._bases.list_suffixes(event.txn_id), event.files):
                remove_file(self._context, build_copy_task(file, directory, base_suffix=suffix).target_uri)

    def discard_table(self, table: str) -> None:
        """Discard the copied files of a table for all
        transactions that are not yet committed on the target.
        """
        for transaction in self._pending.values():
            discard_writes([write for write in transaction.writes if write.table == table], self._context)
            transaction.writes = [write for write in transaction.writes if write.table != table]
        for key, write in list(self._early.items()):
            if write.table == table:
                discard_writes([self._early.pop(key)], self._context)

    def discard_all(self) -> None:
        """Discard the copied files of all transactions that are not committed on the target,
        and wait until no copy runs.
        """
        discard_writes(self._list_writes(), self._context)
        self.cancel_all()

    def forget_transaction(self, txn_id: int) -> None:
        """Forget a transaction committed on the target."""
        self._pending.pop(txn_id, None)
        self._bases.forget(txn_id)

    def cancel_all(self) -> None:
        """Forget everything and cancel running copies, as after a failure;
        copied files stay, because they are invisible.
        """
        for write in self._list_writes():
            self._context.copies.cancel(write.handles)
        self._pending.clear()
        self._early.clear()
        self._bases.clear()

    def _list_writes(self) -> list[PendingWrite]:
        """Return the writes of all transactions that are not committed on the target."""
        return [write for each in self._pending.values() for write in each.writes] + list(
            self._early.values()
        )


def _explain(error: TidelineError, writes: Iterable[PendingWrite]) -> TidelineError:
    """Return the error; if files are gone that the relay had to find, return an error after which the
    table is loaded.
    """
    if isinstance(error, FileLost) and any(write.listed for write in writes):
        return UnloggedFilesGone(error.message, hint=_LOADED, **error.context)
    return error
