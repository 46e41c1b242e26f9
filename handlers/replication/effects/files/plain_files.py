"""Files of tables without transactions: replay of INSERT events, and copies for other events of such tables.

A repeated event must not duplicate rows (Hive's own test IdempotentMoveTaskForInsertFiles): the verified copy
replaces a file of the same name and is never renamed to ``_copy_1``. A file keeps its path below the table's
or partition's directory, because the branches of a union write files of equal names into different
sub-directories. An overwrite first adds the new files and then removes the others: a reader sees the old
rows, both, or the new rows, but never a missing table. If files of the overwrite no longer exist, the table
keeps its rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from handlers.events import Inserted, SourceFile
from handlers.files.copying.copies import build_copy_task
from handlers.files.listing import keep_relative_path, list_plain_files
from handlers.files.paths import parse_location
from handlers.replication.context import Context
from handlers.replication.tables.table_entries import UNKNOWN
from handlers.replication.target.objects import (
    format_partition_name,
    is_external,
    is_transactional,
    owns_data,
    partition_key_names,
)
from handlers.structs.objects import Table
from state.errors import FileLost, NotFound, Transient
from state.pieces import in_pieces


_BATCH: Final = 5_000
"""Files copied together."""


def insert(event: Inserted, context: Context) -> None:
    """Copy the event's files into the table or partition; for an overwrite, remove all other files there."""
    assert event.table is not None
    owner = context.table_cache.table(event.table)
    if is_transactional(owner):
        return
    keys = partition_key_names(owner)
    name = ""
    if event.partition is not None:
        name = format_partition_name(keys, list(event.partition.value.values or []))
    elif event.spec:
        name = format_partition_name(keys, [event.spec[key] for key in keys])
    try:
        location = context.table_cache.location(event.table, name)
    except NotFound:
        return
    source_root = find_source_root(event, name)
    files = [keep_relative_path(file, source_root) for file in event.files]
    if event.replace and bool(name) == bool(keys):  # never all partitions of a table at once
        overwrite(context, files, location, owner=owner, source_root=source_root)
    else:
        copy_plain_files(context, files, location, owner=owner)
    record_copy(event.table, owner, event.event_id, context)


def find_source_root(event: Inserted, partition_name: str) -> str | None:
    """Return the directory at the source that an INSERT wrote into;
    None if the event does not contain it (Hive 2.3).
    """
    if event.partition is not None:
        return event.partition.value.sd.location
    root = None if event.owner is None else event.owner.value.sd.location
    return f"{root}/{partition_name}" if root and partition_name else root


def overwrite(
    context: Context, files: Sequence[SourceFile], location: str, *, owner: Table, source_root: str | None
) -> None:
    """Replace the files in ``location`` with ``files``.

    If some of them no longer exist, a later statement has replaced or removed them. The table then gets the
    current files of the source, but is never emptied, because the files may have vanished without a
    statement.

    Without ``files``, the statement removed all files or, if it was a CONCATENATE that merged nothing, none;
    Hive logs both in the same way. The current files of the source decide.
    """
    if files:
        complete = copy_plain_files(context, files, location, owner=owner)
    else:
        files = _list_source(context, source_root) or ()
        complete = _copy_existing(context, files, location)
    if complete:
        remove_other_files(context, location, kept=_target_uris(files, location))
    else:
        mirror_directory(context, source_root, location, may_be_empty=False)


def copy_plain_files(context: Context, files: Sequence[SourceFile], location: str, *, owner: Table) -> bool:
    """Copy ``files`` of ``owner`` to the directory ``location`` and wait; return whether all of them exist.

    Copies files of a managed table as recorded, or raises FileLost. The change manager keeps no files of
    external tables, because Hive does not own their data. So this copies their current content, and skips
    missing files: the statement that changed, removed or renamed them follows in the log
    (``moves.complete_renamed_table``).
    """
    if is_external(owner):
        return _copy_existing(context, files, location)
    for some in in_pieces(files, _BATCH):
        context.copies.wait([context.copies.submit(build_copy_task(file, location)) for file in some])
    return True


def _copy_existing(context: Context, files: Sequence[SourceFile], location: str) -> bool:
    """Copy the current content of those ``files`` that exist; return whether all do."""
    complete = True
    for some in in_pieces(files, _BATCH):
        current = [dataclasses.replace(file, checksum=None, cm_root=None) for file in some]
        for handle in [context.copies.submit(build_copy_task(file, location)) for file in current]:
            try:
                context.copies.wait([handle])
            except FileLost:
                complete = False
    return complete


def _target_uris(files: Sequence[SourceFile], location: str) -> frozenset[str]:
    return frozenset(build_copy_task(file, location).target_uri for file in files)


