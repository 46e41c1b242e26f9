"""Reads the files of a write event, without those of other partitions.

A dynamic partition insert makes Hive log one write event for each partition. It selects the files of a partition by the beginning of
their paths and does not require a separator behind it, so the event of ``month=1`` also names the files of ``month=10`` (seen on
4.2, on all kinds of transactional tables). The files of a bucket have the same name in every partition: without this check, one
partition's rows would replace or double the other's on the target. The files that are left out are named by the write event of
their own partition.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from handlers.decoding.fields import parse_source_files
from handlers.structs import tjson
from handlers.structs.objects import Partition


if TYPE_CHECKING:
    from handlers.decoding.limits import Limits
    from handlers.events import SourceFile


_AUTHORITY: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")


def read_written_files(
    entries: tuple[str, ...], partition_name: str, partition_text: str | None, limits: Limits
) -> tuple[tuple[SourceFile, ...], tuple[str, ...]]:
    """Return the partition's files and their entries.

    ``partition_text`` is the partition's object; it is decoded only if a directory has another name than the partition.
    Raises MalformedEvent or LimitExceeded.
    """
    files = parse_source_files(entries, limits)
    named = f"/{partition_name}"
    if not partition_name or all(_directory(file).endswith(named) for file in files):
        return files, entries
    location = _find_location(partition_text)
    if location is None:
        return files, entries
    own = [not _only_begins_like(_directory(file), location) for file in files]
    return (
        tuple(file for file, is_own in zip(files, own, strict=True) if is_own),
        tuple(entry for entry, is_own in zip(entries, own, strict=True) if is_own),
    )


def _directory(file: SourceFile) -> str:
    """Return the directory of the file's partition: all in front of the ACID directory, or of the name if that is not in the path."""
    below = f"/{file.subdir}/" if file.subdir else "/"
    directory, found, _ = file.uri.rpartition(below)
    return directory if found else file.uri.rpartition("/")[0]


def _find_location(partition_text: str | None) -> str | None:
    if partition_text is None:
        return None
    location = tjson.decode(Partition, partition_text).sd.location
    return location.rstrip("/") if location else None


def _only_begins_like(directory: str, location: str) -> bool:
    """Whether ``directory`` is a sibling of ``location`` whose name continues that of ``location``."""
    path, start = (_AUTHORITY.sub("", each, count=1) for each in (directory, location))
    return path.startswith(start) and path[len(start) :][:1] not in {"", "/"}
