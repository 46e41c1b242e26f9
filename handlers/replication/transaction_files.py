"""The files of committed transactions on their way to the target.

A write event names the files that one transaction put into one table or partition. Their copies start when the event is met,
or earlier where that is safe (``lookahead``), and are waited for only by the commit. Where a table's files cannot all be
brought, those that were are taken back, so that the commit of the transaction, which other tables need, shows none of them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from handlers.events import FilesWritten
from handlers.failpoints import failpoint
from handlers.files.copies import CopyTask, build_copy_task
from handlers.files.listing import list_write_directories
from handlers.replication.batch_plan import find_early_copies
from handlers.replication.effects.partitions import add_one
from handlers.replication.effects.plain_files import remove_file
from handlers.structs import tjson
from handlers.structs.notifications import WriteEventInfo
from handlers.structs.objects import Partition
from state.errors import BadInput, FileLost, NotFound, Refused, TidelineError


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from handlers.events import Event, SourceFile, TxnCommitted
    from handlers.files.pool import CopyHandle
    from handlers.replication.context import Context
    from state.transactions.open_transactions import SourceTxn, Touched


EARLY_FILES_MAX: Final = 1_000
"""Files that may wait in the pool ahead of their turn; more would only block it."""


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A write event whose files are on their way."""

    event: FilesWritten
    tasks: tuple[CopyTask, ...]
    handles: tuple[CopyHandle, ...]


