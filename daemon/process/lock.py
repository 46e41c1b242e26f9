"""One daemon per state directory.

Two processes that apply the same events to the same target would undo each other's order, so the directory is locked for as long
as the process lives. The kernel holds the lock (``flock`` on an open file): it disappears with the process, even after ``kill -9``,
so there is never a stale lock to remove. The holder's pid and host are written into the file only to be shown.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from state.errors import ConfigError, StateLocked


if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


LOCK_NAME: Final = "lock"


@contextmanager
def state_lock(directory: Path) -> Iterator[None]:
    """Lock ``directory`` for this process; it is created (mode 0700) if it is missing.

    Raises StateLocked, with the holder's pid and host, if another process holds it, and ConfigError if it cannot be used.
    """
    descriptor = _open(directory)
    try:
        _acquire(descriptor, directory)
        yield
    finally:
        os.close(descriptor)


def _open(directory: Path) -> int:
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(
            "the state directory cannot be used",
            hint="Create it, or give the daemon's user the right to write there.",
            key="state.dir",
            value=str(directory),
            reason=error.strerror or str(error),
        ) from error


def _acquire(descriptor: int, directory: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = _holder(descriptor)
        raise StateLocked(
            "another process uses the state directory",
            directory=str(directory),
            pid=holder.get("pid"),
            host=holder.get("host"),
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)


def _holder(descriptor: int) -> dict[str, object]:
    """Return what the holder wrote; empty between its locking and its writing."""
    try:
        found = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
