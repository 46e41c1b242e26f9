"""The store in memory: for tests, for dry runs, and as the model of the port.

It keeps the guarantees of the port within one process. A transaction writes in place and remembers the
replaced values to undo a failure. A lock excludes every other thread until the transaction ends, so no thread
sees half of it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

from sortedcontainers import SortedDict

from state.store import Pause, Reader, Transaction, refuse_oversize
from state.store.pages import PausingReader, scan_key_pages, scan_pages


class MemoryStore:
    """An ordered map from bytes to bytes that ends with the process."""

    def __init__(self) -> None:
        self._entries: SortedDict = SortedDict()
        self._lock = threading.RLock()
        self._open: MemoryTransaction | None = None

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        with self._lock:
            assert self._open is None, "read through the open transaction"
            value: bytes | None = self._entries.get(key)
            return value

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
        """Read page by page the state committed then, waiting for an open transaction."""
        yield PausingReader(self, pause)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open the only write transaction; it takes effect when the block ends without an error."""
        with self._lock:
            assert self._open is None, "this thread already has an open transaction"
            transaction = self._open = MemoryTransaction(self._entries)
            try:
                yield transaction
            except BaseException:
                transaction.undo()
                raise
            finally:
                transaction.end()
                self._open = None

    def check(self) -> None:
        """Assert that entries are in order, and are bytes within the limits."""
        with self._lock:
            self._entries._check()  # noqa: SLF001 - sortedcontainers' own invariants have no public name
            for key, value in self._entries.items():
                assert isinstance(key, bytes), key
                assert isinstance(value, bytes), key
                refuse_oversize(key, value)

    def recover(self) -> None:
        """Do nothing: memory does not fail."""

    def close(self) -> None:
        """Do nothing: there is nothing to release, and tests read the entries afterwards."""

    def _committed_page(
        self, start: bytes, end: bytes | None, reverse: bool, most: int
    ) -> list[tuple[bytes, bytes]]:
        with self._lock:
            assert self._open is None, "scan through the open transaction"
            return _page(self._entries, start, end, reverse, most)

    def _committed_keys(self, start: bytes, end: bytes | None, most: int) -> list[bytes]:
        with self._lock:
            assert self._open is None, "scan through the open transaction"
            return list(islice(self._entries.irange(start, end, inclusive=(True, False)), most))


class MemoryTransaction:
    """Writes in place, and keeps the replaced values for the undo."""

    def __init__(self, entries: SortedDict) -> None:
        self._entries: SortedDict = entries
        self._replaced: dict[bytes, bytes | None] = {}
        self._ended = False

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key`` as this transaction sees it, or None."""
        assert not self._ended, "the transaction is over"
        value: bytes | None = self._entries.get(key)
        return value

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
        self._save_replaced(key)
        self._entries[key] = value

    def delete(self, key: bytes) -> None:
        """Delete ``key``; ignore an absent one."""
        self._save_replaced(key)
        self._entries.pop(key, None)

    def delete_range(self, start: bytes, end: bytes | None) -> None:
        """Delete every key with ``start <= key < end``."""
        for key in list(self._entries.irange(start, end, inclusive=(True, False))):
            self.delete(key)

    def undo(self) -> None:
        """Restore everything that this transaction replaced."""
        for key, value in self._replaced.items():
            if value is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = value

    def end(self) -> None:
        """End this transaction: every later use fails an assertion."""
        self._ended = True

    def _save_replaced(self, key: bytes) -> None:
        assert not self._ended, "the transaction is over"
        self._replaced.setdefault(key, self._entries.get(key))

    def _own_page(
        self, start: bytes, end: bytes | None, reverse: bool, most: int
    ) -> list[tuple[bytes, bytes]]:
        assert not self._ended, "the transaction is over"
        return _page(self._entries, start, end, reverse, most)

    def _own_keys(self, start: bytes, end: bytes | None, most: int) -> list[bytes]:
        assert not self._ended, "the transaction is over"
        return list(islice(self._entries.irange(start, end, inclusive=(True, False)), most))


def _page(
    entries: SortedDict, start: bytes, end: bytes | None, reverse: bool, most: int
) -> list[tuple[bytes, bytes]]:
    keys = entries.irange(start, end, inclusive=(True, False), reverse=reverse)
    return [(key, entries[key]) for key in islice(keys, most)]
