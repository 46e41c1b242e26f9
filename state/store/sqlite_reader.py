"""The state file of another process, for reading.

It offers only snapshots. Each is a read transaction in WAL mode, so it never holds a lock that the writer
waits for. The connections are read-only and never checkpoint. The file may not exist yet, and another process
may replace or migrate it meanwhile: every snapshot checks the identity of its file, and the version of its
content.

The writer resets its WAL file only while no reader uses it. It cannot see these readers, so once the file is
long and grows, new snapshots wait until the writer has reset it, for at most ``GATE_S`` every
``GATE_PAUSE_S``.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from typing import Final

from state.errors import FilesUnavailable, StateCorrupt
from state.store import Pause, sqlite_snapshots
from state.store.sqlite_file import full_version, refuse_newer, split_version
from state.store.sqlite_snapshots import GATE_S, SnapshotPool, SqliteSnapshot


GATE_PAUSE_S: Final = 5.0
_GATE_STEP_S: Final = 0.01


class SqliteReader:
    """Reads the state file that another process writes; thread-safe.

    Every call raises FilesUnavailable for a missing or unreadable file, and StateCorrupt if the version of
    its content is not ``schema_version``.
    """

    def __init__(self, path: str | PathLike[str], *, schema_version: int) -> None:
        self.path = fspath(path)
        self._version = schema_version
        self._pool = SnapshotPool(self.path)
        self._identity: tuple[int, int] | None = None
        self._changed = threading.Condition()
        self._gate_end_s = 0.0
        self._next_gate_s = 0.0
        self._gated_bytes = 0

    @contextmanager
    def snapshot(self, pause: Pause = lambda: None) -> Iterator[SqliteSnapshot]:
        """Open a snapshot of the current committed state; calls ``pause`` before each page."""
        with self._changed:
            self._wait_at_gate()
        self._require_same_file()
        with self._pool.open(pause) as opened:
            self._require_version(opened)
            yield opened

    def close(self) -> None:
        """Close the connections; an open snapshot may end first."""
        self._pool.close()

    def _require_same_file(self) -> None:
        """Forget the connections to a replaced file: they would read the old one indefinitely."""
        try:
            stat = os.stat(self.path)  # noqa: PTH116 - before every answer: a Path takes ten times as long
        except OSError as error:
            raise FilesUnavailable(
                "the state file cannot be read", path=self.path, reason=error.strerror
            ) from error
        identity = (stat.st_dev, stat.st_ino)
        if identity != self._identity:
            self._pool.forget_idle()
            self._identity = identity

    def _require_version(self, snapshot: SqliteSnapshot) -> None:
        stored = snapshot.version()
        supported = full_version(self._version)
        refuse_newer(self.path, stored=stored, supported=supported)
        if stored != supported:
            raise StateCorrupt(
                "the state file has not been migrated yet",
                path=self.path,
                stored_version=split_version(stored)[1],
            )

    def _wait_at_gate(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._next_gate_s:
            self._next_gate_s = now_s + GATE_PAUSE_S
            size = self._wal_bytes()
            if size > sqlite_snapshots.WAL_BYTES_MAX and size > self._gated_bytes:
                self._gate_end_s = now_s + GATE_S
            self._gated_bytes = size
        while time.monotonic() < self._gate_end_s:
            if self._wal_bytes() < self._gated_bytes:
                self._gate_end_s = self._gated_bytes = 0
                return
            self._changed.wait(_GATE_STEP_S)

    def _wal_bytes(self) -> int:
        try:
            return os.stat(f"{self.path}-wal").st_size  # noqa: PTH116 - as above
        except OSError:
            return 0
