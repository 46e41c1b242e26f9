"""Lists the files of one write of a source that does not report write events, in few listings.

This needs one listing for the directory of the table or partition, and one for each directory of the write
with unknown files. Before Hive 4, the base of a compaction has the name of an overwrite; the listing of a
base shows its marker too, so only a compaction costs another one.

The cleaner removes a directory only after the one that covers it has appeared. If a listing takes so long
that both may happen meanwhile, ``list_own_files`` reads the names again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from handlers.events import SourceFile
from handlers.files.acid_markers import METADATA, read_markers
from handlers.files.directories import require_reachable
from handlers.files.filesystems import Entry, FileSystem, FileSystems, is_hidden
from handlers.files.paths import AllowedRoots, Location, parse_location
from state.errors import LimitExceeded, NotFound
from state.transactions.acid_directories import AcidDirectory
from state.transactions.own_directories import select_own


FILES_MAX: Final = 1_000_000
CLEANING_S: Final = 0.5
"""Replacing and cleaning a directory takes longer; the cleaner's own pause is 5 s by default."""
_DEPTH_MAX: Final = 8
_SIDE_FILE: Final = "_flush_length"
"""End of the name of a file that says how much of another one is committed, while a stream is writing it."""


@dataclass(frozen=True, slots=True)
class OwnFile:
    """A file of the write, and its size."""

    file: SourceFile
    size_bytes: int


@dataclass(frozen=True, slots=True)
class OwnListing:
    """Files of a write in the directory of a table or partition."""

    files: tuple[OwnFile, ...] = ()
    covered_by: str | None = None
    """A directory that may have the rows of the write, so that its own files may be gone."""
    exists: bool = True
    """Whether the directory of the table or partition exists."""
    is_streamed: bool = False
    """Whether the write is in a directory of several transactions that a stream is writing."""


def list_own_files(
    file_systems: FileSystems,
    root_uri: str,
    write_id: int,
    *,
    named: Collection[str] = (),
    allowed: AllowedRoots,
    clock: Callable[[], float] = time.monotonic,
) -> OwnListing:
    """Return the files of ``write_id`` below ``root_uri``, except those in the directories ``named``, whose
    files are known.

    Raises UnsafePath, LimitExceeded above ``FILES_MAX``, and FilesUnavailable.
    """
    root = allowed.require_directory(parse_location(root_uri))
    files = file_systems.of(root)
    begin_s = clock()
    try:
        directories = _list_directories(files, root)
        found = _list_own(files, root, directories, write_id, named)
        if clock() - begin_s > CLEANING_S:
            directories |= _list_directories(files, root)
    except NotFound:
        require_reachable(file_systems, root, allowed)
        return OwnListing(exists=False)
    covered_by = select_own(directories.values(), write_id).covered_by
    is_streamed = covered_by is not None and _is_streaming(files, root, directories[covered_by])
    return OwnListing(tuple(found), covered_by, is_streamed=is_streamed)


def _list_directories(files: FileSystem, root: Location) -> dict[str, AcidDirectory]:
    parsed = (AcidDirectory.find(entry.name) for entry in files.list(root) if entry.is_directory)
    return {directory.name: directory for directory in parsed if directory is not None}


def _list_own(
    files: FileSystem,
    root: Location,
    directories: dict[str, AcidDirectory],
    write_id: int,
    named: Collection[str],
) -> list[OwnFile]:
    """Return the files of the write; mark the directories that turn out to be those of compactions."""
    found: list[OwnFile] = []
    for name in select_own(directories.values(), write_id).names:
        if name in named:
            continue
        try:
            content = files.list(root.child(name))
            if any(entry.name == METADATA for entry in content):
                directories[name] = read_markers(files, root, [directories[name]])[0]
            if not directories[name].is_compacted:
                found += _walk(files, root, name, content, FILES_MAX - len(found))
        except NotFound:  # the cleaner removed the directory, because another one has its rows
            directories[name] = replace(directories[name], is_marked=True)
    return found


def _walk(
    files: FileSystem, root: Location, subdir: str, content: Sequence[Entry], room: int, depth: int = 1
) -> list[OwnFile]:
    """Return the visible files among ``content``, the children of ``subdir``, and below."""
    if depth > _DEPTH_MAX:
        raise LimitExceeded("directories are nested too deeply", path=str(root.join(subdir)))
    found: list[OwnFile] = []
    for entry in content:
        if is_hidden(entry.name):
            continue
        path = f"{subdir}/{entry.name}"
        if entry.is_directory:
            found += _walk(files, root, path, files.list(root.join(path)), room - len(found), depth + 1)
        elif len(found) >= room:
            raise LimitExceeded("a directory contains too many files", path=str(root), files_max=FILES_MAX)
        else:
            found.append(OwnFile(SourceFile(str(root.join(path)), subdir=subdir), entry.size_bytes))
    return found


def _is_streaming(files: FileSystem, root: Location, directory: AcidDirectory) -> bool:
    """Whether a stream is writing into a directory of several transactions."""
    if directory.kind != "delta" or directory.first == directory.last:
        return False
    try:
        return any(entry.name.endswith(_SIDE_FILE) for entry in files.list(root.child(directory.name)))
    except NotFound:
        return False
