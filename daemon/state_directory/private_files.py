"""Makes the files of the state directory accessible to the daemon's user only.

They contain positions, users' queries and messages of other systems. New files get the mode 0600 and new
directories 0700. At start, the daemon removes the rights of other users from existing files. It only reports
files of another user, and a state directory with wider rights, which other programs may share.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import structlog


log = structlog.get_logger(__name__)

OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
REPORTED_MAX: Final = 10
_DEPTH_MAX: Final = 3


def narrow_files(directory: Path) -> list[str]:
    """Remove the rights of other users from everything in ``directory``.

    Returns the paths for which that failed.
    """
    wide = [str(directory)] if directory.stat().st_mode & OTHERS else []
    return wide + [path for path in _wide_paths(directory, _DEPTH_MAX) if not _narrow(path)]


def report_wide_files(directory: Path) -> None:
    """Remove the rights of other users in the state directory, and log a warning about files for which that
    failed.
    """
    try:
        wide = narrow_files(directory)
    except OSError as error:
        log.warning("the rights of the state directory cannot be checked", problem=str(error))
        return
    if wide:
        log.warning(
            "other users can reach the state directory",
            paths=wide[:REPORTED_MAX],
            count=len(wide),
            hint="Set the mode of directories to 0700 and of files to 0600.",
        )


def _wide_paths(directory: Path | str, depth: int) -> Iterator[str]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_symlink():
                continue
            if entry.stat(follow_symlinks=False).st_mode & OTHERS:
                yield entry.path
            if depth and entry.is_dir(follow_symlinks=False):
                yield from _wide_paths(entry.path, depth - 1)


def _narrow(path: str) -> bool:
    """Remove the rights of other users from a file; return whether that succeeded."""
    try:
        mode = os.stat(path, follow_symlinks=False).st_mode  # noqa: PTH116 - a path may become a link
        os.chmod(path, stat.S_IMODE(mode) & ~OTHERS)  # noqa: PTH101
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
