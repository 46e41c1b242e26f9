"""Lists files that no event names.

Hive omits the write events of some partitions (a multi-insert into several static partitions names only the
first; reference: hive-replication.md §0c.2), and a bootstrap copies existing files. Listed files have no
recorded checksum; verifying their copies compares the state of the source file before and after the copy.

Plain tables have sub-directories too: a union writes ``HIVE_UNION_SUBDIR_1`` and ``_2`` with files of equal
names, list bucketing writes one directory for each skewed value, and Hive may read external tables
recursively (``mapreduce.input.fileinputformat.input.dir.recursive``). Hive lists them recursively, and an
overwrite removes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from handlers.events import SourceFile
from handlers.files.acid_markers import read_markers
from handlers.files.directories import require_reachable
from handlers.files.filesystems import Entry, FileSystems, is_hidden, is_unfinished
from handlers.files.paths import AllowedRoots, Location, is_safe_name, parse_location
from state.errors import LimitExceeded, NotFound
from state.transactions.acid_directories import AcidDirectory


FILES_MAX: Final = 1_000_000
_DEPTH_MAX: Final = 8
_PLAIN_DEPTH_MAX: Final = 32
_UNION: Final = re.compile(r"HIVE_UNION_SUBDIR_\d{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class WriteListing:
    """The files of one write in a table's or partition's directory, and the other entries there."""

    files: tuple[SourceFile, ...] = ()
    exists: bool = True
    """Whether the directory exists."""
    compacted: bool = False
    """Whether a compaction may have merged the files of the write with those of others."""
    others: bool = False
    """Whether there are directories of other writes."""

    @property
    def conclusive(self) -> bool:
        """Whether the write has exactly these files: none of them can be missing."""
        return bool(self.files) or (self.exists and not self.compacted)

    @property
    def explains_rows(self) -> bool:
        """Whether all rows that the statistics report may be in these files, or in files of other writes."""
        return bool(self.files) or (self.others and not self.compacted)


def list_write(
    file_systems: FileSystems,
    root_uri: str,
    write_id: int,
    *,
    files_max: int = FILES_MAX,
    allowed: AllowedRoots | None = None,
) -> WriteListing:
    """Return the files that the transaction with ``write_id`` wrote below ``root_uri``,
    a table's or partition's location.

    They are in ``delta_<w>_<w>``, ``delete_delta_<w>_<w>`` (both with or without a statement id) and
    ``base_<w>``. Directories written by a compaction (``…_v0000012``) count only if the original ones are
    gone, and a base with the mark of a compaction never: it has the rows of other writes, too. Raises
    UnsafePath (even before any file system is opened, if the root is not in ``allowed``), LimitExceeded above
    ``files_max``, or FilesUnavailable.
    """
    assert write_id > 0, write_id
    root = _parse_root(root_uri, allowed)
    try:
        entries = file_systems.of(root).list(root)
    except NotFound:
        if allowed is not None:
            require_reachable(file_systems, root, allowed)
        return WriteListing(exists=False)
    directories = _read_acid_directories(file_systems, root, entries)
    written = [each for each in directories if each.first == each.last == write_id and not each.is_marked]
    others = [each for each in directories if each not in written]
    originals = [each for each in written if not each.is_compacted]
    files: list[SourceFile] = []
    for directory in originals or written:
        for file in _walk(file_systems, root, directory.name, _DEPTH_MAX):
            _check_room(files, files_max, root)
            files.append(file)
    compacted = any(_may_contain(other, write_id) for other in others)
    return WriteListing(tuple(files), compacted=compacted, others=bool(others))


def _read_acid_directories(
    file_systems: FileSystems, root: Location, entries: Iterable[Entry]
) -> list[AcidDirectory]:
    parsed = (AcidDirectory.find(entry.name) for entry in entries if entry.is_directory)
    return read_markers(file_systems.of(root), root, parsed)


def _may_contain(directory: AcidDirectory, write_id: int) -> bool:
    """Return whether ``directory`` may have rows of the write together with rows of other writes."""
    if not directory.is_merged:
        return False
    first = 0 if directory.kind == "base" else directory.first
    return first <= write_id <= directory.last


def has_files_of_ended_writes(
    file_systems: FileSystems, root_uri: str, mark: int, opened: frozenset[int], *, allowed: AllowedRoots
) -> bool:
    """Whether a transactional table's or partition's directory has files of no transaction,
    or of a write up to ``mark``.

    The write ids ``opened`` do not count. Raises NotFound if the directory does not exist; other errors as in
    ``list_write``.
    """
    root = _parse_root(root_uri, allowed)
    try:
        entries = file_systems.of(root).list(root)
    except NotFound:
        require_reachable(file_systems, root, allowed)
        raise
    acid = {each.name: each for each in _read_acid_directories(file_systems, root, entries)}
    for entry in entries:
        if is_hidden(entry.name) or not _has_ended(acid.get(entry.name), mark, opened):
            continue
        if not entry.is_directory:
            return True
        # Below may be the partition of a renamed table, with directories of writes in it.
        files = _walk(file_systems, root, entry.name, _DEPTH_MAX)
        if any(
            all(_has_ended(AcidDirectory.find(name), mark, opened) for name in file.subdir.split("/")[1:])
            for file in files
        ):
            return True
    return False


def _has_ended(directory: AcidDirectory | None, mark: int, opened: frozenset[int]) -> bool:
    """Whether a directory may have rows of no transaction,
    or of a write id up to ``mark`` that is not open.
    """
    if directory is None:
        return True
    first = 1 if directory.kind == "base" and directory.is_compacted else directory.first
    last = min(directory.last, mark)
    return last - first + 1 > sum(first <= write_id <= last for write_id in opened)


def list_plain_files(
    file_systems: FileSystems,
    root_uri: str,
    *,
    files_max: int = FILES_MAX,
    allowed: AllowedRoots | None = None,
    skips_unsafe: bool = False,
) -> tuple[SourceFile, ...]:
    """Return the visible files of a plain table or partition in ``root_uri``, including those in
    sub-directories.

    The ``subdir`` of a file is its directory relative to the root. The list leaves out hidden files and
    directories and, at the source (with ``allowed``), files that are still being written. With
    ``skips_unsafe``, it leaves out unusable names as well. Raises NotFound if the root does not exist; other
    errors as in ``list_write``.
    """
    root = _parse_root(root_uri, allowed)
    files: list[SourceFile] = []
    try:
        for file in _walk(file_systems, root, "", _PLAIN_DEPTH_MAX, skips_unsafe=skips_unsafe):
            _check_room(files, files_max, root)
            if allowed is None or not is_unfinished(file.uri):
                files.append(file)
    except NotFound:
        if allowed is not None:
            require_reachable(file_systems, root, allowed)
        raise
    return tuple(files)


def keep_relative_path(file: SourceFile, root_uri: str | None) -> SourceFile:
    """Return an entry of a plain table's file list with its directory below ``root_uri``,
    its table's or partition's location.

    Events name such files by their URI alone. The function compares only the paths, because one namenode has
    several authorities. Of the directories of a file outside the root, it keeps only those of a union.
    """
    if file.subdir:
        return file
    directory = parse_location(file.uri).parent.path
    root = "" if root_uri is None else parse_location(root_uri).path.rstrip("/")
    if root_uri is not None and directory.startswith(root + "/"):
        return replace(file, subdir=directory.removeprefix(root + "/"))
    name = directory.rpartition("/")[2]
    return replace(file, subdir=name) if directory != root and _UNION.fullmatch(name) else file


def _parse_root(uri: str, allowed: AllowedRoots | None) -> Location:
    root = parse_location(uri)
    return root if allowed is None else allowed.require_directory(root)


def _walk(
    file_systems: FileSystems, root: Location, subdir: str, depth: int, *, skips_unsafe: bool = False
) -> Iterator[SourceFile]:
    """Yield the visible files below ``subdir`` ("" for the root itself) in order;
    a sub-directory may vanish meanwhile.
    """
    directory = root.join(subdir) if subdir else root
    if depth == 0:
        raise LimitExceeded("directories are nested too deeply", path=str(directory))
    for entry in file_systems.of(root).list(directory):
        if is_hidden(entry.name) or (skips_unsafe and not is_safe_name(entry.name)):
            continue
        if entry.is_directory:
            below = f"{subdir}/{entry.name}" if subdir else entry.name
            with suppress(NotFound):
                yield from _walk(file_systems, root, below, depth - 1, skips_unsafe=skips_unsafe)
        else:
            yield SourceFile(str(directory.child(entry.name)), subdir=subdir)


def _check_room(files: list[SourceFile], files_max: int, root: Location) -> None:
    if len(files) >= files_max:
        raise LimitExceeded("a directory contains too many files", path=str(root), files_max=files_max)
