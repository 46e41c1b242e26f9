"""Tests whether directories exist and are not empty.

Without its mount, a network file system is an empty directory, and every path below it is missing. Without a
check, every source file would seem missing and every table empty, and files for the target would end up below
the mount point, where the mounted file system hides them later. A missing path therefore counts only if the
directories above it are there (``require_reachable``). HDFS and object stores have no mount points. There, a
source directory or a bucket that is missing or empty, and on HDFS a missing directory of the change manager,
counts as a mistake in the same way: a wrong address looks like this.

In an object store, one call takes tens of milliseconds. ``find_filled`` looks a few directories up one by
one, because the directory above them may have a million others. For more, it lists the directories above
them, each once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from handlers.files.filesystems import FileSystems
from handlers.files.paths import AllowedRoots, Location, printable
from state.errors import FilesUnavailable, NotFound, Refused, UnsafePath


_SINGLE_MAX: Final = 50
"""Number of directories above which it lists their parents."""


def require_reachable(file_systems: FileSystems, missing: Location, allowed: AllowedRoots) -> None:
    """Raise FilesUnavailable if ``missing``, a path of a source,
    may be missing because its file system is not mounted.

    It is mounted if one of the directories above the path, up to the directory that may be read, has entries.
    """
    place = missing
    while place.parent != place and any(root.contains(place.parent) for root in allowed.roots):
        place = place.parent
        if has_entries(file_systems, place):
            return
    raise FilesUnavailable(
        "the source's directory is missing or empty",
        path=printable(str(place)),
        hint="Mount the source's file system. If the directory is really empty, create a file in it.",
    )


def require_directory(file_systems: FileSystems, directory: Location) -> None:
    """Raise FilesUnavailable if a directory that must always exist is missing. Object stores have no
    directories.
    """
    if directory.scheme not in {"file", "hdfs"}:
        return
    try:
        file_systems.of(directory).stat(directory)
    except NotFound as missing:
        raise FilesUnavailable(
            "the directory is missing", path=printable(str(directory)), hint="Mount its file system."
        ) from missing
    except (Refused, UnsafePath):
        return  # a directory, or a link to one


def find_filled(files: FileSystems, root: Location, names: Sequence[str]) -> list[str]:
    """Return those of the relative paths ``names`` that are
    directories below ``root`` with something in them, in order.

    Raises UnsafePath for a path that leads elsewhere, and FilesUnavailable.
    """
    likely = names if len(names) <= _SINGLE_MAX else _find_listed(files, root, names)
    return [name for name in likely if has_entries(files, root.join(name))]


def has_entries(files: FileSystems, directory: Location) -> bool:
    """Whether a directory exists and has something in it."""
    return bool(_list_names(files, directory))


def _find_listed(files: FileSystems, root: Location, names: Sequence[str]) -> Iterable[str]:
    """Return the paths whose components are in the listings of the directories above them."""
    listed: dict[str, frozenset[str]] = {}

    def is_listed(above: str, name: str) -> bool:
        if above not in listed:
            listed[above] = _list_names(files, root.join(above) if above else root)
        return name in listed[above]

    def exists(path: str) -> bool:
        parts = path.split("/")
        return all(is_listed("/".join(parts[:depth]), part) for depth, part in enumerate(parts))

    return filter(exists, names)


def _list_names(files: FileSystems, directory: Location) -> frozenset[str]:
    try:
        return frozenset(entry.name for entry in files.of(directory).list(directory))
    except NotFound:
        return frozenset()
