"""The state file: opening and locking it, its owner, the version of its content, and the meaning of SQLite's
errors.

One connection locks the file (``locking_mode=EXCLUSIVE``). A second daemon on the same state fails at once,
and SQLite's WAL-reset bug (3.7.0 to 3.51.2), which needs two connections that write or checkpoint, cannot
occur. The kernel holds the lock, so it ends with the process, even after ``kill -9``. A file with snapshots
has several connections in this process; a lock on an empty file next to it (``FILE.lock``) then keeps other
processes away.

``application_id`` marks the file as Tideline's. ``user_version`` is the schema version of the content, chosen
by the owner of the store. The transaction that creates or migrates the content writes both: no crash leaves a
file in between.

No ``sqlite3.Error`` leaves this package: ``translate_errors`` raises errors of Tideline's tree instead.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from state.errors import ConfigError, FilesUnavailable, StateCorrupt, StateLocked, TidelineError


APPLICATION_ID: Final = 0x54_49_44_45
"""``TIDE``; shown by ``file`` and by ``PRAGMA application_id``."""

BUSY_S: Final = 1.0
"""How long the writer of a file with snapshots waits for a reader that repairs the index of the WAL file,
which takes microseconds."""
FORMAT: Final = 1
"""Version of the file's own form; 0 had no checksums."""
_FORMAT_UNIT: Final = 1_000_000
_CREATE: Final = "CREATE TABLE entries (key BLOB PRIMARY KEY, value BLOB NOT NULL, crc INTEGER) WITHOUT ROWID"


def lock_file(path: str) -> int:
    """Lock ``path`` for this process and return the descriptor that holds the lock;
    raise StateLocked, ConfigError.
    """
    try:
        descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(
            "the state file cannot be opened for writing",
            path=path,
            reason=error.strerror,
            hint="Check that its directory exists and that this user can write to it.",
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise StateLocked("another process has the state file open", path=path) from error
    return descriptor


def make_private(path: str) -> None:
    """Create a missing ``path``, readable for this user only; SQLite gives its other files the same mode. A
    file that exists keeps its mode.

    The function does not open an existing file, because closing it would release the locks of this process on
    it.
    """
    with suppress(OSError):  # opening it then fails with SQLite's reason
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def open_file(path: str, *, durable: bool, exclusive: bool) -> sqlite3.Connection:
    """Return the one connection to ``path`` that writes, locked to this process; raises ``sqlite3.Error``."""
    make_private(path)
    busy_s = 0.0 if exclusive else BUSY_S
    connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA locking_mode = {'EXCLUSIVE' if exclusive else 'NORMAL'}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        if not exclusive:
            connection.execute("PRAGMA wal_autocheckpoint = 0")  # its own thread makes them
        # Take the lock now, not at the first write: a second daemon fails when it starts.
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def full_version(schema_version: int) -> int:
    """Return a file's ``user_version``: its form and the schema version of its content.

    Builds from before checksums mistake it for a newer schema version, which they refuse to open.
    """
    return FORMAT * _FORMAT_UNIT + schema_version


def split_version(stored: int) -> tuple[int, int]:
    """Return form and schema version."""
    return divmod(stored, _FORMAT_UNIT)


def read_version(connection: sqlite3.Connection, path: str) -> int | None:
    """Return the ``full_version`` of the file, None for a new file;
    raise StateCorrupt if it is not Tideline's.
    """
    application_id = _read_pragma(connection, "application_id")
    if application_id == APPLICATION_ID:
        return _read_pragma(connection, "user_version")
    if application_id == 0 and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
        return None
    raise StateCorrupt(
        "the file is the database of another program",
        path=path,
        application_id=application_id,
        hint="Configure another state directory.",
    )


def create_content(connection: sqlite3.Connection, schema_version: int) -> None:
    """Create the empty table in a new file, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(_CREATE)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    set_version(connection, schema_version)
    connection.execute("COMMIT")


def set_version(connection: sqlite3.Connection, schema_version: int) -> None:
    """Write the schema version as part of the open transaction."""
    connection.execute(f"PRAGMA user_version = {full_version(schema_version):d}")


def add_checksums(connection: sqlite3.Connection) -> None:
    """Give the table of an earlier form the column for checksums, as part of the open transaction."""
    connection.execute("ALTER TABLE entries ADD COLUMN crc INTEGER")


def refuse_newer(path: str, *, stored: int, supported: int) -> None:
    """Raise StateCorrupt if a newer version of Tideline wrote the file."""
    if stored > supported:
        raise StateCorrupt(
            "a newer version of Tideline wrote the state file",
            path=path,
            stored_version=split_version(stored)[1],
            supported_version=split_version(supported)[1],
            hint="Run the newer version, or move the file away and bootstrap again.",
        )


def _read_pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_SCHEMA, sqlite3.SQLITE_FORMAT}
_UNUSABLE = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}


@contextmanager
def translate_errors(path: str, *, was_open: bool = False) -> Iterator[None]:
    """Translate every ``sqlite3.Error`` of the block to an error of Tideline's tree that names ``path``."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate_error(error, path, was_open=was_open) from error
    except OSError as error:
        raise FilesUnavailable(
            "a copy of the state file cannot be written",
            path=path,
            reason=error.strerror or str(error),
            hint="Free space on the state volume: a migration needs a copy of the file.",
        ) from error


def translate_error(error: sqlite3.Error, path: str, *, was_open: bool) -> TidelineError:
    """Return the error of Tideline's tree that corresponds to ``error``, by SQLite's primary result code.

    After a refused write (full, I/O error), open the store again before further use: only recovery knows the
    result of a failed fsync. A file that ``was_open`` has been writable, so a refusal to write (a volume that
    the kernel made read-only) is a transient failure and not a wrong setting.
    """
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # the low byte is the primary code
    reason = str(error)
    if code in _LOCKED:
        return StateLocked("another process has the state file open", path=path)
    if code in _UNUSABLE and not was_open:
        return ConfigError(
            "the state file cannot be opened for writing",
            path=path,
            reason=reason,
            hint="Check that its directory exists and that this user can write to it.",
        )
    if code in _UNUSABLE:
        return FilesUnavailable(
            "the state file can no longer be written",
            path=path,
            reason=reason,
            hint="Check the state volume: it may be read-only or missing. Work continues from the last "
            "position once it is available again.",
        )
    if code == sqlite3.SQLITE_FULL:
        return FilesUnavailable(
            "the disk of the state file is full; this transaction was not stored",
            path=path,
            hint="Free space on the state volume; the work then continues from the last position.",
        )
    if code in _DAMAGED or code == sqlite3.SQLITE_ERROR:
        return StateCorrupt(
            "the state file is damaged, or Tideline did not write it",
            path=path,
            reason=reason,
            hint="Restore a backup ('tideline restore'), or move the file away and bootstrap again.",
        )
    return FilesUnavailable("the state file cannot be read or written", path=path, reason=reason)
