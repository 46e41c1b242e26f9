"""Opening a state file: who may use it, whose it is, and which version of its content it holds.

One connection only, and the file locked to it (``locking_mode=EXCLUSIVE``): a second daemon on the same state is refused at
once, and SQLite's WAL-reset bug (3.7.0 to 3.51.2, which needs two connections that write or checkpoint) cannot happen. The
lock is the kernel's, so it ends with the process, also after ``kill -9``.

``application_id`` says that the file is Tideline's. ``user_version`` is the schema version of the content, which the owner of
the store chooses; both are part of the transaction that creates or migrates, so no crash leaves a file in between.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from state.errors import ConfigError, FilesUnavailable, StateCorrupt, StateLocked, TidelineError


if TYPE_CHECKING:
    from collections.abc import Iterator


APPLICATION_ID: Final = 0x54_49_44_45
"""``TIDE``; shown by ``file`` and by ``PRAGMA application_id``."""

_CREATE = "CREATE TABLE entries (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"


def open_file(path: str, *, durable: bool) -> sqlite3.Connection:
    """Return the one connection to ``path``, locked to this process; raises ``sqlite3.Error``."""
    connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        # Taken now and not at the first write, so that the second daemon is told when it starts.
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def stored_version(connection: sqlite3.Connection, path: str) -> int | None:
    """Return the schema version of the file, None where it is new; raise StateCorrupt where it is not Tideline's."""
    application_id = _pragma(connection, "application_id")
    if application_id == APPLICATION_ID:
        return _pragma(connection, "user_version")
    if application_id == 0 and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
        return None
    raise StateCorrupt(
        "the file is a database of another program",
        path=path,
        application_id=application_id,
        hint="Point the state directory somewhere else.",
    )


def create_content(connection: sqlite3.Connection, schema_version: int) -> None:
    """Make the empty table in a new file, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(_CREATE)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    set_version(connection, schema_version)
    connection.execute("COMMIT")


def set_version(connection: sqlite3.Connection, schema_version: int) -> None:
    """Write the schema version, as part of the transaction that is open."""
    connection.execute(f"PRAGMA user_version = {schema_version:d}")


def refuse_newer(path: str, *, stored: int, supported: int) -> None:
    """Raise StateCorrupt where the file was written by a version that knows more than this one."""
    if stored > supported:
        raise StateCorrupt(
            "the state file was written by a newer version of Tideline",
            path=path,
            stored_version=stored,
            supported_version=supported,
            hint="Run the newer version, or move the file away and bootstrap again.",
        )


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


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
