"""Replay of transactions:
same write ids, files in place before the commit that shows them, no files of aborted transactions.

The order of the steps is essential (reference: hive-replication.md §2.2 and §11; answers of a real metastore:
hive-4-metastore.md §2):

1. At the first write id in scope, open a target transaction.
2. Allocate write ids, and compare each answer with the source's write id. Steps 1 and 2 may have been done
   for many write ids at once, ahead of their turn (``lookahead``).
3. Copy the files, only for transactions that the source has committed. They go below directories of a write
   id that is not yet visible on the target. A Hive 4 target forgets aborted transactions and would then show
   their files.
4. Record that everything before this event is applied, because opening the transaction again after its commit
   would damage the table.
5. Wait for the copies, then send one ``commit_txn`` with the write events.
6. Read the write-id lists to prove the commit: the write ids are visible. A commit under a wrong policy text
   succeeds as well. One read proves all commits since the last one (``state.transactions.unproven_commits``).

An abort consists of steps 4 and 5, with ``abort_txn`` and without files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from handlers.events import FilesWritten, TxnAborted, TxnCommitted, WriteIdsAllocated
from handlers.failpoints import failpoint
from handlers.replication.context import Context
from handlers.replication.effects.accuracy_marks import complete_committed, mark_inaccurate
from handlers.replication.transactions.coming_events import WriteIdOfTxn
from handlers.replication.transactions.copies.source_writes import fail_tables, fetch_writes
from handlers.replication.transactions.copies.transaction_files import TransactionFiles
from handlers.replication.transactions.lookahead import WriteIdLookahead
from handlers.replication.transactions.target_write_ids import CommitProofs, OpeningMarks, find_state
from handlers.structs.notifications import WriteEventInfo
from state.errors import BadInput, Refused, ServerFault, TargetDiverged, UnloggedFilesGone
from state.transactions.open_transactions import SourceTxn
from state.transactions.unproven_commits import UnprovenCommit
from state.transactions.valid_write_ids import WriteIdState


class TransactionReplay:
    """Replays the transactions of one policy."""

    def __init__(
        self, context: Context, proofs: CommitProofs, *, record_before: Callable[[int], None]
    ) -> None:
        """``record_before`` records that all events before the given one are applied, and the state of single
        tables.
        """
        self._context = context
        self.proofs = proofs
        self._record = record_before
        self.lookahead = WriteIdLookahead(context)
        self.files = TransactionFiles(context, self.lookahead)
        self.marks = OpeningMarks()
        self.tables_to_load: set[str] = set()
        """Tables that must be loaded after this event: their committed rows may be incomplete, because the
        state file was lost while a transaction wrote into them, or an event that may be theirs cannot be
        read."""
        self._ahead: dict[tuple[int, str], int] = {}
        """Write ids that the target answered although the source has only allocated lower ones yet, by
        transaction and table."""

    def resume(self, marks: OpeningMarks) -> None:
        """Continue after the policy was opened, perhaps again."""
        self.marks = marks
        self.files.resume(marks)

    def load(self, tables: Iterable[str]) -> None:
        """Have tables loaded after the event being applied."""
        self.tables_to_load.update(tables)

    def take_tables_to_load(self) -> list[str]:
        """Return the tables that must be loaded, by name, and forget them."""
        tables = sorted(self.tables_to_load)
        self.tables_to_load.clear()
        return tables

    def allocate(self, event: WriteIdsAllocated) -> None:
        """Give the target's transactions the same write ids (steps 1 and 2).

        The write-id mapping comes first, because it rejects allocations that would damage the target. If the
        target then fails, the mapping is ahead, and the repeated event sends the same calls again.
        """
        table = event.table
        assert table is not None
        write_ids = self._context.tables.write_ids
        for txn_id, write_id in event.pairs:
            self.lookahead.prepare(event, WriteIdOfTxn(txn_id, write_id))
            is_repeated = write_ids.allocate(txn_id, f"{event.db}.{table}", write_id, event.event_id) is None
            if is_repeated and txn_id not in write_ids:
                continue  # a repeated event whose transaction has ended since
            if event.event_id <= self.marks.uncertain_event_id and self._has_ended(table, txn_id, write_id):
                continue
            failpoint("replay.before-open")
            write_ids.link_target_txn(txn_id, self._open(txn_id))  # step 1
            self.lookahead.forget(txn_id)
            failpoint("replay.after-open")
            if self.lookahead.take_write_id(txn_id, table) != write_id:
                self._allocate_one(table, txn_id, write_id)  # step 2
            failpoint("replay.after-allocate")

    def _has_ended(self, table: str, txn_id: int, write_id: int) -> bool:
        """Whether an earlier process has replayed the transaction to its end,
        so that opening it would open another one.
        """
        state = find_state(self._context, table, write_id, txn_id)
        return state not in {WriteIdState.OPEN, WriteIdState.UNALLOCATED}

    def _open(self, txn_id: int) -> int:
        """Return the target's transaction for a source transaction,
        opened at its first write id in scope (step 1).
        """
        target_txn = self._context.tables.write_ids.find_target_txn(txn_id) or self.lookahead.find_target_txn(
            txn_id
        )
        if target_txn is not None:
            return target_txn
        return self._context.target.open_replayed(self._context.policy.txn_map_key, txn_id)

    def _allocate_one(self, table: str, txn_id: int, write_id: int) -> None:
        """Allocate one write id and check the answer (step 2).

        The source logs a second, higher allocation for the same table if a query was recompiled. Only then is
        ``reallocate`` correct; otherwise it would wipe the table's rows. If the target holds a higher id
        already, the event is repeated after the one that replaced its id, which must follow before the
        commit.
        """
        target, policy = self._context.target, self._context.policy
        answer = target.allocate_replayed(policy.txn_map_key, policy.target_db, table, txn_id, write_id)
        if answer is not None and answer > write_id:
            self._ahead[txn_id, table] = answer
            return
        self._ahead.pop((txn_id, table), None)
        if answer is not None and answer != write_id:
            answer = target.allocate_replayed(
                policy.txn_map_key, policy.target_db, table, txn_id, write_id, reallocate=True
            )
        if answer != write_id:
            raise TargetDiverged(
                "the target did not allocate the source's write id",
                table=f"{policy.target_db}.{table}",
                txn_id=txn_id,
                expected=write_id,
                answer=answer,
                hint="Another client wrote to the replica, or ended its transaction: run 'tideline release "
                "POLICY TABLE'.",
            )

    def start_copies(self, event: FilesWritten) -> None:
        """Start copying the files of a committed transaction (step 3);
        quarantine the table if they cannot be copied.
        """
        assert event.table is not None
        try:
            self.files.start_copies(event)
        except (BadInput, Refused, TargetDiverged, UnloggedFilesGone) as error:
            self._context.handle_failure(event.table, event.event_id, error)
            self.files.discard_table(event.table)

    def commit(self, event: TxnCommitted) -> bool:
        """Commit on the target (steps 3 to 6); return whether the transaction concerns the policy."""
        source_txn = self._context.tables.write_ids.get(event.txn_id)
        if self._end_unused(event, source_txn) or not self._concerns_policy(event.txn_id, source_txn):
            return False
        self._fail_tables_ahead(event)
        if not event.enriched:
            self._fetch_files(event, source_txn)  # step 3
        for write in [] if source_txn is None else self.files.find_unlogged_writes(source_txn, event):
            self.start_copies(write)  # step 3
        self._record_before(event)  # step 4, during the copies of files
        writes = self.files.wait_for_copies(event)  # step 5
        repeated = self.files.is_committed(event.txn_id)
        if source_txn is not None and source_txn.allocations and not writes and not repeated:
            self._context.observer.commit_without_writes(event.txn_id)
        unknown_tables = self.files.list_unknown(event.txn_id)
        self._complete_marks(event, source_txn)
        self._commit(event, source_txn, writes)
        if (
            not event.listed
        ):  # otherwise the relay has found the partitions that the lost state would have named
            self.load(unknown_tables)
        return True

    def _complete_marks(self, event: TxnCommitted, source_txn: SourceTxn | None) -> None:
        """Compare the marks of accurate statistics that the source may have removed without an event;
        quarantine a table for which that fails.
        """
        for allocation in () if source_txn is None else source_txn.allocations:
            table = allocation.table.partition(".")[2]
            try:
                complete_committed(table, self._context)
            except Refused as error:
                self._context.handle_failure(table, event.event_id, error)

    def _fail_tables_ahead(self, event: TxnCommitted) -> None:
        """Handle tables as failed for which the target holds a write id that the source did not allocate."""
        for txn_id, table in [key for key in self._ahead if key[0] == event.txn_id]:
            error = TargetDiverged(
                "the target holds a higher write id than the source",
                table=f"{self._context.policy.target_db}.{table}",
                txn_id=txn_id,
                write_id=self._ahead.pop((txn_id, table)),
                hint="Another client wrote to the replica: run 'tideline release POLICY TABLE'.",
            )
            if table not in self._context.tables.quarantine:
                self._context.handle_failure(table, event.event_id, error)
            self.files.discard_table(table)

    def _fetch_files(self, event: TxnCommitted, source_txn: SourceTxn | None) -> None:
        """Start the copies of a commit whose write events are not, or not all, in the topic (step 3)."""
        if event.incomplete is not None:
            fail_tables(event, source_txn, UnloggedFilesGone(event.incomplete), self._context)
            self.files.discard_transaction(event.txn_id)
            return
        entries_in_topic = self.files.list_entries(event.txn_id)
        for write in fetch_writes(event, source_txn, self._context):
            pairs = zip(write.files, write.raw_files, strict=True)
            missing = [(file, entry) for file, entry in pairs if (write.table, entry) not in entries_in_topic]
            if missing:
                files, entries = zip(*missing, strict=True)
                self.start_copies(replace(write, files=files, raw_files=entries))
        for table in sorted({table for table, _ in entries_in_topic}):
            if table in self._context.tables.quarantine:
                self.files.discard_table(table)

    def commit_without_files(self, event: TxnCommitted, fault: ServerFault) -> None:
        """Commit without files, because the target does not accept them: their tables keep their state, in
        quarantine.
        """
        if not event.enriched:
            fail_tables(event, self._context.tables.write_ids.get(event.txn_id), fault, self._context)
        for table in self.files.discard_transaction(event.txn_id):
            self._context.handle_failure(table, event.event_id, fault)
        self._record_before(event)  # step 4
        self._commit(event, self._context.tables.write_ids.get(event.txn_id), [])

    def abort(self, event: TxnAborted) -> bool:
        """Abort on the target, which has no files of the transaction;
        return whether it concerns the policy.
        """
        source_txn = self._context.tables.write_ids.get(event.txn_id)
        if self._end_unused(event, source_txn) or not self._concerns_policy(event.txn_id, source_txn):
            return False
        self._mark_inaccurate(event, source_txn, only_quarantined=False)
        self._record_before(event)  # step 4
        failpoint("replay.before-abort")
        self._context.target.abort_replayed(self._context.policy.txn_map_key, event.txn_id)  # step 5
        failpoint("replay.after-abort")
        self._context.tables.write_ids.abort(event.txn_id)
        self._ahead = {key: write_id for key, write_id in self._ahead.items() if key[0] != event.txn_id}
        return True

    def _end_unused(self, event: TxnCommitted | TxnAborted, source_txn: SourceTxn | None) -> bool:
        """Abort a transaction that was opened ahead and whose tables are no longer followed; return whether
        this applies.
        """
        if source_txn is not None or not self.lookahead.is_unused(event.txn_id):
            return False
        self._record_before(event)
        self._context.target.abort_replayed(self._context.policy.txn_map_key, event.txn_id)
        self.lookahead.forget(event.txn_id)
        return True

    def is_known(self, txn_id: int) -> bool:
        """Whether the end of this transaction may have to be replayed, or its early opening to be undone."""
        source_txn = self._context.tables.write_ids.get(txn_id)
        return self._concerns_policy(txn_id, source_txn) or self.lookahead.is_unused(txn_id)

    def _concerns_policy(self, txn_id: int, source_txn: SourceTxn | None) -> bool:
        """Whether the end of this transaction must be replayed."""
        return source_txn is not None or txn_id in self.files or txn_id <= self.marks.unknown_txn_id

    def _record_before(self, event: TxnCommitted | TxnAborted) -> None:
        """Record the previous event, so that no earlier event is repeated after the transaction's end."""
        failpoint("replay.before-end-record")
        self._record(event.event_id)
        failpoint("replay.after-end-record")

    def _commit(
        self, event: TxnCommitted, source_txn: SourceTxn | None, writes: list[WriteEventInfo]
    ) -> None:
        """Send the commit (step 5), prove it (step 6), and forget the transaction.

        A quarantine is recorded first, if this event caused one, in the state and on the target. Otherwise a
        run killed after the commit would leave visible write ids without their files, and the next run would
        take them for complete.
        """
        self._mark_inaccurate(event, source_txn, only_quarantined=True)
        if self._context.tables.quarantine.unsaved:
            self._record(event.event_id)
        failpoint("replay.before-commit")
        self._context.target.commit_replayed(self._context.policy.txn_map_key, event.txn_id, writes)  # step 5
        failpoint("replay.after-commit")
        self._context.tables.write_ids.commit(event.txn_id)
        self.files.forget_transaction(event.txn_id)
        if source_txn is not None:
            self.proofs.add(UnprovenCommit.of(source_txn))  # step 6

    def _mark_inaccurate(
        self, event: TxnCommitted | TxnAborted, source_txn: SourceTxn | None, *, only_quarantined: bool
    ) -> None:
        """Mark as inaccurate the statistics of a transaction whose rows will not be on the target."""
        if source_txn is None:
            return
        touched: dict[tuple[str, int], list[str]] = {}
        for each in source_txn.touched:
            touched.setdefault((each.table, each.write_id), []).append(each.partition_name)
        for name, write_id, _ in source_txn.allocations:
            table = name.partition(".")[2]
            if only_quarantined and table not in self._context.tables.quarantine:
                continue
            try:
                mark_inaccurate(table, write_id, touched.get((name, write_id), ()), self._context)
            except Refused as error:
                self._context.handle_failure(table, event.event_id, error)
