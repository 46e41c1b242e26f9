"""Write ids that are open on the target when replication ends, and the files under them.

Their transactions will be aborted, and a Hive 4 target forgets aborted transactions within seconds: it then
counts every file under their write ids, and answers ``count(*)`` from their statistics. Copies may have
started for a transaction whose commit is not replayed (``files.start_early_copies``), even in a killed
process. So this module examines the target itself, not the memory of this process: every table with an open
write id, all its partitions, and every directory of such a write id.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from handlers.files.paths import parse_location
from handlers.files.table_listing import TableDirectory
from handlers.replication.effects.accuracy_marks import mark_inaccurate
from handlers.replication.target.objects import format_partition_name, is_transactional, partition_key_names
from state.errors import NotFound
from state.pieces import in_pieces
from state.transactions.acid_directories import AcidDirectory


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from handlers.replication.context import Context
    from handlers.structs.objects import Partition, Table
    from state.transactions.valid_write_ids import ValidWriteIds


_TABLES_AT_ONCE: Final = 500
_PARTITIONS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class WriteIds:
    """The write ids of a table on the target."""

    table: str
    valid: ValidWriteIds
    highest: int
    """The highest write id allocated."""

    @property
    def has_open(self) -> bool:
        """Whether some of the write ids are open."""
        return bool(self.valid.open)


def read_write_ids(context: Context) -> list[WriteIds]:
    """Return the write ids of all tables of the target database that have some."""
    db = context.policy.target_db
    names = sorted(context.target.table_names(db))
    write_ids = []
    for page in in_pieces(names, _TABLES_AT_ONCE):
        lists = context.target.valid_write_ids([f"{db}.{name}" for name in page])
        for name, valid in zip(page, lists, strict=True):
            cut = valid.may_be_cut
            highest = context.target.highest_write_id(db, name) if cut else valid.high_water_mark
            if highest:
                write_ids.append(WriteIds(name, valid, highest))
    return write_ids


def discard_open_writes(write_ids: WriteIds, context: Context) -> None:
    """Remove the files under the invisible write ids of a table,
    and the mark of accuracy from statistics that came with them.
    """
    table, db = write_ids.table, context.policy.target_db
    try:
        target_table = context.target.get_table(db, table)
    except NotFound:
        return
    if not is_transactional(target_table):
        return
    if not target_table.partitionKeys:
        _discard(target_table.sd.location, write_ids.valid, context)
        if _is_hidden(target_table.writeId, write_ids.valid):
            mark_inaccurate(table, target_table.writeId or 0, (), context)
        return
    keys = partition_key_names(target_table)
    for page in _read_partitions(target_table, context):
        hidden: dict[int, list[str]] = {}
        for partition in page:
            _discard(partition.sd.location, write_ids.valid, context)
            if _is_hidden(partition.writeId, write_ids.valid):
                name = format_partition_name(keys, list(partition.values or []))
                hidden.setdefault(partition.writeId or 0, []).append(name)
        for write_id, names in hidden.items():
            mark_inaccurate(table, write_id, names, context)


def _read_partitions(table: Table, context: Context) -> Iterator[Sequence[Partition]]:
    db, name = context.policy.target_db, table.tableName or ""
    names = context.target.partition_names(db, name)
    for piece in in_pieces(names, _PARTITIONS_AT_ONCE):
        yield context.target.get_partitions(db, name, piece)


def _is_hidden(write_id: int | None, valid: ValidWriteIds) -> bool:
    return write_id is not None and write_id > 0 and not valid.is_visible(write_id)


def _discard(location: str | None, valid: ValidWriteIds, context: Context) -> None:
    """Remove the directories of single writes that are invisible, including bases with a suffix
    (``base_names``).
    """
    if location is None:
        return
    root = parse_location(location)
    for name in TableDirectory(context.files, location).directories:
        directory = AcidDirectory.find(name)
        if directory is None or not _is_of_hidden_write(directory, valid):
            continue
        context.target_position.require_held()
        with suppress(NotFound):
            place = root.child(name)
            context.files.of(place).remove_tree(place)


def _is_of_hidden_write(directory: AcidDirectory, valid: ValidWriteIds) -> bool:
    """Whether a directory belongs to one invisible write;
    compactions write only visible rows, and none at or above an open write.
    """
    if directory.is_compacted:
        return directory.kind == "base" and valid.has_open_up_to(directory.last)
    return directory.first == directory.last and not valid.is_visible(directory.first)
