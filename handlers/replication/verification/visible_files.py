"""Lists the files of a table or partition that readers see. It skips directories that readers do not see. If
files vanish meanwhile, both sides differ, and verification compares them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from handlers.files.acid_markers import is_ignored_base, read_markers
from handlers.files.copying.transfer import Transfer
from handlers.files.filesystems import FileSystem, is_hidden
from handlers.files.paths import Location, is_safe_name
from handlers.replication.verification.file_rules import AcidFiles, Directory, FileFacts, Files
from state.errors import LimitExceeded, NotFound
from state.transactions.acid_directories import AcidDirectory, is_hidden_original, select_directories
from state.transactions.valid_write_ids import ValidWriteIds


DEPTH_MAX: Final = 8
FILES_MAX: Final = 1_000_000
"""Files in one directory tree."""


def list_acid_files(
    files: FileSystem,
    root: Location,
    write_ids: ValidWriteIds,
    read_md5: Callable[[Location], str] | None = None,
) -> AcidFiles:
    """Return the files of the ACID directories in ``root`` that readers with ``write_ids`` see."""
    try:
        entries = files.list(root)
    except NotFound:
        return {}
    parsed = (AcidDirectory.parse(entry.name) for entry in entries if entry.is_directory)
    directories = read_markers(files, root, parsed)
    visible = [each for each in directories if _may_be_visible(each, write_ids)]
    return _list_selected(files, root, visible, _hide_open(write_ids), read_md5)


def _list_selected(
    files: FileSystem,
    root: Location,
    directories: list[AcidDirectory],
    ended: ValidWriteIds,
    read_md5: Callable[[Location], str] | None,
) -> AcidFiles:
    """Return the files of the directories that readers see, and those directly in the root."""
    acid_files: AcidFiles = {}
    for directory in _select_visible(directories, ended):
        if directory.name:
            own = list_tree(files, root.child(directory.name), read_md5)
            if not own and directory.name.startswith("base_") and _is_ignored(files, root, directory.name):
                others = [each for each in directories if each.name != directory.name]
                return _list_selected(files, root, others, ended, read_md5)
            acid_files[directory] = own
            continue
        own = list_tree(files, root, read_md5, skip=lambda path: _is_no_original(path, ended))
        if own:
            acid_files[directory] = own
    return acid_files


def _is_ignored(files: FileSystem, root: Location, base: str) -> bool:
    """Whether readers ignore a base without visible files, or it was removed meanwhile."""
    try:
        return is_ignored_base(files.list(root.child(base)))
    except NotFound:
        return True


def _may_be_visible(directory: AcidDirectory, write_ids: ValidWriteIds) -> bool:
    """Whether readers may see a directory: the base of a compaction, or a base with a suffix, is hidden
    while its write id or a lower one is open (``transactions.copies.base_names``).
    """
    if directory.kind != "base" or not directory.is_compacted:
        return True
    return not write_ids.has_open_up_to(directory.last)


def _is_no_original(path: str, ended: ValidWriteIds) -> bool:
    """Whether a directory belongs to a write or is skipped by readers, so that it has no files from before
    the table was transactional.
    """
    if "/" not in path:
        return AcidDirectory.parse(path) is not None
    return is_hidden_original(path, ended)


def _hide_open(write_ids: ValidWriteIds) -> ValidWriteIds:
    """Return the list with its open write ids as aborted ones: readers do not see those either."""
    hidden = tuple(sorted({*write_ids.open, *write_ids.aborted}))
    return ValidWriteIds(write_ids.table, write_ids.high_water_mark, (), hidden)


def _select_visible(directories: Iterable[AcidDirectory], ended: ValidWriteIds) -> list[Directory]:
    """Return the directories that a reader sees whose write-id list has no open ids.

    A compaction may end between the reads of list and directory, and replace rows that the list contains by
    later ones. Then it returns nothing; both sides differ, and verification compares them again.
    """
    selected = select_directories(directories, ended, is_ended=lambda _: True, is_committed=lambda _: False)
    if selected.beyond is not None:
        return []
    by_name = {each.name: each for each in directories}
    own = [Directory.of(by_name[name]) for name in selected.names]
    return [*([Directory("")] if selected.originals else []), *own]


def list_tree(
    files: FileSystem,
    root: Location,
    read_md5: Callable[[Location], str] | None,
    skip: Callable[[str], bool] = lambda _: False,
) -> Files:
    """Return the visible files below ``root``; none if it does not exist, or was removed meanwhile."""
    tree: Files = {}
    for path, location, size_bytes in _walk(files, root, "", DEPTH_MAX, skip):
        tree[path] = FileFacts(size_bytes, read_md5(location) if read_md5 and location else None)
        if len(tree) > FILES_MAX:
            raise LimitExceeded("a directory contains too many files", path=str(root), files_max=FILES_MAX)
    return tree


def _walk(
    files: FileSystem, directory: Location, below: str, depth: int, skip: Callable[[str], bool]
) -> Iterator[tuple[str, Location | None, int]]:
    """Yield path, location and size of each file. An unusable name has no location: it is never copied, and
    is a difference.
    """
    if depth == 0:
        raise LimitExceeded("directories are nested too deeply", path=str(directory), depth_max=DEPTH_MAX)
    try:
        entries = files.list(directory)
    except NotFound:
        return
    for entry in entries:
        path = below + entry.name
        if is_hidden(entry.name) or skip(path):
            continue
        at = directory.child(entry.name) if is_safe_name(entry.name) else None
        if at is not None and entry.is_directory:
            yield from _walk(files, at, f"{path}/", depth - 1, skip)
        else:
            yield path, at, entry.size_bytes


def read_md5(files: FileSystem, location: Location) -> str:
    """Return the MD5 of the content; an empty text for a file removed meanwhile."""
    try:
        with files.open(location) as reader:
            return Transfer().compute_md5(reader)
    except NotFound:
        return ""
