"""Files of plain tables that were copied after their directory had been renamed at the source.

Hive 4 calls plain managed tables external, and the change manager keeps no files of them. What an event names is therefore copied
as it is now. If the table or the partition was renamed since, the metastore has moved its directory: the files are missing, or
those of a newer table or partition of that name are in their place. The log shows the rename only later.

After each such copy, replay therefore reads the source's newest event id. If a rename up to that event is replayed, the target's directory is compared
with the source's at its new place, and gets its files. This is such a copy as well: of several renames, the last one decides.
If the source cannot be reached, every later rename counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.metastore.objects.partitions import BATCH
from handlers.replication.effects.files.plain_files import mirror_directory, note_copy
from handlers.replication.target.objects import format_partition_name, is_transactional, partition_key_names
from state.errors import NotFound


if TYPE_CHECKING:
    from handlers.events import PartitionsAltered, TableAltered
    from handlers.replication.context import Context
    from handlers.structs.objects import Partition, Table


def complete_table(event: TableAltered, context: Context) -> None:
    """Copy the files of a table that was renamed, if files were copied from its old directory after that."""
    before, after = event.before.value, event.after.value
    name = (after.tableName or "").lower()
    if before.sd.location == after.sd.location or not context.tables.copied_ahead.covers(
        name, event.event_id
    ):
        return
    if is_transactional(after) or not context.policy.copies_rows(name):
        return
    if after.partitionKeys:
        _complete_partitions(name, after, context)
    else:
        mirror_directory(context, after.sd.location, context.table_cache.location(name))
    note_copy(name, event.event_id, context)


def complete_partition(event: PartitionsAltered, before: Partition, owner: Table, context: Context) -> None:
    """Do the same for a partition."""
    table, after = event.table or "", event.after[0].value
    if before.sd.location == after.sd.location or not context.tables.copied_ahead.covers(
        table, event.event_id
    ):
        return
    if is_transactional(owner) or not context.policy.copies_rows(table):
        return
    name = format_partition_name(partition_key_names(owner), list(after.values or []))
    mirror_directory(context, after.sd.location, context.table_cache.location(table, name))
    note_copy(table, event.event_id, context)


def _complete_partitions(table: str, owner: Table, context: Context) -> None:
    """Complete all partitions, wherever they are at the source now; skip those that it does not have any more."""
    names = context.target.partition_names(context.policy.target_db, table)
    keys = partition_key_names(owner)
    for start in range(0, len(names), BATCH):
        some = names[start : start + BATCH]
        places = context.table_cache.locations(table, some)
        try:
            found = context.source.get_partitions(context.policy.source_db, table, some)
        except NotFound:
            return  # renamed again or dropped
        for each in found:
            place = places.get(format_partition_name(keys, list(each.values or [])))
            if place is not None:
                mirror_directory(context, each.sd.location, place)
