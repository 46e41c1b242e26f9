"""The files of buckets without rows, which Hive leaves out of its write events.

A bucketed insert-only table has a file for each bucket of a write, also for those without rows. The write events of an insert with dynamic
partitions lack the latter (seen with 4.2), so they are listed at the source, in the directories of the others. Statements that write into a full ACID table
make no such files.

Nothing is added if the partition or its table was renamed or dropped since, because the same directory may belong to another one by then. A
file that vanishes meanwhile was merged by a compaction, and has no row.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from handlers.files.copying.copies import build_copy_task
from handlers.files.listing import list_write
from handlers.files.paths import parse_location
from handlers.replication.target.objects import is_insert_only
from handlers.replication.target.same_table import LoggedWrite, select_same_partitions
from state.errors import FileLost


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from handlers.events import SourceFile, TxnCommitted
    from handlers.replication.context import Context
    from handlers.replication.transactions.files.pending_writes import PendingWrite


def copy_empty_buckets(
    writes: Sequence[PendingWrite], event: TxnCommitted, context: Context, *, owner_text: str | None
) -> list[PendingWrite]:
    """Copy the files of buckets without rows that belong to the ``writes`` of one table, and return what was copied.

    ``event`` is the commit, ``owner_text`` the encoded table of a write event. Raises BadInput for a location that may not be read.
    """
    incomplete = _select_incomplete(writes, context)
    unlogged = {name: _list_unlogged(of_partition, context) for name, of_partition in incomplete.items()}
    found = {name: files for name, files in unlogged.items() if files}
    if not found:
        return []
    first = writes[0]
    logged = LoggedWrite(context.policy.source_db, first.table, first.write_id, event.event_id, owner_text)
    same = select_same_partitions(logged, found, context.source)
    return [_copy(incomplete[name][0], found[name], context) for name in found if name in same]


def _select_incomplete(writes: Sequence[PendingWrite], context: Context) -> dict[str, list[PendingWrite]]:
    """Return the writes of those partitions that have a directory with fewer files than the table has buckets."""
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
    named = {parse_location(source.uri) for source in sources}
    root = str(parse_location(sources[0].uri).parent).removesuffix(f"/{sources[0].subdir}")
    listing = list_write(context.files, root, writes[0].write_id, allowed=context.copies.allowed)
    return [file for file in listing.files if parse_location(file.uri) not in named]


def _copy(write: PendingWrite, files: Iterable[SourceFile], context: Context) -> PendingWrite:
    """Copy files into the directories of a write, without those that vanish."""
    place = context.table_cache.location(write.table, write.partition_name)
    root = context.table_cache.location(write.table)
    tasks = [build_copy_task(file, place, table_root=root, base_suffix=write.base_suffix) for file in files]
    handles = [context.copies.submit(task) for task in tasks]
    for handle in handles:
        with suppress(FileLost):
            context.copies.wait([handle])
    return replace(write, raw_files=(), handles=tuple(handles))
