"""Files of tables without transactions: replay of INSERT events, and copies for other events of such tables.

A repeated event must not duplicate rows (Hive's own test IdempotentMoveTaskForInsertFiles): the verified copy replaces a file
of the same name and is never renamed to ``_copy_1``. A file keeps its path below the table's or partition's directory, because
the branches of a union write files of equal names into different sub-directories. An overwrite first adds the new files and then removes the others, so
that a reader sees the old rows, both, or the new rows, but never a missing table.
"""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from typing import TYPE_CHECKING

from handlers.files.copies import build_copy_task
from handlers.files.listing import keep_relative_path, list_plain_files
from handlers.files.paths import parse_location
from handlers.replication.target_objects import (
    format_partition_name,
    is_external,
    is_transactional,
    partition_key_names,
)
from state.errors import FileLost, NotFound


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.events import Inserted, SourceFile
    from handlers.files.pool import CopyHandle
    from handlers.replication.context import Context
    from handlers.structs.objects import Table


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
    overwrite = bool(event.replace) and bool(name) == bool(keys)  # never all partitions of a table at once
    copy_plain_files(context, files, location, owner=owner, overwrite=overwrite)


def find_source_root(event: Inserted, partition_name: str) -> str | None:
    """Return the directory at the source that an INSERT wrote into; None if the event does not contain it (Hive 2.3)."""
    if event.partition is not None:
        return event.partition.value.sd.location
    root = None if event.owner is None else event.owner.value.sd.location
    return f"{root}/{partition_name}" if root and partition_name else root


def copy_plain_files(
    context: Context, files: Sequence[SourceFile], location: str, *, owner: Table, overwrite: bool = False
) -> None:
    """Copy ``files`` of ``owner`` to the directory ``location`` and wait; with ``overwrite``, remove all other files there.

    Files of a managed table are copied as recorded, or FileLost is raised. The change manager keeps no files of external
    tables, because Hive does not own their data. Their current content is copied, and a missing file is skipped, because the
    statement that changed or removed it follows in the log.
    """
    external = is_external(owner)
    sources = [dataclasses.replace(file, checksum=None, cm_root=None) if external else file for file in files]
    tasks = [build_copy_task(file, location) for file in sources]
    handles = [context.copies.submit(task) for task in tasks]
    if external:
        _wait_for_existing(context, handles)
    else:
        context.copies.wait(handles)
    if overwrite:
        remove_other_files(context, location, kept=frozenset(task.target_uri for task in tasks))


def _wait_for_existing(context: Context, handles: Sequence[CopyHandle]) -> None:
    for handle in handles:
        with suppress(FileLost):
            context.copies.wait([handle])


def copy_current_files(context: Context, source_location: str | None, location: str, *, owner: Table) -> None:
    """Copy the files that are at the source now, for tables whose events list none because Hive calls them external.

    Hive 4 makes plain managed tables external and leaves the file lists of their CREATE_TABLE and ADD_PARTITION empty (§1.2),
    so this is the only way to get their first rows. The copy shows the directory at the time of replay; a later INSERT, which
    has a file list again, repeats what was copied too early and changes nothing.
    """
    if source_location is None:
        return
    try:
        files = list_plain_files(context.files, source_location, allowed=context.copies.allowed)
    except NotFound:
        return
    copy_plain_files(context, files, location, owner=owner)


def remove_other_files(context: Context, location: str, kept: frozenset[str]) -> None:
    """Remove the visible files below ``location`` that are not in ``kept``, as Hive does; the directory may be missing."""
    try:
        present = list_plain_files(context.files, location)
    except NotFound:
        return
    for file in present:
        if file.uri not in kept:
            remove_file(context, file.uri)


def remove_file(context: Context, uri: str) -> None:
    """Remove one file of the target; it may be missing."""
    location = parse_location(uri)
    context.files.of(location).remove(location)
