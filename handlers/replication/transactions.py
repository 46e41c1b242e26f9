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

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from handlers.events import FilesWritten, SourceFile, TxnAborted, TxnCommitted, WriteIdsAllocated
from handlers.failpoints import failpoint
from handlers.files import CopyHandle, CopyTask, copy_task, list_write_directories
from handlers.replication.inserts import remove_file
from handlers.replication.partitions import add_one
from handlers.structs import Partition, WriteEventInfo, tjson
from state.errors import (
    BadInput,
    FileLost,
    NotFound,
    Refused,
    ServerFault,
    TargetDiverged,
    TidelineError,
)


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.replication.context import Context
    from state.transactions import SourceTxn, Touched


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A write event whose files are on their way."""

    event: FilesWritten
    tasks: tuple[CopyTask, ...]
    handles: tuple[CopyHandle, ...]


class TransactionReplay:
    """The transactional path of one policy. Remembers only the write parts of the commit that is being read."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pending: dict[int, list[PendingWrite]] = {}
        self.unknown_up_to = -1
        """Source transactions up to this one may be open on the target although the ledger does not know them."""

    def allocated(self, event: WriteIdsAllocated) -> None:
        """Give the target's transactions the same write ids.

        The ledger is asked first, since it refuses what would damage the target. Should the target fail afterwards, the ledger
        is ahead, and the repetition sends the same calls again.
        """
        table = event.table
        assert table is not None
        ledger = self._context.ledger
        for txn_id, write_id in event.pairs:
            known = ledger.allocated(txn_id, f"{event.db}.{table}", write_id, event.event_id) is None
            if known and ledger.get(txn_id) is None:
                continue  # a repetition, and the transaction has ended since
            failpoint("replay.before-open")
            ledger.target_opened(txn_id, self._opened(txn_id))
            failpoint("replay.after-open")
            self._allocate(table, txn_id, write_id)
            failpoint("replay.after-allocate")

    def _opened(self, txn_id: int) -> int:
        """Return the target's transaction for a source one, opening it where this is its first write id in scope."""
        known = self._context.ledger.get(txn_id)
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
        """Start to copy the files of a committed transaction; the commit that follows waits for them."""
        assert event.table is not None
        try:
            pending = self._start(event, event.table)
        except (BadInput, Refused) as error:
            self._context.failed(event.table, event.event_id, error)
            self.withdraw(event.table)
            return
        self._pending.setdefault(event.txn_id, []).append(pending)

    def _start(self, event: FilesWritten, table: str) -> PendingWrite:
        place = self._place(event, table)
        tasks = tuple(copy_task(file, place) for file in event.files)
        failpoint("replay.before-copies")
        handles = tuple(self._context.copies.submit(task) for task in tasks)
        return PendingWrite(event, tasks, handles)

    def _place(self, event: FilesWritten, table: str) -> str:
        """Return where the write's directories go; a partition that no event added is added now (§3.4)."""
        try:
            return self._context.seen.place(table, event.partition_name)
        except NotFound:
            if not event.partition_name or event.partition_text is None:
                raise
        add_one(tjson.decode(Partition, event.partition_text), table, self._context)
        return self._context.seen.place(table, event.partition_name)

    def committed(self, event: TxnCommitted) -> bool:
        """Commit on the target; tell whether the transaction concerned the policy at all."""
        ledger = self._context.ledger
        known = ledger.get(event.txn_id)
        if not self._concerned(event.txn_id, known):
            return False
        if known is not None:
            self._list_forgotten(known, event)
        writes = self._copied(event)
        if known is not None and known.allocations and not writes:
            self._context.observer.transaction_without_files(event.txn_id)
        self._commit(event, known, writes)
        return True

    def _concerned(self, txn_id: int, known: SourceTxn | None) -> bool:
        """Whether the end of this transaction has to be replayed."""
        return known is not None or txn_id in self._pending or txn_id <= self.unknown_up_to

    def _commit(self, event: TxnCommitted, known: SourceTxn | None, writes: list[WriteEventInfo]) -> None:
        failpoint("replay.before-last-id")
        self._context.last_id.advance(event.event_id - 1)
        failpoint("replay.after-last-id")
        self._context.target.commit_replayed(self._context.policy.txn_map_key, event.txn_id, writes)
        failpoint("replay.after-commit")
        if known is not None:
            self._prove_committed(known)
        failpoint("replay.after-proof")
        self._context.ledger.committed(event.txn_id)
        self._pending.pop(event.txn_id, None)

    def commit_without_files(self, event: TxnCommitted, fault: ServerFault) -> None:
        """Commit although the target cannot take the files: their tables keep the state before, and are confined."""
        for table, writes in _by_table(self._pending.pop(event.txn_id, [])).items():
            self._withdraw(writes)
            self._context.failed(table, event.event_id, fault)
        self._commit(event, self._context.ledger.get(event.txn_id), [])

    def _list_forgotten(self, known: SourceTxn, event: TxnCommitted) -> None:
        """Find the files of partitions that the transaction touched but that Hive's write events leave out (§0c.2)."""
        seen = {
            (w.event.db, w.event.table, w.event.partition_name) for w in self._pending.get(event.txn_id, ())
        }
        for touched in known.touched:
            db, _, table = touched.table.partition(".")
            if (db, table, touched.partition_name) in seen or not self._context.in_scope(db, table):
                continue
            files = self._listed_at_source(touched)
            if files:
                self.written(_forgotten_write(touched, files, event))

    def _listed_at_source(self, touched: Touched) -> tuple[SourceFile, ...]:
        """List what the transaction wrote into a partition, where it lies now; one that is gone by now has nothing to list."""
        db, _, table = touched.table.partition(".")
        try:
            partition = self._context.source.get_partition_by_name(db, table, touched.partition_name)
        except NotFound:
            return ()
        location = partition.sd.location
        return (
            ()
            if location is None
            else list_write_directories(self._context.files, location, touched.write_id)
        )

    def _copied(self, event: TxnCommitted) -> list[WriteEventInfo]:
        """Wait for the copies; return the write events of the tables whose files are all there."""
        infos: list[WriteEventInfo] = []
        for table, writes in _by_table(self._pending.get(event.txn_id, ())).items():
            try:
                for write in writes:
                    self._context.copies.wait(write.handles)
                    failpoint("replay.after-copies")
            except (FileLost, BadInput, Refused) as error:
                self._withdraw(writes)
                self._context.failed(table, event.event_id, error)
                continue
            infos.extend(self._infos(table, writes))
        return infos

    def withdraw(self, table: str) -> None:
        """Take back what was copied of a table for a commit that is being read, so that the commit shows none of it."""
        for txn_id, writes in self._pending.items():
            self._withdraw([write for write in writes if write.event.table == table])
            self._pending[txn_id] = [write for write in writes if write.event.table != table]

    def _withdraw(self, writes: Sequence[PendingWrite]) -> None:
        """Remove the files of ``writes``, when none of their copies can bring one any more."""
        for write in writes:
            self._context.copies.cancel(write.handles)
        for write in writes:
            with suppress(TidelineError):
                self._context.copies.wait(write.handles)
            for task in write.tasks:
                remove_file(self._context, task.target_uri)

    def _infos(self, table: str, writes: Sequence[PendingWrite]) -> list[WriteEventInfo]:
        """Return a table's write events as ``commit_txn`` wants them: the target's names, the source's file entries.

        The relay cuts long file lists into several parts; they are put together again, one write event per partition.
        """
        entries: dict[tuple[str, int], list[str]] = {}
        for write in writes:
            key = (write.event.partition_name, write.event.write_id)
            entries.setdefault(key, []).extend(write.event.raw_files)
        return [
            WriteEventInfo(
                writeId=write_id,
                database=self._context.policy.target_db,
                table=table,
                files="]".join(files),
                partition=partition_name,
            )
            for (partition_name, write_id), files in entries.items()
        ]

    def _prove_committed(self, known: SourceTxn) -> None:
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
        if not self._concerned(event.txn_id, self._context.ledger.get(event.txn_id)):
            return False
        failpoint("replay.before-last-id")
        self._context.last_id.advance(event.event_id - 1)
        failpoint("replay.before-abort")
        self._context.target.abort_replayed(self._context.policy.txn_map_key, event.txn_id)
        failpoint("replay.after-abort")
        self._context.ledger.aborted(event.txn_id)
        return True

    def forget(self) -> None:
        """Drop what was read of an unfinished commit, as after a failure; its copies are cancelled."""
        for writes in self._pending.values():
            for write in writes:
                self._context.copies.cancel(write.handles)
        self._pending.clear()


def _by_table(writes: Sequence[PendingWrite]) -> dict[str, list[PendingWrite]]:
    tables: dict[str, list[PendingWrite]] = {}
    for write in writes:
        tables.setdefault(write.event.table or "", []).append(write)
    return tables


def _forgotten_write(touched: Touched, files: Sequence[SourceFile], event: TxnCommitted) -> FilesWritten:
    """Return the write event that the source should have logged for ``touched``."""
    db, _, table = touched.table.partition(".")
    return FilesWritten(
        event_id=event.event_id,
        time_s=event.time_s,
        kind="WRITE",
        db=db,
        table=table,
        txn_id=event.txn_id,
        write_id=touched.write_id,
        partition_name=touched.partition_name,
        files=tuple(files),
        raw_files=tuple(f"{file.uri}###{file.subdir}" for file in files),
    )
