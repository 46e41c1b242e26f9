"""Replay of inserts into tables without transactions: the files that an INSERT event lists are put beside the others.

A repetition must not double rows (Hive's own test IdempotentMoveTaskForInsertFiles): a file of the same name is replaced by
the verified copy, never renamed to ``_copy_1``. An overwrite puts the new files first and removes the others afterwards, so
that a reader sees the old rows, both, or the new rows, but never a missing table.
"""

from __future__ import annotations

from collections.abc import Sequence

from handlers.events import Inserted, SourceFile
from handlers.files import copy_task, list_plain_files, parse
from handlers.replication.context import Context
from handlers.replication.shaping import is_transactional, partition_keys, partition_name
from state.errors import NotFound


def insert(event: Inserted, context: Context) -> None:
    """Copy the event's files into the table or partition, and for an overwrite remove what was there before."""
    assert event.table is not None
    owner = context.seen.table(event.table)
    if is_transactional(owner):
        return
    keys = partition_keys(owner)
    part = ""
    if event.partition is not None:
        part = partition_name(keys, list(event.partition.value.values or []))
    elif event.spec:
        part = partition_name(keys, [event.spec[key] for key in keys])
    try:
        place = context.seen.place(event.table, part)
    except NotFound:
        return
    copy_plain_files(context, event.files, place, replace=bool(event.replace))


def copy_plain_files(context: Context, files: Sequence[SourceFile], place: str, *, replace: bool) -> None:
    """Copy ``files`` to ``place`` (a directory's URI), waiting for all; with ``replace`` nothing else stays there.

    Raises FileLost where a file is neither at the source nor in the change manager.
    """
    tasks = [copy_task(file, place) for file in files]
    context.copies.wait([context.copies.submit(task) for task in tasks])
    if replace:
        remove_others(context, place, kept=frozenset(task.target_uri for task in tasks))


def remove_others(context: Context, place: str, kept: frozenset[str]) -> None:
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
    location = parse(uri)
    context.files.of(location).remove(location)
