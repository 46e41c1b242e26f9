"""The state directory: an SQLite store for each part, the address of the HTTP server, and the last status.

Two processes that apply the same events to the same target would undo each other's order, so the process
locks the directory for its lifetime. The lock is an ``flock`` on an open file, which the kernel releases when
the process ends, even after ``kill -9``, so an operator never has to remove a stale lock. The holder's pid
and host in the file only serve messages.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from state.errors import ConfigError, StateLocked
from state.store.sqlite import Migration, SqliteStore


ADDRESS_FILE: Final = "http.json"
"""Address of the HTTP server, while a daemon is running."""
TOKEN_FILE: Final = "http.token"  # noqa: S105 - the name of a file
"""Token with which commands on this machine show that they may read the state directory."""
STATUS_FILE: Final = "status.json"
"""The last status of the daemon."""
VERSION: Final = 1
"""Schema version of the store in these files, unless the part has another."""


_OPEN: Final[WeakValueDictionary[str, SqliteStore]] = WeakValueDictionary()
_OPEN_LOCK: Final = threading.Lock()


def state_path(directory: Path, kind: str, name: str) -> Path:
    """Return the path of a part's state file. The configuration checks names, so they need no escaping."""
    return directory / f"{kind}-{name}.db"


def open_state(
    directory: Path,
    kind: str,
    name: str,
    *,
    snapshots: bool = False,
    migrations: Sequence[Migration] = (),
) -> SqliteStore:
    """Open or create a part's state; raise StateLocked, StateCorrupt.

    With ``snapshots``, other threads can read it. ``migrations`` convert a file of version 1 to 2, then 2 to
    3, and so on.
    """
    path = state_path(directory, kind, name)
    store = SqliteStore(
        path,
        schema_version=VERSION + len(migrations),
        migrations=dict(enumerate(migrations, VERSION)),
        snapshots=snapshots,
    )
    with _OPEN_LOCK:
        _OPEN[str(path)] = store
    return store


def set_aside_state(directory: Path, kind: str, name: str) -> bool:
    """Move a part's state file into the directory ``moved``, where it replaces an earlier one.

    Returns whether the file existed. The part must not be open. Raises ConfigError if that is not possible.
    """
    path = state_path(directory, kind, name)
    if not path.is_file():
        return False
    moved = directory / "moved"
    try:
        moved.mkdir(mode=0o700, exist_ok=True)
        for suffix in ("-shm", "-wal", ""):  # the file last, so that a repetition completes the others
            source, target = path.with_name(path.name + suffix), moved / (path.name + suffix)
            target.unlink(missing_ok=True)
            if source.is_file():
                source.replace(target)
        sync_directory(directory)
    except OSError as error:
        raise ConfigError(
            "the state of a policy that another daemon follows cannot be set aside",
            hint="Give the daemon's user the right to write in the state directory.",
            key="state.dir",
            value=str(path),
            reason=error.strerror or str(error),
        ) from error
    return True


def open_stores() -> dict[str, SqliteStore]:
    """Return the open stores of this process, by path."""
    with _OPEN_LOCK:
        return {path: store for path, store in _OPEN.items() if not store.is_closed}


def write_atomically(path: Path, value: object) -> None:
    """Write ``value`` as JSON, so that a reader sees either the old or the new contents, even after a power
    failure. Only this user can read the file.
    """
    draft = path.with_suffix(".tmp")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(file.fileno(), 0o600)  # a draft of an earlier build may be wider
        file.write(json.dumps(value))  # json.dump encodes in Python, four times slower
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


LOCK_NAME: Final = "lock"
_LOCK_POLL_S: Final = 0.05


@contextmanager
def state_lock(directory: Path, wait_s: float = 0.0) -> Iterator[None]:
    """Lock ``directory`` for this process, after creating it (mode 0700) if it is missing.

    Raises StateLocked, with the holder's pid and host, if another process still holds the lock after
    ``wait_s``, and ConfigError if the directory is unusable.
    """
    descriptor = _open(directory)
    try:
        _acquire(descriptor, directory, wait_s)
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


def _acquire(descriptor: int, directory: Path, wait_s: float) -> None:
    deadline_s = time.monotonic() + wait_s
    while not _try_lock(descriptor):
        if time.monotonic() < deadline_s:
            time.sleep(_LOCK_POLL_S)
            continue
        holder = _holder(descriptor)
        raise StateLocked(
            "another process uses the state directory",
            directory=str(directory),
            pid=holder.get("pid"),
            host=holder.get("host"),
        )
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _holder(descriptor: int) -> dict[str, object]:
    """Return the text that the holder of the lock has written; empty if it has just locked the directory."""
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) else {}
