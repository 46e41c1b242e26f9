"""Files that Hive's write events do not name: those of whole partitions, and those of buckets without rows.

**Partitions** (hive-replication.md §0c.2). A statement that inserts into several static partitions logs the
files of the first one only. Replay therefore lists each partition at the source that an event of the
transaction touched and that has no write event. The relay does that soon after the commit
(``relay.list_partitions``); a replica does it for the rest, perhaps much later.

By then the partition may have been dropped, renamed or compacted, and nothing in the log names the place of
its files. The replica then loads the table again (``LoadFollower.load_unlogged``), because the source still
has its rows, and later statements explain the rest.

**Buckets.** A bucketed insert-only table has a file for each bucket of a write, even for those without rows.
The write events of an insert with dynamic partitions lack the latter (seen with 4.2), so they are listed in
the directories of the others. Statements that write into a full ACID table make no such files. Nothing is
added if the partition or its table was renamed or dropped since, because the same directory may belong to
another one by then. A file that vanishes meanwhile was merged by a compaction, and has no row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from handlers.events import FilesWritten, SourceFile, TxnCommitted
from handlers.files.copying.copies import build_copy_task
from handlers.files.listing import list_write
from handlers.files.paths import parse_location, to_target_subdir
from handlers.replication.context import Context
from handlers.replication.target.objects import is_insert_only
from handlers.replication.target.same_table import LoggedWrite, select_same_partitions
from handlers.replication.transactions.copies.pending_writes import PendingWrite
from state.errors import FileLost, NotFound, UnloggedFilesGone
from state.transactions.open_transactions import Touched


def find_unlogged_write(
    touched: Touched, event: TxnCommitted, context: Context, *, written: bool, owner_text: str | None
) -> FilesWritten | None:
    """Return the write event that the source should have logged for ``touched``;
    None if the transaction wrote no file into it.

    ``written`` says that the transaction has written into the table; ``owner_text`` is the encoded table of
    one of its write events. Raises UnloggedFilesGone if files must have existed but are gone, and BadInput
    for a location that may not be read.
    """
    files = _list_at_source(touched, context, written=written)
    if files and not _is_same(touched, event, owner_text, context):
        _require_no_rows(touched, "has been renamed or dropped since, or its table has", context)
        return None
    return _to_write_event(touched, files, event) if files else None


def _list_at_source(touched: Touched, context: Context, *, written: bool) -> tuple[SourceFile, ...]:
    """List the files that the transaction wrote into a partition, at the partition's current location.

    Raises UnloggedFilesGone if the partition has rows under the write id that no file explains: it was
    dropped or renamed since, or a compaction has merged its files. The second counts only if the transaction
    has ``written`` into the table: ANALYZE sets the number of rows under a write id without files.
    """
    db, _, table = touched.table.partition(".")
    try:
        partition = context.source.get_partition_by_name(db, table, touched.partition_name)
    except NotFound:
        _require_no_rows(touched, "no longer exists at the source", context)
        return ()
    location = partition.sd.location
    if location is None:
        return ()
    listing = list_write(context.files, location, touched.write_id, allowed=context.copies.allowed)
    if written and not listing.explains_rows:
        _require_no_rows(touched, "has rows without matching files, perhaps because of a compaction", context)
    return listing.files


def _is_same(touched: Touched, event: TxnCommitted, owner_text: str | None, context: Context) -> bool:
    """Whether the names of the partition and of its table still belong to them at the source.

    Replay reads this after the files, because another partition or table may already have had the name, and
    the same write id, when the files were listed.
    """
    db, _, table = touched.table.partition(".")
    write = LoggedWrite(db, table, touched.write_id, event.event_id, owner_text)
    return bool(select_same_partitions(write, [touched.partition_name], context.source))


def _require_no_rows(touched: Touched, reason: str, context: Context) -> None:
    """Raise UnloggedFilesGone if the statistics that came with the write id report rows;
    a partition merely added has none.
    """
    db, table = context.policy.target_db, touched.table.partition(".")[2]
    with suppress(NotFound):
        partition = context.target.get_partition_by_name(db, table, touched.partition_name)
        rows = (partition.parameters or {}).get("numRows", "0")
        if partition.writeId == touched.write_id and rows not in {"0", "-1"}:
            raise UnloggedFilesGone(
                f"Hive logged no files for a partition that {reason}",
                table=touched.table,
                partition=touched.partition_name,
                write_id=touched.write_id,
            )


def _to_write_event(touched: Touched, files: Sequence[SourceFile], event: TxnCommitted) -> FilesWritten:
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
        raw_files=tuple(f"{file.uri}###{to_target_subdir(file.subdir)}" for file in files),
    )


def copy_empty_buckets(
    writes: Sequence[PendingWrite], event: TxnCommitted, context: Context, *, owner_text: str | None
) -> list[PendingWrite]:
    """Copy the files of buckets without rows that belong to the ``writes`` of one table, and return the
    copies.

    ``event`` is the commit, ``owner_text`` the encoded table of a write event. Raises BadInput for a location
    that may not be read.
    """
    incomplete = _select_incomplete(writes, context)
    unlogged = {name: _list_unlogged(of_partition, context) for name, of_partition in incomplete.items()}
    unnamed_files = {name: files for name, files in unlogged.items() if files}
    if not unnamed_files:
        return []
    first = writes[0]
    logged = LoggedWrite(context.policy.source_db, first.table, first.write_id, event.event_id, owner_text)
    same = select_same_partitions(logged, unnamed_files, context.source)
    return [
        _copy(incomplete[name][0], unnamed_files[name], context) for name in unnamed_files if name in same
    ]


def _select_incomplete(writes: Sequence[PendingWrite], context: Context) -> dict[str, list[PendingWrite]]:
    """Return the writes of those partitions that have a
    directory with fewer files than the table has buckets.
    """
    owner = context.table_cache.table(writes[0].table) if writes[0].partition_name else None
    if owner is None or not is_insert_only(owner) or (owner.sd.numBuckets or 0) < 1:
        return {}
    counts = Counter(
        (write.partition_name, handle.task.source.subdir) for write in writes for handle in write.handles
    )
    names = {name for (name, _), count in counts.items() if count < (owner.sd.numBuckets or 0)}
    return {
        name: [write for write in writes if write.partition_name == name and write.handles] for name in names
    }


def _list_unlogged(writes: Sequence[PendingWrite], context: Context) -> list[SourceFile]:
    """Return the files at the source that the write events of a partition do not name."""
    sources = [handle.task.source for write in writes for handle in write.handles]
    named_files = {parse_location(source.uri) for source in sources}
    root = str(parse_location(sources[0].uri).parent).removesuffix(f"/{sources[0].subdir}")
    listing = list_write(context.files, root, writes[0].write_id, allowed=context.copies.allowed)
    return [file for file in listing.files if parse_location(file.uri) not in named_files]


def _copy(write: PendingWrite, files: Iterable[SourceFile], context: Context) -> PendingWrite:
    """Copy files into the directories of a write; skip those that vanish."""
    place = context.table_cache.location(write.table, write.partition_name)
    root = context.table_cache.location(write.table)
    tasks = [build_copy_task(file, place, table_root=root, base_suffix=write.base_suffix) for file in files]
    handles = [context.copies.submit(task) for task in tasks]
    for handle in handles:
        with suppress(FileLost):
            context.copies.wait([handle])
    return replace(write, raw_files=(), handles=tuple(handles))
