"""The files of partitions that a transaction wrote but that Hive logged no write event for (hive-replication.md §0c.2).

A statement that inserts into several static partitions logs the files of the first one only. Each partition that an event of the
transaction touched and that has no write event is therefore listed at the source. The relay does that soon after the commit
(``relay.list_partitions``); a replica does it for what the relay has left, perhaps much later.

By then the partition may have been dropped, renamed or compacted, and nothing in the log says where its files are. The table is loaded again
then (``LoadFollower.load_unlogged``), because the source still has its rows, and later statements explain the rest.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from handlers.events import FilesWritten
from handlers.files.listing import list_write
from handlers.files.paths import to_target_subdir
from handlers.replication.target.same_table import LoggedWrite, select_same_partitions
from state.errors import NotFound, UnloggedFilesGone


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.events import SourceFile, TxnCommitted
    from handlers.replication.context import Context
    from state.transactions.open_transactions import Touched


def find_unlogged_write(
    touched: Touched, event: TxnCommitted, context: Context, *, written: bool, owner_text: str | None
) -> FilesWritten | None:
    """Return the write event that the source should have logged for ``touched``; None if the transaction wrote no file into it.

    ``written`` says that the transaction has written into the table; ``owner_text`` is the encoded table of such a write event. Raises
    UnloggedFilesGone if files must have existed but are gone, and BadInput for a location that may not be read.
    """
    files = _list_at_source(touched, context, written=written)
    if files and not _is_same(touched, event, owner_text, context):
        _require_no_rows(touched, "was renamed or dropped since, or its table was", context)
        return None
    return _to_write_event(touched, files, event) if files else None


def _list_at_source(touched: Touched, context: Context, *, written: bool) -> tuple[SourceFile, ...]:
    """List the files that the transaction wrote into a partition, at the partition's current location.

    Raises UnloggedFilesGone if the partition has rows under the write id that no file explains: it was dropped or renamed since, or a
    compaction has merged its files. The second counts only if the transaction has ``written`` into the table: ANALYZE sets
    the number of rows under a write id without files.
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
    found = list_write(context.files, location, touched.write_id, allowed=context.copies.allowed)
    if written and not found.explains_rows:
        _require_no_rows(touched, "has rows that no file explains, perhaps because it was compacted", context)
    return found.files


def _is_same(touched: Touched, event: TxnCommitted, owner_text: str | None, context: Context) -> bool:
    """Whether the names of the partition and of its table still belong to them at the source.

    That is read after the files, because others may have had the names, and the same write id, already when the files were listed.
    """
    db, _, table = touched.table.partition(".")
    write = LoggedWrite(db, table, touched.write_id, event.event_id, owner_text)
    return bool(select_same_partitions(write, [touched.partition_name], context.source))


def _require_no_rows(touched: Touched, reason: str, context: Context) -> None:
    """Raise UnloggedFilesGone if the statistics that came with the write id report rows; a partition merely added has none."""
    db, table = context.policy.target_db, touched.table.partition(".")[2]
    with suppress(NotFound):
        present = context.target.get_partition_by_name(db, table, touched.partition_name)
        rows = (present.parameters or {}).get("numRows", "0")
        if present.writeId == touched.write_id and rows not in {"0", "-1"}:
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
