"""The embedded store: one SQLite file, one connection that writes, and BLOB keys in order.

SQLite is in the standard library and survives ``kill -9`` at every write (tests/crash proves it for this
use). SQL tools can inspect it, and it takes about 11,000 entries/s at 100 per commit, more than a metastore
produces. In WAL mode a commit is one sequential write. ``WITHOUT ROWID`` with a BLOB key makes the table the
index, in ``memcmp`` order.

``durable`` (the default) syncs at every commit. Without it, a power failure may lose the last commits, but
never a part of one. That is right for derived data, because the position goes back together with its effects.

The store may pass from thread to thread; a lock admits one thread at a time. Readers in other threads that
must not wait for a transaction use ``snapshot``, on a store opened with ``snapshots``
(``state.store.sqlite_snapshots``).
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from state.errors import FilesUnavailable, StateCorrupt, TidelineError
from state.store import Pause, Reader, Transaction
from state.store.pages import PausingReader, scan_key_pages, scan_pages
from state.store.sqlite_checkpoints import PAGE_BYTES, Checkpoints
from state.store.sqlite_checksums import require_sound, sound_pairs
from state.store.sqlite_copy import copy_before_migration, copy_database
from state.store.sqlite_file import (
    FORMAT,
    add_checksums,
    create_content,
    full_version,
    lock_file,
    open_file,
    read_version,
    refuse_newer,
    set_version,
    split_version,
    translate_error,
    translate_errors,
)
from state.store.sqlite_snapshots import SnapshotPool, bound, connect_read_only, select
from state.store.sqlite_transaction import SqliteTransaction


Migration = Callable[[Transaction], None]
"""Converts the content of one schema version to the next."""


class SqliteStore:
    """An ordered map from bytes to bytes in one file.

    ``migrations[n]`` converts version n to n + 1. Copies an older file to ``FILE.vFORM-VERSION.bak`` and
    migrates it to ``schema_version`` in one transaction. Raises StateLocked if another process uses the file,
    StateCorrupt for a damaged, foreign or newer file (or without a migration), and ConfigError for an
    unwritable one.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        schema_version: int,
        migrations: Mapping[int, Migration] | None = None,
        durable: bool = True,
        snapshots: bool = False,
    ) -> None:
        assert schema_version >= 1, schema_version
        self.schema_version = schema_version
        self.path = fspath(path)
        self._snapshots = SnapshotPool(self.path) if snapshots else None
        self._checkpoints = Checkpoints(self.path, self._snapshots) if self._snapshots is not None else None
        self._lock = threading.RLock()
        self._durable = durable
        self._open: SqliteTransaction | None = None
        self._failure: TidelineError | None = None
        self._is_closed = False
        self._file_lock = lock_file(self.path) if snapshots else None
        try:
            with translate_errors(self.path):
                self._connection = self._open_file()
            try:
                self._prepare_content(schema_version, migrations or {})
            except BaseException:
                self._connection.close()
                raise
        except BaseException:
            self._unlock_file()
            raise

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        with self._lock:
            assert self._open is None, "read through the open transaction"
            return self.read(key)

    def scan(
        self, start: bytes, end: bytes | None, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value) with ``start <= key < end``;
        ``state.store.pages`` describes concurrent writes.
        """
        return scan_pages(self._committed_page, start, end, reverse=reverse, limit=limit)

    def scan_keys(self, start: bytes, end: bytes | None) -> Iterator[bytes]:
        """Yield the keys with ``start <= key < end``."""
        return scan_key_pages(self._committed_keys, start, end)

    @contextmanager
    def snapshot(self, pause: Pause = lambda: None) -> Iterator[Reader]:
        """Open a snapshot, without waiting for a transaction; calls ``pause`` before each page.

        A store without ``snapshots`` reads page by page the state committed then, and waits for an open
        transaction.
        """
        if self._snapshots is None:
            yield PausingReader(self, pause)
            return
        with self._snapshots.open(pause) as opened:
            yield opened

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open the only write transaction; it takes effect when the block ends without an error.

        Raises FilesUnavailable if the disk is full or fails. In that case nothing of the transaction remains,
        and the store fails until ``recover`` succeeds.
        """
        with self._lock:
            assert self._open is None, "this thread already has an open transaction"
            began = 0 if self._checkpoints is None else self._checkpoints.ended
            self.execute("BEGIN IMMEDIATE")
            changes = self._connection.total_changes
            transaction = self._open = SqliteTransaction(self)
            try:
                yield transaction
                transaction.write()
                self.execute("COMMIT")
            finally:
                transaction.end()
                self._open = None
                if self._connection.in_transaction:
                    with translate_errors(self.path):
                        self._connection.execute("ROLLBACK")
            if self._checkpoints is not None:
                rows = self._connection.total_changes - changes
                written_bytes = rows * PAGE_BYTES + transaction.value_bytes
                self._checkpoints.committed(self._connection, written_bytes, began)

    def check(self) -> None:
        """Run SQLite's integrity check over the file; raise StateCorrupt with its first finding."""
        with self._lock:
            finding = self.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if finding != "ok":
                raise StateCorrupt("the state file is damaged", path=self.path, reason=finding)

    @property
    def is_closed(self) -> bool:
        """Whether the store is closed."""
        return self._is_closed

    def back_up(self, target: Path, beat: Callable[[], None]) -> None:
        """Write everything committed to the file ``target``, which appears as a whole.

        Transactions wait meanwhile, except those of a store with ``snapshots``. Raises FilesUnavailable.
        """
        with translate_errors(self.path, was_open=True):
            if self._snapshots is not None:
                with closing(connect_read_only(self.path)) as connection:
                    copy_database(connection, target, beat)
                return
            with self._lock:
                self._require_usable()
                copy_database(self._connection, target, beat)

    def check_quickly(self) -> None:
        """Check the structure of the file's pages; raise StateCorrupt with the first finding."""
        with translate_errors(self.path, was_open=True):
            if self._snapshots is not None:
                with closing(connect_read_only(self.path)) as connection:
                    finding = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            else:
                with self._lock:
                    self._require_usable()
                    finding = self._connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if finding != "ok":
            raise StateCorrupt("the state file is damaged", path=self.path, reason=finding)

    def fail(self, failure: TidelineError) -> None:
        """Raise ``failure`` from every later call."""
        with self._lock:
            self._failure = self._failure or failure

    def _require_usable(self) -> None:
        assert self._open is None, "a transaction is open"
        if self._failure is not None:
            raise self._failure

    def recover(self) -> None:
        """Open the file again after a failure that may have passed; only SQLite's recovery knows the result
        of a failed write.

        Does nothing if the store has not failed. Raises FilesUnavailable while the cause lasts, and
        StateCorrupt again.
        """
        with self._lock:
            assert self._open is None, "a transaction is open"
            if self._failure is None:
                return
            if self._is_closed or not isinstance(self._failure, FilesUnavailable):
                raise self._failure
            if self._snapshots is not None and self._checkpoints is not None:
                self._checkpoints.stop()
                self._snapshots.forget_idle()
            with suppress(sqlite3.Error):  # the checkpoint at closing fails as the write did
                self._connection.close()
            try:
                connection = self._open_file()
            except sqlite3.Error as error:
                raise translate_error(error, self.path, was_open=True) from error
            self._connection, self._failure = connection, None

    def close(self) -> None:
        """Checkpoint and release the file; closing twice is harmless."""
        with self._lock, translate_errors(self.path):
            assert self._open is None, "a transaction is open"
            self._is_closed = True
            self._failure = self._failure or FilesUnavailable("the store is closed", path=self.path)
            if self._snapshots is not None and self._checkpoints is not None:
                self._checkpoints.stop()
                self._snapshots.close()
            self._connection.close()
            self._unlock_file()

    def read(self, key: bytes) -> bytes | None:
        """Return the value of ``key`` as the connection sees it; used by the transaction."""
        row = self.execute("SELECT value, crc FROM entries WHERE key = ?", key).fetchone()
        return None if row is None else require_sound(self.path, key, *row)

    def read_page(
        self, start: bytes, end: bytes | None, reverse: bool, most: int
    ) -> list[tuple[bytes, bytes]]:
        """Return the first ``most`` pairs of a scan as the connection sees them; used by the transaction."""
        bounds, values = bound(start, end)
        rows = self.execute(select("key, value, crc", bounds, reverse=reverse), *values, most)
        return sound_pairs(self.path, rows)

    def read_keys(self, start: bytes, end: bytes | None, most: int) -> list[bytes]:
        """Return the first ``most`` keys of a scan as the connection sees them; used by the transaction."""
        bounds, values = bound(start, end)
        return [key for (key,) in self.execute(select("key", bounds), *values, most)]

    def execute(self, statement: str, *values: bytes | int) -> sqlite3.Cursor:
        """Run one statement, or raise the earlier failure of the store again; used by the transaction."""
        return self._run(self._connection.execute, statement, values)

    def execute_each(self, statement: str, rows: Sequence[tuple[bytes | int, ...]]) -> None:
        """Run one statement for each of ``rows``, as ``execute`` does; used by the transaction."""
        self._run(self._connection.executemany, statement, rows)

    def _run(
        self, run: Callable[[str, Sequence[Any]], sqlite3.Cursor], statement: str, values: Sequence[Any]
    ) -> sqlite3.Cursor:
        if self._failure is not None:
            raise self._failure
        try:
            return run(statement, values)
        except sqlite3.Error as error:
            # SQLite may have ended the transaction already: the next statement would commit on its own.
            self._failure = translate_error(error, self.path, was_open=True)
            raise self._failure from error

    def _committed_page(
        self, start: bytes, end: bytes | None, reverse: bool, most: int
    ) -> list[tuple[bytes, bytes]]:
        with self._lock:
            assert self._open is None, "scan through the open transaction"
            return self.read_page(start, end, reverse, most)

    def _committed_keys(self, start: bytes, end: bytes | None, most: int) -> list[bytes]:
        with self._lock:
            assert self._open is None, "scan through the open transaction"
            return self.read_keys(start, end, most)

    def _open_file(self) -> sqlite3.Connection:
        return open_file(self.path, durable=self._durable, exclusive=self._snapshots is None)

    def _unlock_file(self) -> None:
        if self._file_lock is not None:
            os.close(self._file_lock)
            self._file_lock = None

    def _prepare_content(self, schema_version: int, migrations: Mapping[int, Migration]) -> None:
        with translate_errors(self.path):
            stored = read_version(self._connection, self.path)
            if stored is None:
                create_content(self._connection, schema_version)
                return
        supported = full_version(schema_version)
        refuse_newer(self.path, stored=stored, supported=supported)
        if stored < supported:
            self._migrate(stored, schema_version, migrations)

    def _migrate(self, stored: int, schema_version: int, migrations: Mapping[int, Migration]) -> None:
        form, stored_version = split_version(stored)
        steps = range(stored_version, schema_version)
        refuse_newer(self.path, stored=stored_version, supported=schema_version)
        if any(step not in migrations for step in steps):
            raise StateCorrupt(
                "the state file is too old for this version of Tideline to migrate",
                path=self.path,
                stored_version=stored_version,
                supported_version=schema_version,
                hint="Migrate it with an intermediate version, or move the file away and bootstrap again.",
            )
        with translate_errors(self.path, was_open=True):
            copy_before_migration(self._connection, self.path, stored)
        with self.transaction() as transaction:
            if form < FORMAT:
                add_checksums(self._connection)
            for step in steps:
                migrations[step](transaction)
            set_version(self._connection, schema_version)
