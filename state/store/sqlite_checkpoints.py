"""Checkpoints of a state file with snapshots: a separate thread moves the content of the WAL file into the
state file.

SQLite makes a checkpoint within the commit that finds the WAL file long. That commit then waits for writing
and syncing pages all over the state file, which takes tenths of a second after a large load. Here the
writer's automatic checkpoints are off:

1. Every commit reports how much it wrote. Beyond ``DUE_BYTES``, the thread copies the committed pages, on its
   own connection, while the writer continues.
2. SQLite starts the WAL file again from its beginning only if a transaction begins when the copy is complete.
   A writer without pauses never leaves such a moment. Beyond ``RESTART_BYTES``, the writer therefore copies,
   after its next commit, the few pages committed during step 1.
3. The file cannot start again while a snapshot reads it. Beyond ``WAL_BYTES_MAX``, new snapshots wait for at
   most ``GATE_S``. When the open ones are closed, the thread copies the pages that they held back, and the
   writer shortens the file after its next commit.

The limit of the WAL file is thus ``WAL_BYTES_MAX`` plus the writes during one open snapshot and one copy.

SQLite's WAL-reset bug (3.7.0 to 3.51.2) needs a transaction that starts the WAL file again while a checkpoint
begins on another connection. A checkpoint begins only if something committed is not copied yet: a transaction
began and committed after the last checkpoint had ended, or the last checkpoint was incomplete. A transaction
that begins in that state, or is open then, cannot start the file again until the checkpoint has copied
everything, which is when it ends. The writer's own checkpoints (steps 2 and 3) run while the thread waits for
them.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from typing import Final

from state.store import sqlite_snapshots
from state.store.sqlite_file import BUSY_S
from state.store.sqlite_snapshots import GATE_S, SnapshotPool


PAGE_BYTES: Final = 4096
"""Growth of the WAL file for a changed row, in addition to its value: at least a page in the worst case."""
DUE_BYTES: Final = 16 * 1024 * 1024
"""Bytes written at most (as if each row had a separate page) beyond which a copy begins."""
RESTART_BYTES: Final = 16 * 1024 * 1024
"""Used length of the WAL file at which it starts again, if no snapshot is open."""
PAUSE_S: Final = 0.25
"""Time between two copies, which leaves the disk mostly to commits."""


class Checkpoints:
    """The checkpoints of one file. The writer calls ``committed`` after each commit."""

    def __init__(self, path: str, snapshots: SnapshotPool) -> None:
        self._path = path
        self._snapshots = snapshots
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._written_bytes = 0
        """Bytes written by transactions that began after the last checkpoint."""
        self._is_incomplete = False
        """Whether the last checkpoint could not copy everything, because a snapshot was reading."""
        self._requested: str | None = None
        """The checkpoint that the writer is to make after its next commit."""
        self._is_stopping = False
        self.ended = 0
        """Number of finished checkpoints."""

    def committed(self, writer: sqlite3.Connection, written_bytes: int, began: int) -> None:
        """Report a commit of the connection ``writer``; ``began`` is the value that ``ended`` had at the
        beginning of the transaction.
        """
        with self._changed:
            if began == self.ended:
                self._written_bytes += written_bytes
            if self._requested is not None:
                self._checkpoint_here(writer, self._requested)
                self._changed.notify_all()
            elif self._is_due():
                self._start()
                self._changed.notify_all()

    def stop(self) -> None:
        """End the thread and close its connection; the next due commit starts them again."""
        with self._changed:
            thread, self._thread = self._thread, None
            self._is_stopping = True
            self._changed.notify_all()
        if thread is not None:
            thread.join()
        self._is_stopping = False

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            # A daemon thread: a process that ends without closing the store does not wait for it.
            self._thread = threading.Thread(target=self._work, name="checkpoints", daemon=True)
            self._thread.start()

    def _is_due(self) -> bool:
        return self._written_bytes >= min(DUE_BYTES, sqlite_snapshots.WAL_BYTES_MAX)

    def _work(self) -> None:
        connection: sqlite3.Connection | None = None
        while self._await_due():
            try:
                connection = connection or _connect(self._path)
                self._checkpoint(connection)
            except sqlite3.Error:
                # Harmless: the rest stays in the WAL file, and a later checkpoint copies it.
                _close(connection)
                connection = None
                with self._changed:
                    self._end_checkpoint(is_incomplete=False)
        _close(connection)

    def _await_due(self) -> bool:
        """Wait until there is something to copy; return False if the thread must end."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping or self._is_due())
            return not self._is_stopping

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        used_bytes = self._copy(connection)
        if self._snapshots.wal_bytes() > sqlite_snapshots.WAL_BYTES_MAX:
            self._shorten(connection)
        elif used_bytes > RESTART_BYTES and not self._snapshots.is_open():
            self._request("PASSIVE")
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_stopping or self._written_bytes > sqlite_snapshots.WAL_BYTES_MAX, PAUSE_S
            )

    def _copy(self, connection: sqlite3.Connection) -> int:
        """Copy the committed pages (step 1); return the length of the WAL file's used part."""
        _, frames, copied = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        with self._changed:
            self._end_checkpoint(is_incomplete=copied < frames)
        return int(frames) * PAGE_BYTES

    def _shorten(self, connection: sqlite3.Connection) -> None:
        """Keep new snapshots away, copy the rest, and let the writer shorten the WAL file (step 3)."""
        try:
            if self._snapshots.close_gate(GATE_S):
                with self._changed:
                    may_copy = self._is_incomplete or self._written_bytes > 0
                if may_copy:
                    self._copy(connection)
                self._request("TRUNCATE")
        finally:
            self._snapshots.open_gate()

    def _request(self, mode: str) -> None:
        """Have the writer make a checkpoint after its next commit, if there is one soon."""
        with self._changed:
            self._requested = mode
            self._changed.wait_for(lambda: self._requested is None or self._is_stopping, GATE_S)
            self._requested = None

    def _checkpoint_here(self, writer: sqlite3.Connection, mode: str) -> None:
        """Make the writer's checkpoint of step 2 or 3, in the writer's thread; a failure is harmless."""
        with suppress(sqlite3.Error):
            writer.execute("PRAGMA busy_timeout = 0")  # never wait for a reader of another process
            writer.execute(f"PRAGMA wal_checkpoint({mode})")
            writer.execute(f"PRAGMA busy_timeout = {BUSY_S * 1000:.0f}")
        self._requested = None
        self._end_checkpoint(is_incomplete=False)

    def _end_checkpoint(self, *, is_incomplete: bool) -> None:
        self.ended += 1
        self._written_bytes = 0
        self._is_incomplete = is_incomplete


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=0.0, isolation_level=None)
    try:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(
            "PRAGMA synchronous = NORMAL"
        )  # syncs the WAL file before copying and the state file after it
        connection.execute("SELECT 1 FROM entries LIMIT 1").fetchall()  # opens the WAL file
    except BaseException:
        connection.close()
        raise
    return connection


def _close(connection: sqlite3.Connection | None) -> None:
    if connection is not None:
        with suppress(sqlite3.Error):
            connection.close()
