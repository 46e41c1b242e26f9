"""Finds transactional tables whose rows change without a write event, mostly because a change of the
metadata shows files that are there already.

Hive logs only the metadata then, so replay cannot know the files. Such a table needs a load after the event.
These changes are:

* MSCK REPAIR, which adds the partitions of directories, for example those of a restored backup. It seeds the
  write ids of a table that has none, which Hive does not log at all
  (``Msck.validateAndAddMaxTxnIdAndWriteId``);
* ADD PARTITION for a directory with deltas, or with files from before the table was transactional;
* CREATE TABLE in a directory with files of no transaction, which the metastore counts as well;
* SET LOCATION, and the conversion of a plain table into a transactional one. Hive 4 refuses both in a
  database marked as replicated; Hive 3.1 does not;
* TRUNCATE by Hive 3.1, which has no write id, if the same call on the target might remove rows of later
  writes (``effects.files.truncation``).

Hive refuses EXCHANGE PARTITION and CREATE TABLE outside of the database's directory.

By the time of replay, the directory may also have files of later writes, which come with their write events.
Partitions differ by their origin:

* INSERT and LOAD add a partition under the write id of an open transaction, after they have written: its
  object has ``numFiles``.
* ADD PARTITION adds it under an open write id as well, but always with ``numFiles`` 0: a listing of its
  directory decides.
* MSCK and other clients add it without a write id; the metastore counts the files.

Files count if they belong to no transaction, or to a write id that had ended before the event. If the
source's directory is gone, only ``numFiles`` decides.
"""

from __future__ import annotations

from contextlib import suppress

from handlers.events import Event, PartitionsAdded, PartitionsAltered, TableAltered, TableCreated
from handlers.files.listing import has_files_of_ended_writes
from handlers.files.paths import parse_location
from handlers.metastore.objects.partitions import BATCH
from handlers.replication.context import Context
from handlers.replication.effects.files.truncation import find_bare_write_id
from handlers.replication.policy.replicability import is_view
from handlers.replication.target.objects import format_partition_name, is_transactional, partition_key_names
from handlers.structs.objects import Partition, Table
from state.errors import NotFound


def needs_load(event: Event, context: Context) -> bool:
    """Whether the event changes the rows of a transactional table without a write event, and the table needs
    a load.

    Raises FilesUnavailable, and UnsafePath for a directory outside of the allowed ones.
    """
    if event.table is None or not context.policy.copies_rows(event.table):
        return False
    match event:
        case TableCreated():
            return _is_created_over_files(event, context)
        case TableAltered():
            return _is_unrepeatable_truncation(event, event.after.value, context) or _shows_other_files(event)
        case PartitionsAdded():
            return _is_of_transactional(event.table, context) and _adds_filled_partition(event, context)
        case PartitionsAltered():
            return _is_of_transactional(event.table, context) and (
                _is_unrepeatable_truncation(event, context.table_cache.table(event.table), context)
                or _moves_partition(event, context)
            )
    return False


def _is_unrepeatable_truncation(
    event: TableAltered | PartitionsAltered, table: Table, context: Context
) -> bool:
    """Whether a truncation of a transactional table has no write id, and the target cannot repeat it."""
    if not event.truncate or event.write_id or not is_transactional(table):
        return False
    return find_bare_write_id(event.table or "", context) is None


def _is_of_transactional(table: str, context: Context) -> bool:
    with suppress(NotFound):
        return is_transactional(context.table_cache.table(table))
    return False


def _is_created_over_files(event: TableCreated, context: Context) -> bool:
    table = event.after.value
    if is_view(table) or not is_transactional(table) or table.partitionKeys or not table.sd.location:
        return False
    return _counts_files(table) and bool(_has_files(table.sd.location, 0, frozenset(), context))


def _shows_other_files(event: TableAltered) -> bool:
    """Whether a table becomes transactional, or one without partitions moves."""
    before, after = event.before.value, event.after.value
    if event.truncate or is_view(after) or not is_transactional(after):
        return False
    return not is_transactional(before) or (
        not after.partitionKeys and before.sd.location != after.sd.location
    )


def _moves_partition(event: PartitionsAltered, context: Context) -> bool:
    """Whether a partition moved.

    Hive 4.2 logs this as ALTER_PARTITIONS, which does not contain the earlier state. A partition that is
    outside of its default directory after an alteration without a transaction has moved, by this event or
    before.
    """
    if event.truncate:
        return False
    if event.before is not None:
        before, after = event.before.value, event.after[0].value
        return before.values == after.values and before.sd.location != after.sd.location
    owner = None if event.owner is None else event.owner.value
    if owner is None or owner.sd.location is None:
        return False
    opened = _list_open(event, context)
    root = parse_location(owner.sd.location)
    keys = partition_key_names(context.table_cache.table(event.table or ""))
    return any(
        item.value.sd.location is not None
        and parse_location(item.value.sd.location)
        != root.join(format_partition_name(keys, list(item.value.values or [])))
        for item in event.after
        if item.value.writeId not in opened
    )


def _adds_filled_partition(event: PartitionsAdded, context: Context) -> bool:
    name, load = f"{event.db}.{event.table}", context.tables.loads.get(event.table or "")
    mark = max(context.tables.write_ids.high_water_mark(name), 0 if load is None else load.write_id)
    opened = _list_open(event, context)
    for number, item in enumerate(event.partitions):
        if _comes_with_files(item.value, mark, opened, context):
            return True
        if number >= BATCH:  # an event may have tens of thousands
            item.forget_value()
    return False


def _list_open(event: Event, context: Context) -> frozenset[int]:
    """Return the write ids of the event's table that are open at the event."""
    held = context.tables.write_ids.held_write_ids(f"{event.db}.{event.table}")
    return frozenset(write_id for write_id, _ in held)


def _comes_with_files(partition: Partition, mark: int, opened: frozenset[int], context: Context) -> bool:
    """Whether a new partition has files;
    ``mark`` is the highest write id of its table at the event, and ``opened`` are open.
    """
    has_count = _counts_files(partition)
    if (has_count and partition.writeId in opened) or not partition.sd.location:
        return False
    has_files = _has_files(partition.sd.location, mark, opened, context)
    return has_count if has_files is None or mark == 0 else has_files


def _counts_files(item: Table | Partition) -> bool:
    """Whether the metastore found files when it added the table or partition."""
    return (item.parameters or {}).get("numFiles", "0") not in {"0", "-1"}


def _has_files(location: str, mark: int, opened: frozenset[int], context: Context) -> bool | None:
    """Whether a directory of the source has files of ended writes; None if it does not exist."""
    try:
        return has_files_of_ended_writes(
            context.files, location, mark, opened, allowed=context.copies.allowed
        )
    except NotFound:
        return None
