"""The open transaction of the embedded store.

Memory collects writes for joint execution: one statement for many rows takes a third of the time of a
statement for each, and a key that changes often in one transaction (a run that grows, a counter) costs one
write to the file. Execution happens before anything scans the store, when there are many writes, and before
the commit. A failure of the file therefore shows at one of these moments, and discards the whole transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from state.store import refuse_oversize
from state.store.pages import scan_key_pages, scan_pages
from state.store.sqlite_checksums import checksum
from state.store.sqlite_snapshots import bound


WAITING_KEYS_MAX: Final = 1_000
"""Keys in one statement; a few milliseconds."""
WAITING_BYTES_MAX: Final = 4 * 1024 * 1024


class Statements(Protocol):
    """The statements of an open store for its transaction; each sees the transaction's own executed
    writes.
    """

    def read(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""

    def execute(self, statement: str, *values: bytes | int) -> Any:
        """Run one statement; raise FilesUnavailable,
        and again at each later call until the store recovers.
        """

    def execute_each(self, statement: str, rows: Sequence[tuple[bytes | int, ...]]) -> None:
        """Run one statement for each of ``rows``, as ``execute`` does."""

    def read_page(
        self, start: bytes, end: bytes | None, reverse: bool, most: int
    ) -> list[tuple[bytes, bytes]]:
        """Return the first ``most`` pairs of a scan."""

    def read_keys(self, start: bytes, end: bytes | None, most: int) -> list[bytes]:
        """Return the first ``most`` keys of a scan."""


class SqliteTransaction:
    """The open transaction of a ``SqliteStore``; made by ``SqliteStore.transaction`` only."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements
        self._ended = False
        self._waiting: dict[bytes, bytes | None] = {}
        """Writes before their execution; None for a deleted key."""
        self._waiting_bytes = 0
        self.value_bytes = 0
        """Length of all written values."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key`` as this transaction sees it, or None."""
        assert not self._ended, "the transaction is over"
        return self._waiting[key] if key in self._waiting else self._statements.read(key)

    def scan(
        self, start: bytes, end: bytes | None, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value) with ``start <= key < end``, including own writes."""
        return scan_pages(self._own_page, start, end, reverse=reverse, limit=limit)

    def scan_keys(self, start: bytes, end: bytes | None) -> Iterator[bytes]:
        """Yield the keys with ``start <= key < end``, including own writes."""
        return scan_key_pages(self._own_keys, start, end)

    def put(self, key: bytes, value: bytes) -> None:
        """Set ``key``; raise LimitExceeded if key or value is too long."""
        refuse_oversize(key, value)
        self._change(key, value)

    def delete(self, key: bytes) -> None:
        """Delete ``key``; ignore an absent one."""
        self._change(key, None)

    def delete_range(self, start: bytes, end: bytes | None) -> None:
        """Delete every key with ``start <= key < end``."""
        self.write()
        bounds, values = bound(start, end)
        self._statements.execute(f"DELETE FROM entries WHERE {bounds}", *values)  # noqa: S608 - fixed words

    def write(self) -> None:
        """Execute the writes that wait, in the order of their keys, which is also the order of the file's
        pages.
        """
        assert not self._ended, "the transaction is over"
        if not self._waiting:
            return
        waiting = sorted(self._waiting.items())
        self._waiting, self._waiting_bytes = {}, 0
        deleted = [(key,) for key, value in waiting if value is None]
        if deleted:
            self._statements.execute_each("DELETE FROM entries WHERE key = ?", deleted)
        written = [(key, value, checksum(key, value)) for key, value in waiting if value is not None]
        if written:
            self.value_bytes += sum(len(value) for _, value, _ in written)
            self._statements.execute_each("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", written)

    def end(self) -> None:
        """End this transaction: every later use fails an assertion."""
        self._ended = True

    def _change(self, key: bytes, value: bytes | None) -> None:
        assert not self._ended, "the transaction is over"
        self._waiting[key] = value
        self._waiting_bytes += len(value or b"")
        if len(self._waiting) >= WAITING_KEYS_MAX or self._waiting_bytes >= WAITING_BYTES_MAX:
            self.write()

    def _own_page(
        self, start: bytes, end: bytes | None, reverse: bool, most: int
    ) -> list[tuple[bytes, bytes]]:
        self.write()
        return self._statements.read_page(start, end, reverse, most)

    def _own_keys(self, start: bytes, end: bytes | None, most: int) -> list[bytes]:
        self.write()
        return self._statements.read_keys(start, end, most)
