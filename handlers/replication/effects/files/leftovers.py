"""Files that a dropped table or partition left in its directory.

Hive first drops a table or partition in its database, and then removes the files. If the removal fails, the
metastore only logs the error (``HMSHandler.deleteTableData``), and a killed metastore does not repeat it.
Readers choose files by the names of their directories, so a new transactional table or partition in the
directory would show the old rows. For plain ones, ``copy_first_files`` compares the directory with the
source.

Replay therefore removes these files after a drop, before adding a partition, and after creating a table.
Replay records the position between a drop and a later creation of the same table, so a repeated drop never
removes files of the new table.

Hive also refuses a rename whose new directory exists (``HiveAlterHandler``). In an object store, a killed
metastore leaves such a directory, because it copies all objects (of large tables: a few hundred) before it
removes them from the former directory.

Never removes a directory that contains any table or partition of the target database.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import structlog

from handlers.files.directories import find_filled, has_entries
from handlers.files.paths import Location, parse_location
from handlers.files.table_listing import TableDirectory
from handlers.metastore.objects.partitions import BATCH
from handlers.replication.context import Context
from handlers.replication.effects.files.plain_files import has_directory, make_directory, remove_directory
from handlers.replication.target.objects import is_transactional, owns_data
from handlers.structs.objects import Table
from state.pieces import in_pieces


log = structlog.get_logger(__name__)

_TABLES_PAGE: Final = 100


def clear_table(name: str, context: Context) -> None:
    """Empty the directory of a new transactional table."""
    if not is_transactional(context.table_cache.table(name)):
        return
    place = parse_location(context.table_cache.location(name))
    if has_entries(context.files, place) and remove_unused([place], context, but_for=name):
        make_directory(context, str(place))


def clear_partitions(owner: Table, names: Sequence[str], context: Context) -> None:
    """Remove the directories of partitions before adding them to a transactional table, except for those it
    already has.
    """
    if not is_transactional(owner) or owner.sd.location is None:
        return
    root = parse_location(owner.sd.location)
    filled = find_filled(context.files, root, names)
    present = context.table_cache.locations(_name(owner), filled) if filled else {}
    remove_unused([root.join(name) for name in filled if name not in present], context)


def remove_dropped_table(table: Table, context: Context) -> None:
    """Remove the directory of a table dropped with its files, if the metastore did not."""
    if owns_data(table) and table.sd.location and has_directory(context, table.sd.location):
        remove_unused([parse_location(table.sd.location)], context)


def remove_dropped_partitions(owner: Table, names: Sequence[str], context: Context) -> None:
    """Remove the directories of partitions dropped with their files, if the metastore did not."""
    if owns_data(owner) and owner.sd.location:
        root = parse_location(owner.sd.location)
        remove_unused([root.join(name) for name in find_filled(context.files, root, names)], context)


def make_room(place: str, moved: str, context: Context) -> bool:
    """Remove the directory ``moved``, whose existence prevented a rename of ``place``; return whether it was
    removed.

    Removes it only if ``place`` still has all its files, because a killed metastore may have moved some.
    """
    if not has_directory(context, place) or not has_directory(context, moved):
        return False
    if not _find_files(moved, context) <= _find_files(place, context):
        return False
    return remove_unused([parse_location(moved)], context)


def _find_files(directory: str, context: Context) -> set[tuple[str, str, int]]:
    """Return the path below ``directory``, the name and the size of each visible file."""
    listing = TableDirectory(context.files, directory)
    return {
        (each.file.subdir, parse_location(each.file.uri).name, each.size_bytes)
        for each in listing.read_files(listing.names)
    }


def remove_unused(places: Collection[Location], context: Context, *, but_for: str = "") -> bool:
    """Remove the directories that contain neither a partition nor a table other than ``but_for``; return
    whether that applied to all of them.
    """
    used = find_used(places, context, but_for=but_for)
    for place in places:
        if place in used:
            log.warning("a leftover directory is used by another table or partition", directory=str(place))
        else:
            log.warning("a leftover directory is removed", directory=str(place))
            remove_directory(context, str(place))
    return not used


def find_used(places: Collection[Location], context: Context, *, but_for: str = "") -> set[Location]:
    """Return the directories that contain a partition, or a table other than ``but_for``, of the target
    database.
    """
    directories = set(places)
    above = {each for place in directories for each in _list_ancestors(place)}
    used: set[Location] = set()
    for table in _list_tables(context) if directories else ():
        if not table.sd.location:
            continue
        at = parse_location(table.sd.location)
        if _name(table) != but_for:
            used |= directories & set(_list_ancestors(at))
        if at in above and table.partitionKeys:
            for each in _list_partitions(table, context):
                used |= directories & set(_list_ancestors(each))
    return used


def _list_ancestors(location: Location) -> Iterator[Location]:
    """Yield the location and the directories that it is in."""
    while location.parent != location:
        yield location
        location = location.parent


def _list_tables(context: Context) -> Iterator[Table]:
    db = context.policy.target_db
    names = context.target.table_names(db)
    for piece in in_pieces(names, _TABLES_PAGE):
        yield from context.target.get_tables(db, piece)


def _list_partitions(table: Table, context: Context) -> Iterator[Location]:
    db = context.policy.target_db
    names = context.target.partition_names(db, _name(table))
    for piece in in_pieces(names, BATCH):
        for each in context.target.get_partitions(db, _name(table), piece):
            if each.sd.location:
                yield parse_location(each.sd.location)


def _name(table: Table) -> str:
    return (table.tableName or "").lower()
