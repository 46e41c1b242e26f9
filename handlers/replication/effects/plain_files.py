"""Replay of inserts into tables without transactions: the files that an INSERT event lists are put beside the others.

A repetition must not double rows (Hive's own test IdempotentMoveTaskForInsertFiles): a file of the same name is replaced by
the verified copy, never renamed to ``_copy_1``. An overwrite puts the new files first and removes the others afterwards, so
that a reader sees the old rows, both, or the new rows, but never a missing table.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace as replaced
from typing import TYPE_CHECKING

from handlers.files.copies import build_copy_task
from handlers.files.listing import list_plain_files
from handlers.files.paths import parse_location
from handlers.replication.target_objects import (
    is_external,
    is_transactional,
    partition_key_names,
    partition_name,
)
from state.errors import FileLost, NotFound


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.events import Inserted, SourceFile
    from handlers.files.pool import CopyHandle
    from handlers.replication.context import Context
    from handlers.structs.objects import Table


def insert(event: Inserted, context: Context) -> None:
    """Copy the event's files into the table or partition, and for an overwrite remove what was there before."""
    assert event.table is not None
    owner = context.table_cache.table(event.table)
    if is_transactional(owner):
        return
    keys = partition_key_names(owner)
    part = ""
    if event.partition is not None:
        part = partition_name(keys, list(event.partition.value.values or []))
    elif event.spec:
        part = partition_name(keys, [event.spec[key] for key in keys])
    try:
        place = context.table_cache.location(event.table, part)
    except NotFound:
        return
    copy_plain_files(context, event.files, place, owner=owner, replace=bool(event.replace))


def copy_plain_files(
    context: Context, files: Sequence[SourceFile], place: str, *, owner: Table, replace: bool = False
) -> None:
    """Copy ``files`` of ``owner`` to ``place`` (a directory's URI), waiting for all; with ``replace`` nothing else stays there.

    A managed table's files are copied as recorded, or FileLost is raised. The change manager keeps nothing of external tables,
    whose data Hive does not own: of theirs the content of now is taken, and what is gone is passed over, because the statement
    that changed or removed it follows in the log.
    """
    external = is_external(owner)
    wanted = [replaced(file, checksum=None, cm_root=None) if external else file for file in files]
    tasks = [build_copy_task(file, place) for file in wanted]
    handles = [context.copies.submit(task) for task in tasks]
    if external:
        _wait_for_existing(context, handles)
    else:
        context.copies.wait(handles)
    if replace:
        remove_other_files(context, place, kept=frozenset(task.target_uri for task in tasks))


def _wait_for_existing(context: Context, handles: Sequence[CopyHandle]) -> None:
    for handle in handles:
        with suppress(FileLost):
            context.copies.wait([handle])


def copy_current_files(context: Context, source_place: str | None, place: str, *, owner: Table) -> None:
    """Copy the files that lie at the source now: for tables whose events name none because Hive calls them external.

    Hive 4 makes plain managed tables external ones, and leaves the file lists of their CREATE_TABLE and ADD_PARTITION empty
    (§1.2), so this is the only way to their first rows. It shows the place as it is when the event is replayed: a later
    INSERT, which has a list again, repeats what was seen too early and changes nothing.
    """
    if source_place is None:
        return
    try:
        files = list_plain_files(context.files, source_place)
    except NotFound:
        return
    copy_plain_files(context, files, place, owner=owner)


def remove_other_files(context: Context, place: str, kept: frozenset[str]) -> None:
    """Remove the visible files directly in ``place`` that are not in ``kept``; a missing directory is no error."""
    try:
        present = list_plain_files(context.files, place)
    except NotFound:
        return
    for file in present:
        if file.uri not in kept:
            remove_file(context, file.uri)


def remove_file(context: Context, uri: str) -> None:
    """Remove one file of the target; an absent one is no error."""
    location = parse_location(uri)
    context.files.of(location).remove(location)
