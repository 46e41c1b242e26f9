"""Snapshots of the state file: separate read connections, next to the one that writes.

A snapshot is a read transaction in WAL mode. It sees the file as of its start, holds no lock of the writer,
and never waits for it. The connections are read-only and never checkpoint. Because several connections
exclude ``locking_mode=EXCLUSIVE``, a lock file keeps other writing processes away
(``state.store.sqlite_file``).

The WAL file can only start again from its beginning while no snapshot is open, and with readers that never
pause it would grow without end. If it is long, new snapshots wait until the open ones are closed and the
writer has shortened the file, for at most ``GATE_S`` (``state.store.sqlite_checkpoints``).

Each connection remembers the small values that it has read. SQLite's ``data_version`` shows at the start of a
snapshot whether the file has changed since; a change empties these caches. So while nothing changes, a reader
that reads the same few values executes no statement for them.
"""

from __future__ import annotations

import sqlite3
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from state.errors import FilesUnavailable
from state.store import Pause
from state.store.pages import scan_key_pages, scan_pages
from state.store.sqlite_checksums import require_sound, sound_pairs
from state.store.sqlite_file import translate_error


WAL_BYTES_MAX: Final = 64 * 1024 * 1024
"""Length of the WAL file beyond which the next opportunity shortens it."""
GATE_S: Final = 0.5
"""How long a new snapshot waits for that."""
_IDLE_MAX: Final = 16
_REMEMBERED_MAX: Final = 256
_REMEMBERED_BYTES_MAX: Final = 4096
"""Values that a connection remembers, and the size of the longest: at most one megabyte for each
connection."""


@dataclass(slots=True)
class _ReadConnection:
    """A connection with its reads since the last change of the file."""

    handle: sqlite3.Connection
    generation: int
    """How often the pool was reset before this connection opened."""
    data_version: int = -1
    schema_version: int | None = None
    values: dict[bytes, bytes | None] = field(default_factory=dict)

    def see(self, data_version: int) -> None:
        """Forget everything if the file has changed."""
        if data_version != self.data_version:
            self.data_version, self.schema_version = data_version, None
            self.values.clear()

    def remember(self, key: bytes, value: bytes | None) -> None:
        """Keep a value until the file changes, unless it is long."""
        if value is None or len(value) <= _REMEMBERED_BYTES_MAX:
            if len(self.values) >= _REMEMBERED_MAX:
                self.values.clear()
            self.values[key] = value


class SnapshotPool:
    """The read connections of one file; thread-safe."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._changed = threading.Condition()
        self._idle: list[_ReadConnection] = []
        self._generation = 0
        self._open = 0
        self._gate_closed = False
        self._is_closed = False

    @contextmanager
    def open(self, pause: Pause) -> Iterator[SqliteSnapshot]:
        """Open a snapshot of the current committed state; calls ``pause`` before each page."""
        connection = self._take()
        snapshot = SqliteSnapshot(connection, self._path, pause)
        try:
            snapshot.begin()
            yield snapshot
        finally:
            self._give_back(connection)

    def is_open(self) -> bool:
        """Whether any snapshot is open."""
        with self._changed:
            return self._open > 0

    def close_gate(self, wait_s: float) -> bool:
        """Keep new snapshots away, and wait until the open ones are closed; return whether none is open."""
        with self._changed:
            self._gate_closed = True
            self._changed.wait_for(lambda: self._is_closed or not (self._open and self._gate_closed), wait_s)
            return self._gate_closed and not self._open

    def open_gate(self) -> None:
        """Admit new snapshots again."""
        with self._changed:
            self._gate_closed = False
            self._changed.notify_all()

    def wal_bytes(self) -> int:
        """Return the length of the WAL file."""
        try:
            return Path(f"{self._path}-wal").stat().st_size
        except OSError:
            return 0

    def forget_idle(self) -> None:
        """Close the idle connections, and those in use once they are idle, because the file may have been
        replaced or repaired.
        """
        with self._changed:
            idle, self._idle = self._idle, []
            self._generation += 1
        for connection in idle:
            connection.handle.close()

    def close(self) -> None:
        """Refuse new snapshots; an open one may end first."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self.forget_idle()

    def _take(self) -> _ReadConnection:
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or not self._gate_closed, GATE_S)
            if self._is_closed:
                raise FilesUnavailable("the store is closed", path=self._path)
            if self._gate_closed:
                self._gate_closed = False  # the wait has ended without success
                self._changed.notify_all()
            self._open += 1
            if self._idle:
                return self._idle.pop()
            generation = self._generation
        try:
            return _ReadConnection(connect_read_only(self._path), generation)
        except sqlite3.Error as error:
            self._leave()
            raise translate_error(error, self._path, was_open=True) from error

    def _give_back(self, connection: _ReadConnection) -> None:
        try:
            connection.handle.rollback()
            is_sound = True
        except sqlite3.Error:
            is_sound = False
        if not self._leave(connection if is_sound else None):
            connection.handle.close()

    def _leave(self, reusable: _ReadConnection | None = None) -> bool:
        """End the use of a connection; return whether the pool keeps it."""
        with self._changed:
            self._open -= 1
            if self._gate_closed:
                self._changed.notify_all()
            if reusable is None or self._is_closed or reusable.generation != self._generation:
                return False
            if len(self._idle) >= _IDLE_MAX:
                return False
            self._idle.append(reusable)
            return True


