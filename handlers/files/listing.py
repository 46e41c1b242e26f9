"""Lists files that no event names.

Hive omits the write events of some partitions (a multi-insert into several static partitions names only the first; reference:
hive-replication §0c.2), and a bootstrap copies what exists. Listed files have no recorded checksum; their copies are verified by
comparing the state of the source file before and after the copy.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from handlers.events import SourceFile
from handlers.files.filesystems import FileSystems, is_hidden
from handlers.files.paths import AllowedRoots, Location, parse_location
from state.errors import LimitExceeded, NotFound


if TYPE_CHECKING:
    from collections.abc import Iterator


FILES_MAX: Final = 1_000_000
_DEPTH_MAX: Final = 8
_COMPACTED: Final = re.compile(r"_v\d{1,19}", re.ASCII)


def list_write_directories(
    file_systems: FileSystems,
    root_uri: str,
    write_id: int,
    *,
    files_max: int = FILES_MAX,
    allowed: AllowedRoots | None = None,
) -> tuple[SourceFile, ...]:
    """Return the files that the transaction with ``write_id`` wrote below ``root_uri``, a table's or partition's location.

    They are in ``delta_<w>_<w>``, ``delete_delta_<w>_<w>`` (both with or without a statement id) and ``base_<w>``. Directories
    written by a compaction (``…_v0000012``) are used only if the original ones are gone. A root that is absent or has no such
    directories contains no files. Raises UnsafePath (also if the root is not in ``allowed``, before any file system is opened),
    LimitExceeded above ``files_max``, or FilesUnavailable.
    """
    assert write_id > 0, write_id
    root = _parse_root(root_uri, allowed)
    try:
        entries = file_systems.of(root).list(root)
    except NotFound:
        return ()
    written = [entry.name for entry in entries if entry.is_directory and _is_of_write(entry.name, write_id)]
    originals = [name for name in written if not _COMPACTED.search(name)]
    found: list[SourceFile] = []
    for name in originals or written:
        for file in _walk(file_systems, root, name, _DEPTH_MAX):
            _check_room(found, files_max, root)
            found.append(file)
    return tuple(found)


def list_plain_files(
    file_systems: FileSystems,
    root_uri: str,
    *,
    files_max: int = FILES_MAX,
    allowed: AllowedRoots | None = None,
) -> tuple[SourceFile, ...]:
    """Return the files directly in ``root_uri``, as Hive lists a plain table: without hidden files and directories.

    Raises NotFound if the directory does not exist; other errors as in ``list_write_directories``.
    """
    root = _parse_root(root_uri, allowed)
    found: list[SourceFile] = []
    for entry in file_systems.of(root).list(root):
        if not entry.is_directory and not is_hidden(entry.name):
            _check_room(found, files_max, root)
            found.append(SourceFile(str(root.child(entry.name))))
    return tuple(found)


def _parse_root(uri: str, allowed: AllowedRoots | None) -> Location:
    root = parse_location(uri)
    return root if allowed is None else allowed.require_directory(root)


def _is_of_write(name: str, write_id: int) -> bool:
    """Return whether ``name`` belongs to this write id: ``delta_5_5``, ``delta_0000005_0000005_0001_v12``, ``base_5``."""
    match = re.fullmatch(
        r"(?:base_(\d{1,19})|(?:delete_)?delta_(\d{1,19})_(\d{1,19})(?:_\d{1,10})?)(?:_v\d{1,19})?",
        name,
        re.ASCII,
    )
    return match is not None and all(int(part) == write_id for part in match.groups() if part is not None)


def _walk(file_systems: FileSystems, root: Location, subdir: str, depth: int) -> Iterator[SourceFile]:
    """Yield the files below ``subdir`` in order; unions create deeper levels (``HIVE_UNION_SUBDIR_1``)."""
    if depth == 0:
        raise LimitExceeded(
            "directories are nested too deeply", path=str(root.join(subdir)), depth_max=_DEPTH_MAX
        )
    directory = root.join(subdir)
    for entry in file_systems.of(root).list(directory):
        if is_hidden(entry.name):
            continue
        if entry.is_directory:
            yield from _walk(file_systems, root, f"{subdir}/{entry.name}", depth - 1)
        else:
            yield SourceFile(str(directory.child(entry.name)), subdir=subdir)


def _check_room(found: list[SourceFile], files_max: int, root: Location) -> None:
    if len(found) >= files_max:
        raise LimitExceeded("a directory contains too many files", path=str(root), files_max=files_max)
