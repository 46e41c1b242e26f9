"""Replay of transactions: equal write ids, files before the commit that shows them, nothing of what was aborted.

The order of steps is the whole point (reference: hive-replication.md §2.2, §11, and the answers of a real metastore in
stack/hive4):

1. a target transaction is opened at the first write id in scope, one source id per call (a partly known list opens nothing);
2. write ids are allocated one per call, and the answer is compared;
3. files are copied only for transactions that the source has committed, below directories of a write id that is not yet
   visible on the target (a real Hive 4 target forgets aborted transactions, and would then show their files);
4. ``repl.last.id`` is raised to the previous event, because opening again after a commit would damage the table;
5. one ``commit_txn`` carries the write events; its effect is proven by asking for the write-id list, since a wrong policy
   text is answered with success too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.failpoints import failpoint
from handlers.replication.effects.statistics import mark_inaccurate
from handlers.replication.transaction_files import TransactionFiles
from state.errors import BadInput, Refused, ServerFault, TargetDiverged


if TYPE_CHECKING:
    from handlers.events import FilesWritten, TxnAborted, TxnCommitted, WriteIdsAllocated
    from handlers.replication.context import Context
    from handlers.structs.notifications import WriteEventInfo
    from state.transactions.open_transactions import SourceTxn


class TransactionReplay:
    """The transactional path of one policy. Remembers only the write parts of commits that are being read."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.files = TransactionFiles(context)
        self.unknown_up_to = -1
        """Source transactions up to this one may be open on the target although the write-id mapping does not know them."""

    def allocated(self, event: WriteIdsAllocated) -> None:
        """Give the target's transactions the same write ids.

        The write-id mapping is asked first, since it refuses what would damage the target. Should the target fail afterwards, the write-id mapping
        is ahead, and the repetition sends the same calls again.
        """
        table = event.table
        assert table is not None
        write_ids = self._context.write_ids
        for txn_id, write_id in event.pairs:
            known = write_ids.allocate(txn_id, f"{event.db}.{table}", write_id, event.event_id) is None
            if known and write_ids.get(txn_id) is None:
                continue  # a repetition, and the transaction has ended since
            failpoint("replay.before-open")
            write_ids.link_target_txn(txn_id, self._opened(txn_id))
            failpoint("replay.after-open")
            self._allocate(table, txn_id, write_id)
            failpoint("replay.after-allocate")

    def _opened(self, txn_id: int) -> int:
        """Return the target's transaction for a source one, opening it where this is its first write id in scope."""
        known = self._context.write_ids.get(txn_id)
        if known is not None and known.target_txn is not None:
            return known.target_txn
        return self._context.target.open_replayed(self._context.policy.txn_map_key, txn_id)

    def _allocate(self, table: str, txn_id: int, write_id: int) -> None:
        """Allocate one write id and check the answer.

        The source logs a second allocation for the same table where a query was recompiled; only then is ``reallocate``
        right, since otherwise it would wipe the table's rows.
        """
        target, policy = self._context.target, self._context.policy
        answer = target.allocate_replayed(policy.txn_map_key, policy.target_db, table, txn_id, write_id)
        if answer is not None and answer != write_id:
            answer = target.allocate_replayed(
                policy.txn_map_key, policy.target_db, table, txn_id, write_id, reallocate=True
            )
        if answer != write_id:
            raise TargetDiverged(
                "the target did not give the source's write id",
                table=f"{policy.target_db}.{table}",
                txn_id=txn_id,
                expected=write_id,
                answer=answer,
                hint="Somebody writes to the replica, or ended its transaction: bootstrap the table again.",
            )

    def written(self, event: FilesWritten) -> None:
        """Start to copy the files of a committed transaction; a table whose files cannot be taken is confined."""
        assert event.table is not None
        try:
            self.files.met(event)
        except (BadInput, Refused) as error:
            self._context.handle_failure(event.table, event.event_id, error)
            self.files.discard_table(event.table)

    def committed(self, event: TxnCommitted) -> bool:
        """Commit on the target; tell whether the transaction concerned the policy at all."""
        write_ids = self._context.write_ids
        known = write_ids.get(event.txn_id)
        if not self._concerned(event.txn_id, known):
            return False
        for write in [] if known is None else self.files.find_unlogged_writes(known, event):
            self.written(write)
        self._raise_target_position(event)  # while files are on their way
        writes = self.files.finished(event)
        if known is not None and known.allocations and not writes:
            self._context.observer.transaction_without_files(event.txn_id)
        self._commit(event, known, writes)
        return True

    def _concerned(self, txn_id: int, known: SourceTxn | None) -> bool:
        """Whether the end of this transaction has to be replayed."""
        return known is not None or txn_id in self.files or txn_id <= self.unknown_up_to

    def _raise_target_position(self, event: TxnCommitted | TxnAborted) -> None:
        """Raise ``repl.last.id`` to what is applied, so that nothing before the end of a transaction is repeated after it."""
        failpoint("replay.before-last-id")
        self._context.target_position.advance(event.event_id - 1)
        failpoint("replay.after-last-id")

    def _commit(self, event: TxnCommitted, known: SourceTxn | None, writes: list[WriteEventInfo]) -> None:
        self._mark_inaccurate(event, known, only_confined=True)
        failpoint("replay.before-commit")
        self._context.target.commit_replayed(self._context.policy.txn_map_key, event.txn_id, writes)
        failpoint("replay.after-commit")
        if known is not None:
            self._require_committed(known)
        failpoint("replay.after-proof")
        self._context.write_ids.commit(event.txn_id)
        self.files.done(event.txn_id)

    def commit_without_files(self, event: TxnCommitted, fault: ServerFault) -> None:
        """Commit although the target cannot take the files: their tables keep the state before, and are confined."""
        for table in self.files.give_up(event.txn_id):
            self._context.handle_failure(table, event.event_id, fault)
        self._raise_target_position(event)
        self._commit(event, self._context.write_ids.get(event.txn_id), [])

    def _require_committed(self, known: SourceTxn) -> None:
        """Raise TargetDiverged where a write id of the transaction is still open or was aborted on the target."""
        db = self._context.policy.target_db
        wanted = {f"{db}.{a.table.partition('.')[2]}": a.write_id for a in known.allocations}
        if not wanted:
            return
        for valid in self._context.target.valid_write_ids(sorted(wanted)):
            write_id = wanted[valid.table]
            if write_id in valid.open or write_id in valid.aborted:
                raise TargetDiverged(
                    "the target answered success but did not commit",
                    table=valid.table,
                    write_id=write_id,
                    policy=self._context.policy.txn_map_key,
                )

    def aborted(self, event: TxnAborted) -> bool:
        """Abort on the target, where nothing of the transaction's files ever was."""
        known = self._context.write_ids.get(event.txn_id)
        if not self._concerned(event.txn_id, known):
            return False
        self._mark_inaccurate(event, known, only_confined=False)
        self._raise_target_position(event)
        failpoint("replay.before-abort")
        self._context.target.abort_replayed(self._context.policy.txn_map_key, event.txn_id)
        failpoint("replay.after-abort")
        self._context.write_ids.abort(event.txn_id)
        return True

    def _mark_inaccurate(
        self, event: TxnCommitted | TxnAborted, known: SourceTxn | None, *, only_confined: bool
    ) -> None:
        """Call the statistics inaccurate that came with a transaction whose rows do not come."""
        if known is None:
            return
        for name, write_id, _ in known.allocations:
            table = name.partition(".")[2]
            if only_confined and table not in self._context.quarantine:
                continue
            touched = [t.partition_name for t in known.touched if (t.table, t.write_id) == (name, write_id)]
            try:
                mark_inaccurate(table, write_id, touched, self._context)
            except Refused as error:
                self._context.handle_failure(table, event.event_id, error)