def copy_first_files(
    context: Context, files: Sequence[SourceFile], source_location: str | None, location: str, *, owner: Table
) -> None:
    """Copy the first files of a new table or partition:
    ``files`` if its event lists some, otherwise those at the source now.

    Hive 4 makes plain managed tables external and leaves the file lists of their CREATE_TABLE and
    ADD_PARTITION empty (hive-replication.md §1.2), so this is the only way to get their first rows. The copy
    shows the directory at the time of replay; a later INSERT, which has a file list again, repeats the early
    copies and changes nothing.

    An external table may have left files in that directory. Hive removes them in a CREATE TABLE AS SELECT.
    Therefore files that the source does not have go, if the new table owns its data. The deletions of other
    tables come with cycles.
    """
    if not files and not is_external(owner):
        return
    present = _list_source(context, source_location)
    first = _add_sub_directories(files, present or (), source_location) if files else present or ()
    copy_plain_files(context, first, location, owner=owner)
    if owns_data(owner) and present is not None:
        remove_other_files(context, location, kept=_target_uris([*first, *present], location))


def _add_sub_directories(
    files: Sequence[SourceFile], present: Sequence[SourceFile], source_location: str | None
) -> list[SourceFile]:
    """Return the file list of a CREATE_TABLE or ADD_PARTITION with the files in sub-directories.

    Hive lists only the direct entries of the directory, sub-directories included, as if they were files
    (DbNotificationListener).
    """
    below = [file for file in present if file.subdir]
    root = "" if source_location is None else parse_location(source_location).path.rstrip("/")
    directories = {f"{root}/{file.subdir.partition('/')[0]}" for file in below}
    direct = [file for file in files if parse_location(file.uri).path not in directories]
    uris = {file.uri for file in direct}
    return [
        *(keep_relative_path(file, source_location) for file in direct),
        *(file for file in below if file.uri not in uris),
    ]


def mirror_directory(
    context: Context, source_location: str | None, location: str, *, may_be_empty: bool = True
) -> None:
    """Copy the files that are at the source now,
    and remove all others from ``location``, which exists afterwards.

    Removes nothing if the source has no such directory, or an empty one without ``may_be_empty``.
    """
    make_directory(context, location)
    files = _list_source(context, source_location)
    if files is None or not (files or may_be_empty):
        return
    _copy_existing(context, files, location)
    remove_other_files(context, location, kept=_target_uris(files, location))


def _list_source(context: Context, source_location: str | None) -> Sequence[SourceFile] | None:
    """Return the files at the source, reading only below the allowed directories; None if there is no
    directory.

    With ``external_base``, the cycles over external tables report the unusable names: one such file fails no
    table.
    """
    if source_location is None:
        return None
    try:
        return list_plain_files(
            context.files,
            source_location,
            allowed=context.copies.allowed,
            skips_unsafe=context.policy.external_base is not None,
        )
    except NotFound:
        return None


def remove_other_files(context: Context, location: str, kept: frozenset[str]) -> None:
    """Remove the visible files below ``location`` that are not in ``kept``, as Hive does;
    the directory may be missing.
    """
    try:
        present = list_plain_files(context.files, location)
    except NotFound:
        return
    for file in present:
        if file.uri not in kept:
            remove_file(context, file.uri)


def has_directory(context: Context, uri: str) -> bool:
    """Return whether the target has a directory."""
    location = parse_location(uri)
    try:
        context.files.of(location).list(location)
    except NotFound:
        return False
    return True


def make_directory(context: Context, uri: str) -> None:
    """Create a directory of the target, if it does not exist;
    Hive does so when it adds a table or partition, but not when it alters one.
    """
    context.target_position.require_held()
    location = parse_location(uri)
    context.files.of(location).make_directory(location)


def remove_directory(context: Context, uri: str) -> None:
    """Remove a directory of the target with all its files; it may be missing."""
    context.target_position.require_held()
    location = parse_location(uri)
    context.files.of(location).remove_tree(location)


def remove_file(context: Context, uri: str) -> None:
    """Remove one file of the target; it may be missing."""
    context.target_position.require_held()
    location = parse_location(uri)
    context.files.of(location).remove(location)


def record_copy(table: str, owner: Table, event_id: int, context: Context) -> None:
    """Record copies of ``table``'s files for the event if the table is external, because such copies take
    the current state of the files.
    """
    if is_external(owner) and not is_transactional(owner):
        note_copy(table, event_id, context)


def note_copy(table: str, event_id: int, context: Context) -> None:
    """Record copies that took the current state of ``table``'s files for the event."""
    try:
        newest = context.source.current_event_id()
    except Transient:
        newest = UNKNOWN
    context.tables.copied_ahead.record(table, newest, event_id)
