"""Replay of SET LOCATION, which gives a table or partition the files of another directory.

Hive moves no file, and readers see the content of the new directory. Replay completes the target's copy of
that directory first. The change of the metadata then shows it in one step, as at the source. The old
directory keeps its files at the source as well.

The target's directory depends only on the source's: a repeated event finds its work done. That also works for
ALTER_PARTITIONS, which has no earlier state to compare with:

* with ``external_base``, external tables and partitions are below the base, at the path of the source;
* otherwise a partition below its table's directory has the same relative path on the target;
* any other directory gets a name derived from the source's location: ``TABLE__at_HASH`` or
  ``TABLE/_at_HASH/PARTITION``.

A rename moves the directory of a plain managed table, which Hive 4 calls external, on both sides. With
``external_base``, replay then moves the target's directory back below the base. If the target has no such
directory, its metastore changes the location of the table but not the locations of the partitions
(``HiveAlterHandler``). The directory is missing after an earlier rename whose new directory the source had
already left. The metastore refuses to rename a partition if its new directory exists, for example because a
copy of external tables found that directory at the source before the rename was replayed
(``replace_by_new_place``).

A transactional table needs a load instead (``files_in_place``), because the write ids of the files in its new
directory are unknown. (A source in a replicated database refuses SET LOCATION for managed tables, reference:
hive-replication.md §1.6.)

The change manager keeps no files of external tables, so a copy takes the current content of the named files.
If the table or the partition was renamed since, the metastore has moved its directory: the files are missing,
or files of a newer table or partition of that name are in their place. The log shows the rename only later.
After each such copy, replay therefore reads the source's newest event id (``plain_files.note_copy``). The
replay of a rename up to that event compares the target's directory with the source's at its new place, and
copies its files. This counts as such a copy too, so the last of several renames decides. If the source is
down, every later rename counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from handlers.events import Embedded, PartitionsAltered, TableAltered
from handlers.files.paths import parse_location
from handlers.metastore.objects.partitions import BATCH
from handlers.replication.context import Context
from handlers.replication.effects.files import leftovers
from handlers.replication.effects.files.plain_files import (
    has_directory,
    mirror_directory,
    note_copy,
    remove_directory,
    remove_other_files,
)
from handlers.replication.policy.replicability import is_view
from handlers.replication.target.objects import (
    KEEP_STATISTICS,
    format_partition_name,
    hash_location,
    is_external,
    is_transactional,
    map_external_location,
    map_partition_location,
    owns_data,
    partition_key_names,
    replayed_write_id,
)
from handlers.structs.objects import Partition, Table
from state.errors import NotFound
from state.pieces import in_pieces


_MOVED: Final = re.compile(r"__at_[0-9a-f]{16}$")


def locate_table(before: Table, after: Table, current: str, context: Context) -> str:
    """Return the target's location of a table after an alteration; ``current`` unless the source moved the
    table.

    Raises UnsafePath if the new location is not a safe path.
    """
    moved_to = after.sd.location
    if moved_to is None or before.sd.location == moved_to or is_view(after) or is_transactional(after):
        return current
    if is_external(after) and (mapped := map_external_location(moved_to, context.policy)) is not None:
        return mapped
    if after.partitionKeys:
        return current  # partitions have their own locations
    return f"{_MOVED.sub('', current.rstrip('/'))}__at_{hash_location(moved_to)}"


def locate_partition(
    partition: Partition, name: str, owner: Embedded[Table] | None, context: Context, table: str
) -> str | None:
    """Return the target's location of a plain partition; None if the event does not contain enough to know
    it.

    ``owner`` is the table at the source. Raises UnsafePath if the partition's location is not a safe path.
    """
    source_owner = None if owner is None else owner.value
    target_owner = context.table_cache.table(table)
    return map_partition_location(partition.sd.location, source_owner, name, target_owner, context.policy)


def is_moved(current: str, located: str | None) -> bool:
    """Whether a located directory is not the ``current`` one."""
    return located is not None and parse_location(current) != parse_location(located)


def clear_new_place(event: TableAltered, context: Context) -> bool:
    """Prepare the repetition of a rename that failed because its new directory exists; return whether a
    repetition is possible.

    It exists if a drop left it, or if a killed metastore has moved the directory, which it does before its
    database commits. In an object store, it may have moved a part. A transactional table whose directory was
    moved gets that place, because one whose directory has another name is renamed without a move. For a plain
    table, this removes the new directory, and the files come from the source again: by ``return_to_base`` or
    ``complete_renamed_table``.
    """
    old, new = ((each.value.tableName or "").lower() for each in (event.before, event.after))
    table, root = context.target.get_table(context.policy.target_db, old), context.policy.external_base
    place = (table.sd.location or "").rstrip("/")
    above = place.rpartition("/")[0]
    if is_external(table) and root is not None:
        above = (context.target.get_database(context.policy.target_db).locationUri or "").rstrip("/")
    moved = f"{above}/{new}"
    if not owns_data(table) or not has_directory(context, moved):
        return False
    if has_directory(context, place) and not is_external(table):
        return leftovers.make_room(place, moved, context)
    if leftovers.find_used([parse_location(moved)], context):
        return False
    if not has_directory(context, place) and (root is None or not is_external(table)):
        _place_table(table, place, moved, replayed_write_id(event.write_id, table), context)
    if is_external(table):
        context.tables.copied_ahead.record(old, event.event_id, event.event_id - 1)
        remove_directory(context, moved)
    return True


def _place_table(table: Table, place: str, moved: str, write_id: int | None, context: Context) -> None:
    """Set the new location of the partitions, and then that of the table, in this order so that a killed run
    can repeat the work.

    The partitions also get the write id of the rename, as from Hive when it moves the directory itself
    (``HiveAlterHandler.alterTable``).
    """
    db, name = context.policy.target_db, (table.tableName or "").lower()
    names = context.target.partition_names(db, name) if table.partitionKeys else []
    for piece in in_pieces(names, BATCH):
        partitions = context.target.get_partitions(db, name, piece)
        left = [each for each in partitions if _find_relative_path(each.sd.location, [place]) is not None]
        for each in left:
            each.sd.location = f"{moved}{_find_relative_path(each.sd.location, [place])}"
            each.writeId = each.writeId if write_id is None else write_id
        if left:
            context.target.alter_partitions(
                db,
                name,
                left,
                write_id=write_id,
                valid_write_ids=context.valid_up_to(name, write_id),
                environment=KEEP_STATISTICS,
            )
    table.sd.location = moved
    context.table_cache.forget(name)
    context.target.alter_table(db, name, table, environment=KEEP_STATISTICS)


def has_left_base(before: Table, after: Table, context: Context) -> bool:
    """Whether a rename has moved the table's directory, which the target's metastore then moves out of
    ``external_base``.
    """
    is_moved = before.sd.location != after.sd.location
    return is_moved and is_external(after) and context.policy.external_base is not None


def return_to_base(before: Table, after: Table, context: Context) -> None:
    """Move a renamed table, and the partitions that moved with it at the source, to the source's new path.

    The target's metastore ignores a location in the request for a rename, and moves the directory to its own
    default. Nothing may remain there, because the metastore refuses to rename another table to a name whose
    directory exists. A repeated event continues while the table is in that directory, so the directory is
    removed before the table gets its new location.
    """
    name, source = (after.tableName or "").lower(), after.sd.location
    place, mapped = context.table_cache.location(name), map_external_location(source, context.policy)
    if source is None or not is_moved(place, mapped):
        return
    assert mapped is not None
    if after.partitionKeys:
        former = map_external_location(before.sd.location, context.policy)
        _move_partitions(name, [place, former or place], (source, mapped), context)
    elif context.policy.copies_rows(name):
        mirror_directory(context, source, mapped)
    if owns_data(after):
        remove_directory(context, place)
    table = context.target.get_table(context.policy.target_db, name)
    table.sd.location = mapped
    context.table_cache.forget(name)
    context.target.alter_table(context.policy.target_db, name, table, environment=KEEP_STATISTICS)


def _move_partitions(table: str, left: Sequence[str], roots: tuple[str, str], context: Context) -> None:
    """Move the partitions below one of the directories ``left`` to the table's place; ``roots`` are the
    table's directory at the source and its place.
    """
    db, (source, mapped) = context.policy.target_db, (each.rstrip("/") for each in roots)
    names = context.target.partition_names(db, table)
    for piece in in_pieces(names, BATCH):
        moved = []
        for each in context.target.get_partitions(db, table, piece):
            relative = _find_relative_path(each.sd.location, left)
            if relative is not None:
                if context.policy.copies_rows(table):
                    mirror_directory(context, source + relative, mapped + relative)
                each.sd.location = mapped + relative
                moved.append(each)
        if moved:
            context.target.alter_partitions(db, table, moved, environment=KEEP_STATISTICS)


def _find_relative_path(location: str | None, roots: Sequence[str]) -> str | None:
    """Return the path of ``location`` below the first of ``roots`` that contains it,
    with a slash in front; None if none does.
    """
    at = parse_location(location or "")
    for root in map(parse_location, roots):
        if root.contains(at):
            return at.path[len(root.path.rstrip("/")) :]
    return None


def replace_by_new_place(event: PartitionsAltered, old_name: str, owner: Table, context: Context) -> bool:
    """Remove the directory of a partition whose rename failed because its new directory exists; return
    whether it was removed.

    The new directory gets the source's files first. Hive then moves nothing, and the renamed partition has
    the new directory.
    """
    table, after = event.table or "", event.after[0].value
    new_name = format_partition_name(partition_key_names(owner), list(after.values or []))
    place = context.table_cache.location(table, old_name)
    located = locate_partition(after, new_name, event.owner, context, table)
    if located is None or not is_moved(place, located) or not owns_data(owner):
        return False
    if not has_directory(context, located):
        return False
    if context.policy.copies_rows(table):
        mirror_directory(context, after.sd.location, located)
        note_copy(table, event.event_id, context)
    remove_directory(context, place)
    return True


def remove_left_files(context: Context, left: str, *, owner: Table) -> None:
    """Remove the files from the directory that a table left, if the target chose it and the table owned them.

    Otherwise a later table of the same name would show them.
    """
    if owns_data(owner) and (context.policy.external_base is None or not is_external(owner)):
        remove_other_files(context, left, kept=frozenset())


def complete_renamed_table(event: TableAltered, context: Context) -> None:
    """Copy the files of a renamed table, if copies took files from its old directory after the rename."""
    before, after = event.before.value, event.after.value
    name = (after.tableName or "").lower()
    if not _may_lack_files(event, name, (before, after), after, context):
        return
    if after.partitionKeys:
        _complete_partitions(name, after, context)
    else:
        mirror_directory(context, after.sd.location, context.table_cache.location(name))
    note_copy(name, event.event_id, context)


def complete_renamed_partition(
    event: PartitionsAltered, before: Partition, owner: Table, context: Context
) -> None:
    """Copy the files of a renamed partition, if copies took files from its old directory after the rename."""
    table, after = event.table or "", event.after[0].value
    if not _may_lack_files(event, table, (before, after), owner, context):
        return
    name = format_partition_name(partition_key_names(owner), list(after.values or []))
    mirror_directory(context, after.sd.location, context.table_cache.location(table, name))
    note_copy(table, event.event_id, context)


def _may_lack_files(
    event: TableAltered | PartitionsAltered,
    table: str,
    states: tuple[Table, Table] | tuple[Partition, Partition],
    owner: Table,
    context: Context,
) -> bool:
    """Whether a rename moved a plain directory at the source, and copies for ``table`` may have taken
    files from its old place after that.
    """
    before, after = states
    return (
        before.sd.location != after.sd.location
        and context.tables.copied_ahead.covers(table, event.event_id)
        and not is_transactional(owner)
        and context.policy.copies_rows(table)
    )


def _complete_partitions(table: str, owner: Table, context: Context) -> None:
    """Complete all partitions, at their current locations at the source; skip those that the source no longer
    has.
    """
    names = context.target.partition_names(context.policy.target_db, table)
    keys = partition_key_names(owner)
    for some in in_pieces(names, BATCH):
        places = context.table_cache.locations(table, some)
        try:
            partitions = context.source.get_partitions(context.policy.source_db, table, some)
        except NotFound:
            return  # renamed again or dropped
        for each in partitions:
            place = places.get(format_partition_name(keys, list(each.values or [])))
            if place is not None:
                mirror_directory(context, each.sd.location, place)