class TransactionFiles:
    """What was met, or started ahead, of commits that are not finished; kept in memory only."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pending: dict[int, list[PendingWrite]] = {}
        self._ahead: dict[tuple[int, int], PendingWrite] = {}

    def __contains__(self, txn_id: int) -> bool:
        """Whether write events of the transaction were met."""
        return txn_id in self._pending

    def start_early_copies(self, coming: Iterable[Event]) -> None:
        """Start copies for write events among ``coming``, the landmarks (``lookahead``) of a batch that are still ahead."""
        for event in find_early_copies(coming, self._is_allocated):
            place = (event.event_id, event.part)
            if place in self._ahead or not self._context.in_scope(event.db, event.table):
                continue
            if self._context.copies.pending()[0] + len(event.files) > EARLY_FILES_MAX:
                return
            with suppress(BadInput, Refused):  # met again at its turn, where it counts
                directory = self._context.table_cache.location(event.table or "", event.partition_name)
                self._ahead[place] = self._started(event, directory)

    def _is_allocated(self, txn_id: int, table: str, write_id: int) -> bool:
        txn = self._context.write_ids.get(txn_id)
        return txn is not None and any((a.table, a.write_id) == (table, write_id) for a in txn.allocations)

    def met(self, event: FilesWritten) -> None:
        """Start the copies of a write event whose turn it is; the commit that follows waits for them.

        Raises BadInput, Refused: the table cannot be followed.
        """
        assert event.table is not None
        write = self._ahead.pop((event.event_id, event.part), None)
        if write is None:
            write = self._started(event, self._place(event, event.table))
        self._pending.setdefault(event.txn_id, []).append(write)

    def _started(self, event: FilesWritten, directory: str) -> PendingWrite:
        tasks = tuple(build_copy_task(file, directory) for file in event.files)
        failpoint("replay.before-copies")
        return PendingWrite(event, tasks, tuple(self._context.copies.submit(task) for task in tasks))

    def _place(self, event: FilesWritten, table: str) -> str:
        """Return where the write's directories go; a partition that no event added is added now (§3.4)."""
        try:
            return self._context.table_cache.location(table, event.partition_name)
        except NotFound:
            if not event.partition_name or event.partition_text is None:
                raise
        add_one(tjson.decode(Partition, event.partition_text), table, self._context)
        return self._context.table_cache.location(table, event.partition_name)

    def find_unlogged_writes(self, known: SourceTxn, event: TxnCommitted) -> list[FilesWritten]:
        """Return the write events that Hive should have logged: partitions the transaction touched but no event names (§0c.2).

        Their files are found by listing the partition at the source.
        """
        named = {
            (w.event.db, w.event.table, w.event.partition_name) for w in self._pending.get(event.txn_id, ())
        }
        found = []
        for touched in known.touched:
            db, _, table = touched.table.partition(".")
            if (db, table, touched.partition_name) in named or not self._context.in_scope(db, table):
                continue
            try:
                files = self._listed_at_source(touched)
            except FileLost as error:
                self._context.handle_failure(table, event.event_id, error)
                self.discard_table(table)
                continue
            found += [_write_of(touched, files, event)] if files else []
        return found

    def _listed_at_source(self, touched: Touched) -> tuple[SourceFile, ...]:
        """List what the transaction wrote into a partition, where it lies now.

        Raises FileLost where the partition is gone (dropped or renamed since) although it has rows: nothing names their files.
        """
        db, _, table = touched.table.partition(".")
        try:
            partition = self._context.source.get_partition_by_name(db, table, touched.partition_name)
        except NotFound:
            self._require_no_rows(table, touched)
            return ()
        location = partition.sd.location
        return (
            ()
            if location is None
            else list_write_directories(self._context.files, location, touched.write_id)
        )

    def _require_no_rows(self, table: str, touched: Touched) -> None:
        """Ask the statistics that came with the write id; a partition that was only added has none."""
        db = self._context.policy.target_db
        with suppress(NotFound):
            present = self._context.target.get_partition_by_name(db, table, touched.partition_name)
            rows = (present.parameters or {}).get("numRows", "0")
            if present.writeId == touched.write_id and rows not in {"0", "-1"}:
                raise FileLost(
                    "Hive did not name the files of a partition, which is gone from the source by now",
                    table=touched.table,
                    partition=touched.partition_name,
                    write_id=touched.write_id,
                )

    def finished(self, event: TxnCommitted) -> list[WriteEventInfo]:
        """Wait for the copies of a transaction; return the write events of the tables whose files are all there.

        A table that lacks one is confined (or what the policy says), and its other files are taken back.
        """
        infos: list[WriteEventInfo] = []
        for table, writes in _by_table(self._pending.get(event.txn_id, ())).items():
            try:
                for write in writes:
                    self._context.copies.wait(write.handles)
                    failpoint("replay.after-copies")
            except (FileLost, BadInput, Refused) as error:
                self._discard(writes)
                self._context.handle_failure(table, event.event_id, error)
                continue
            infos.extend(self._infos(table, writes))
        return infos

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

    def give_up(self, txn_id: int) -> list[str]:
        """Take back all files of a transaction; return the tables that had some."""
        tables = _by_table(self._pending.pop(txn_id, []))
        for writes in tables.values():
            self._discard(writes)
        return list(tables)

    def refused(self, event: FilesWritten) -> None:
        """Remove what a run that died may have copied ahead for a table that is confined by now."""
        with suppress(BadInput, Refused):
            directory = self._context.table_cache.location(event.table or "", event.partition_name)
            for file in event.files:
                remove_file(self._context, build_copy_task(file, directory).target_uri)

    def discard_table(self, table: str) -> None:
        """Take back what was copied of a table for commits that are not finished, so that they show none of it."""
        for txn_id, writes in self._pending.items():
            self._discard([write for write in writes if write.event.table == table])
            self._pending[txn_id] = [write for write in writes if write.event.table != table]
        for place, write in list(self._ahead.items()):
            if write.event.table == table:
                self._discard([self._ahead.pop(place)])

    def _discard(self, writes: Sequence[PendingWrite]) -> None:
        """Remove the files of ``writes``, when none of their copies can bring one any more."""
        for write in writes:
            self._context.copies.cancel(write.handles)
        for write in writes:
            with suppress(TidelineError):
                self._context.copies.wait(write.handles)
            for task in write.tasks:
                remove_file(self._context, task.target_uri)

    def done(self, txn_id: int) -> None:
        """Forget a transaction that is committed on the target."""
        self._pending.pop(txn_id, None)

    def forget(self) -> None:
        """Drop everything, as after a failure; copies under way are cancelled. What is on the target stays: it is hidden."""
        for writes in (*self._pending.values(), self._ahead.values()):
            for write in writes:
                self._context.copies.cancel(write.handles)
        self._pending.clear()
        self._ahead.clear()


def _by_table(writes: Sequence[PendingWrite]) -> dict[str, list[PendingWrite]]:
    tables: dict[str, list[PendingWrite]] = {}
    for write in writes:
        tables.setdefault(write.event.table or "", []).append(write)
    return tables


def _write_of(touched: Touched, files: Sequence[SourceFile], event: TxnCommitted) -> FilesWritten:
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