class SqliteSnapshot:
    """The file as of one moment (``state.store.Reader``). Use it from one thread at a time."""

    def __init__(self, connection: _ReadConnection, path: str, pause: Pause) -> None:
        self._connection = connection
        self._path = path
        self._pause = pause

    def begin(self) -> None:
        """Begin the read transaction: from now on, the snapshot shows the file as of this moment."""
        self._read("BEGIN")
        self._connection.see(
            self._read("PRAGMA data_version")[0][0]
        )  # the read transaction begins with the first read

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        values = self._connection.values
        if key in values:
            return values[key]
        value = self._get(key)
        self._connection.remember(key, value)
        return value

    def _get(self, key: bytes) -> bytes | None:
        rows = self._read("SELECT value, crc FROM entries WHERE key = ?", key)
        return require_sound(self._path, key, *rows[0]) if rows else None

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each of ``keys``, or None, in their order.

        One scan reads neighbouring keys, at a fifth of the cost of as many single reads. The scan reads no
        more entries than there are keys; single reads fetch the rest.
        """
        ordered = sorted(keys)
        if not ordered:
            return []
        values = dict(self.scan(ordered[0], ordered[-1] + b"\x00", limit=len(ordered)))
        reached = next(reversed(values), b"") if len(values) == len(ordered) else ordered[-1]
        for key in ordered[bisect_right(ordered, reached) :]:
            value = self._get(key)
            if value is not None:
                values[key] = value
        return [values.get(key) for key in keys]

    def scan(
        self, start: bytes, end: bytes | None, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value) with ``start <= key < end`` in key order."""
        return scan_pages(self._page, start, end, reverse=reverse, limit=limit)

    def scan_keys(self, start: bytes, end: bytes | None) -> Iterator[bytes]:
        """Yield the keys with ``start <= key < end``."""
        return scan_key_pages(self._keys, start, end)

    def version(self) -> int:
        """Return the schema version of the file's content."""
        schema_version = self._connection.schema_version
        if schema_version is None:
            schema_version = self._connection.schema_version = int(self._read("PRAGMA user_version")[0][0])
        return schema_version

    def _page(self, start: bytes, end: bytes | None, reverse: bool, most: int) -> list[tuple[bytes, bytes]]:
        self._pause()
        bounds, values = bound(start, end)
        return sound_pairs(
            self._path, self._read(select("key, value, crc", bounds, reverse=reverse), *values, most)
        )

    def _keys(self, start: bytes, end: bytes | None, most: int) -> list[bytes]:
        self._pause()
        bounds, values = bound(start, end)
        return [key for (key,) in self._read(select("key", bounds), *values, most)]

    def _read(self, statement: str, *values: bytes | int) -> list[Any]:
        try:
            return self._connection.handle.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise translate_error(error, self._path, was_open=True) from error


def select(what: str, bounds: str, *, reverse: bool = False) -> str:
    """Return the statement for the first rows between ``bounds``, in order."""
    # S608: fixed words
    return f"SELECT {what} FROM entries WHERE {bounds} ORDER BY key {'DESC' if reverse else 'ASC'} LIMIT ?"  # noqa: S608


def bound(start: bytes, end: bytes | None) -> tuple[str, tuple[bytes, ...]]:
    """Return the condition ``start <= key < end`` and its values."""
    return ("key >= ?", (start,)) if end is None else ("key >= ? AND key < ?", (start, end))


def connect_read_only(path: str) -> sqlite3.Connection:
    """Return a connection that only reads; raises ``sqlite3.Error``."""
    connection = sqlite3.connect(
        f"file:{quote(path)}?mode=ro", uri=True, timeout=1.0, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA query_only = ON")
    return connection
