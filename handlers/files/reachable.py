"""Distinguishes a file system that is gone from a file that is gone.

While a network file system is not mounted, its mount point is an empty directory, and every path below it is missing. Taken
literally, every source file would be lost and every table empty, and files for the target would be written where the mounted file
system hides them later. A missing path therefore counts only if the directories above it are there.

HDFS and object stores have no mount points. There, a source directory or a bucket that is missing or empty, and on HDFS a missing
directory of the change manager, is taken for a mistake in the same way: a wrong address looks like this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.files.paths import printable
from state.errors import FilesUnavailable, NotFound, Refused, UnsafePath


if TYPE_CHECKING:
    from handlers.files.filesystems import FileSystems
    from handlers.files.paths import AllowedRoots, Location


def require_reachable(file_systems: FileSystems, missing: Location, allowed: AllowedRoots) -> None:
    """Raise FilesUnavailable if ``missing``, a path of a source, may be missing because its file system is not mounted.

    It is mounted if one of the directories above the path, up to the directory that may be read, has entries.
    """
    place = missing
    while place.parent != place and any(root.contains(place.parent) for root in allowed.roots):
        place = place.parent
        if _has_entries(file_systems, place):
            return
    raise FilesUnavailable(
        "the source's directory is missing or empty",
        path=printable(str(place)),
        hint="Mount the source's file system. If the directory is really empty, create a file in it.",
    )


def require_directory(file_systems: FileSystems, directory: Location) -> None:
    """Raise FilesUnavailable if a directory, which always exists, is missing. Object stores have no directories."""
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


def _has_entries(file_systems: FileSystems, directory: Location) -> bool:
    try:
        return bool(file_systems.of(directory).list(directory))
    except NotFound:
        return False
