"""Files of the state directory belong to the daemon's user alone.

Positions, users' queries and messages of other systems are in them. New files get the mode 0600 and new
directories 0700. At start, the daemon narrows wider ones of an earlier build. It reports those that belong to
another user, and a wide state directory, which others may share.
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
    """Take the rights of others from everything in ``directory``; return the paths that are still wide."""
    wide = [str(directory)] if directory.stat().st_mode & OTHERS else []
    return wide + [path for path in _wide_paths(directory, _DEPTH_MAX) if not _narrow(path)]


def report_wide_files(directory: Path) -> None:
    """Narrow the modes in the state directory, and log a warning about files that other users can still
    reach.
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
    """Take the rights of others; return whether that succeeded."""
    try:
        mode = os.stat(path, follow_symlinks=False).st_mode  # noqa: PTH116 - a path may become a link
        os.chmod(path, stat.S_IMODE(mode) & ~OTHERS)  # noqa: PTH101
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
