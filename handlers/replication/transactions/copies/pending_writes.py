"""A transaction whose commit is awaited:
its write events with their files, and the form in which the commit contains them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from handlers.files.copying.handles import CopyHandle
from handlers.replication.context import Context
from handlers.replication.effects.files.plain_files import remove_file
from handlers.replication.transactions.copies.base_names import rename_in_entry
from handlers.replication.transactions.target_write_ids import is_committed
from handlers.structs.notifications import WriteEventInfo
from state.errors import TidelineError
from state.transactions.valid_write_ids import WriteIdState


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A write event whose files are being copied.

    It keeps only the fields that the commit needs, because a transaction may write a hundred thousand
    partitions, and the event of each contains the objects of table and partition.
    """

    table: str
    partition_name: str
    txn_id: int
    write_id: int
    raw_files: tuple[str, ...]
    handles: tuple[CopyHandle, ...]
    base_suffix: str = ""
    """Suffix of the bases of an overwrite on the target (``base_names``)."""
    listed: bool = False
    """Whether the relay found the files (``FilesWritten.listed``)."""


@dataclass(slots=True)
class PendingTransaction:
    """The files of one transaction being replayed."""

    writes: list[PendingWrite] = field(default_factory=list)
    owners: dict[str, str] = field(default_factory=dict)
    """The encoded table of one write event of each table."""
    states: dict[tuple[str, int], WriteIdState] = field(default_factory=dict)
    """The states of write ids read from the target, by table and write id."""
    unknown_tables: set[str] = field(default_factory=set)
    """Partitioned tables with write ids that the write-id mapping does not know."""
    has_events: bool = False
    """Whether write events of the transaction have been replayed."""
    is_committed: bool = False
    """Whether the target has committed it already, so that some of its files were not copied."""


def group_by_table(writes: Iterable[PendingWrite]) -> dict[str, list[PendingWrite]]:
    """Return the writes of each table."""
    tables: dict[str, list[PendingWrite]] = {}
    for write in writes:
        tables.setdefault(write.table, []).append(write)
    return tables


def to_infos(target_db: str, table: str, writes: Sequence[PendingWrite]) -> list[WriteEventInfo]:
    """Return a table's write events for ``commit_txn``,
    with the target's names and the source's file entries.

    The relay splits long file lists into parts; here they become one write event per partition again.
    """
    entries: dict[tuple[str, int], list[str]] = {}
    for write in writes:
        renamed_entries = (
            [rename_in_entry(entry, write.base_suffix) for entry in write.raw_files]
            if write.base_suffix
            else write.raw_files
        )
        entries.setdefault((write.partition_name, write.write_id), []).extend(renamed_entries)
    return [
        WriteEventInfo(
            writeId=write_id,
            database=target_db,
            table=table,
            files="]".join(files),
            partition=partition_name,
        )
        for (partition_name, write_id), files in entries.items()
        if files  # the relay lists partitions without files too
    ]


def discard_writes(writes: Sequence[PendingWrite], context: Context) -> bool:
    """Remove the files of ``writes`` once none of their copies can create another file. Files under
    committed write ids stay; returns False if all of the write ids are committed.
    """
    for write in writes:
        context.copies.cancel(write.handles)
    for write in writes:
        with suppress(TidelineError):
            context.copies.wait(write.handles)
    keys = {(write.table, write.write_id, write.txn_id) for write in writes}
    committed = {key[:2] for key in keys if is_committed(context, *key)}
    removable = [write for write in writes if (write.table, write.write_id) not in committed]
    for write in removable:
        for handle in write.handles:
            remove_file(context, handle.task.target_uri)
    return bool(removable)
