"""What SQLite's failures mean to a caller of the store, so that no ``sqlite3.Error`` leaves this package.

The decision is by SQLite's primary result code: somebody else has the file, the file is damaged or no database, the place
is not usable, or the disk refused. After a refused write (full, I/O error) the store answers nothing more until it is opened
again: what a failed fsync has left behind is only known after recovery has read the file anew.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from state.errors import ConfigError, FilesUnavailable, StateCorrupt, StateLocked, TidelineError


if TYPE_CHECKING:
    from collections.abc import Iterator


_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_SCHEMA, sqlite3.SQLITE_FORMAT}
_UNUSABLE = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}


@contextmanager
def sqlite_errors(path: str) -> Iterator[None]:
    """Raise every ``sqlite3.Error`` of the block as an error of Tideline's tree that names ``path``."""
    try:
        yield
    except sqlite3.Error as error:
        raise typed_error(error, path) from error


def typed_error(error: sqlite3.Error, path: str) -> TidelineError:
    """Return the error of Tideline's tree that ``error`` stands for."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # the low byte is the primary code
    reason = str(error)
    if code in _LOCKED:
        return StateLocked("another process has the state file open", path=path)
    if code in _UNUSABLE:
        return ConfigError(
            "the state file cannot be opened for writing",
            path=path,
            reason=reason,
            hint="Check that its directory exists and belongs to this user.",
        )
    if code == sqlite3.SQLITE_FULL:
        return FilesUnavailable(
            "the disk of the state file is full; nothing of this transaction was kept",
            path=path,
            hint="Free space on the state volume; the work is repeated from the last position.",
        )
    if code in _DAMAGED or code == sqlite3.SQLITE_ERROR:
        return StateCorrupt(
            "the state file is damaged or was not written by Tideline",
            path=path,
            reason=reason,
            hint="Move it away and bootstrap again, or restore a backup of it.",
        )
    return FilesUnavailable("the state file cannot be read or written", path=path, reason=reason)
