"""The store port over an HBase table.

The guarantees of the port hold here too, with two differences, which ``state.store.RemoteReader`` announces
to callers: reads are messages; and another process may see a transaction while written or applied, in the
order of ``redo_log``.

One process writes. If it is killed after the commit, the process that opens the store next finishes the
transaction. Applying it twice, or by two processes at once, does no harm (``redo_log``). If it is killed
before, the next transaction rolls back the early writes of a long one; opening the store does not: a reader
must not interfere with a running writer (``undo_log``).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from handlers.failpoints import failpoint
from handlers.hbase import layout, redo_log, undo_log
from handlers.hbase.gateway import Gateway, StoredRow, make_connector
from handlers.hbase.transaction import HBaseTransaction, StoredEntry
from state.errors import HBaseUnavailable
from state.partitions.filters.conditions import Condition
from state.store import Pause, Reader, Transaction, pages


KEYS_PAGE_MAX: Final = 8192
"""A scan of keys begins with a page of ``pages.PAGE_KEYS``; each page is four times as large as the last, up
to this."""


def open_store(host: str, port: int, table: str, timeout_s: float) -> HBaseStore:
    """Return the store in ``table``, which is created if it is missing.

    ``host`` and ``port`` are those of a Thrift gateway (version 1, binary protocol, buffered transport);
    ``timeout_s`` applies to each message. Raises HBaseUnavailable, ConfigError without the package happybase,
    StateCorrupt if an interrupted transaction is unreadable.
    """
    return HBaseStore(Gateway(make_connector(host, port, timeout_s), table, f"{host}:{port}"))


class HBaseStore:
    """An ordered key-value store in one HBase table."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.counts: Counter[str] = Counter()
        """Since start: ``rows-fetched``, and transactions of killed or failed writers: ``ended`` and
        ``rolled-back``."""
        self._lock = threading.RLock()
        self._open: HBaseTransaction | None = None
        self._is_clean = False
        """Whether neither the redo log nor the undo log has anything."""
        self._undo_rows: list[bytes] = []
        """The rows of the undo log of the open transaction, or of one that failed and is not rolled back
        yet."""
        self._finish_committed()
        self._is_clean = not undo_log.rows(gateway)

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        with self._reading():
            entry = self.entry(key)
        return None if entry is None else entry[1]

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each of ``keys``, or None, in their order."""
        with self._reading():
            rows = self._rows(keys, layout.VALUE)
        return [None if key not in rows else rows[key].cells[layout.VALUE] for key in keys]

    def existing(self, keys: Sequence[bytes]) -> set[bytes]:
        """Return those of ``keys`` that exist, without fetching the values of partitions."""
        by_cell: dict[bytes, list[bytes]] = {}
        for key in keys:
            by_cell.setdefault(layout.smallest_cell(key), []).append(key)
        with self._reading():
            return {key for cell, keys_of_cell in by_cell.items() for key in self._rows(keys_of_cell, cell)}

    def scan(
        self, start: bytes, end: bytes | None, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value) with ``start <= key < end``; in reverse, it reads all pairs first."""
        return pages.scan_pages(self._committed_page, start, end, reverse=reverse, limit=limit)

    def scan_keys(self, start: bytes, end: bytes | None) -> Iterator[bytes]:
        """Yield the keys with ``start <= key < end``."""
        rows = self._scan_rows(start, end, [layout.VALUE], layout.KEYS_ONLY)
        return (layout.entry_key(each.row) for each in rows)

    def scan_matching(self, start: bytes, end: bytes | None, condition: Condition) -> Iterator[bytes]:
        """Yield the keys of rows with ``start <= key < end``;
        may leave out keys that ``condition`` excludes.
        """
        cells = [layout.numbered_cell(column) for column in sorted(layout.compared_columns(condition))]
        rows = self._scan_rows(start, end, cells, layout.write_filter(condition))
        return (layout.entry_key(each.row) for each in rows)

    @contextmanager
    # ARG002: needs no pause, because a call that waits for HBase leaves the processor to other threads
    def snapshot(self, pause: Pause = lambda: None) -> Iterator[Reader]:  # noqa: ARG002
        """Read page by page the state committed then: HBase has no snapshot across rows."""
        yield self

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open the one write transaction; it takes effect when the block ends without an error.

        Raises HBaseUnavailable. If that happens while the transaction is applied, it is finished before the
        next one begins, otherwise it is rolled back: callers that cache something of the store must read it
        again.
        """
        with self._lock:
            assert self._open is None, "this thread already has an open transaction"
            self._end_interrupted()
            transaction = self._open = HBaseTransaction(self)
            try:
                yield transaction
                self._commit(transaction)
            finally:
                transaction.end()
                self._open = None

    def check(self) -> None:
        """Assert that every entry has the cells of its kind;
        raise StateCorrupt for an unreadable redo row.
        """
        with self._reading():
            redo_log.read(self.gateway)
            for row in self._pages(b"", None, [layout.FAMILY], None, self.gateway.scan):
                key = layout.entry_key(row.row)
                assert row.cells == layout.cells(key, row.cells[layout.VALUE]), key

    def recover(self) -> None:
        """Do nothing: the gateway reconnects on its own."""

    def close(self) -> None:
        """Close the connection; closing twice is not an error."""
        self.gateway.close()

    def entry(self, key: bytes) -> StoredEntry | None:
        """Return key, value and version of a stored entry (used by the transaction)."""
        row = self._rows([key], layout.VALUE).get(key)
        return None if row is None else _parse_entry(row)

    def entries_of(self, keys: Sequence[bytes]) -> list[StoredEntry]:
        """Return the stored entries of ``keys``, without those that do not exist (used by the
        transaction).
        """
        return [_parse_entry(row) for row in self._rows(keys, layout.VALUE).values()] if keys else []

    def entries(self, start: bytes, end: bytes | None, *, keys_only: bool) -> Iterator[StoredEntry]:
        """Yield the stored entries in order (used by the transaction)."""
        filter_text = layout.KEYS_ONLY if keys_only else None
        return map(_parse_entry, self._pages(start, end, [layout.VALUE], filter_text, self._count_scan))

    def draw_versions(self, count: int) -> int:
        """Return the last of ``count`` new versions (used by the transaction)."""
        return self.gateway.add(layout.VERSIONS_ROW, layout.NEXT_VERSION, count)

    def log_undo(self, keys: Sequence[bytes], version: int) -> None:
        """Log the values under ``keys`` before early writes (used by the transaction)."""
        self._is_clean = False
        composed = undo_log.compose(keys, self.entries_of, version)
        self._undo_rows += composed
        undo_log.write(self.gateway, composed, version)

    def _commit(self, transaction: HBaseTransaction) -> None:
        writes = transaction.writes()
        if not writes and not self._undo_rows:
            return
        self._is_clean = False
        if self._undo_rows and undo_log.rows(self.gateway) != self._undo_rows:
            raise HBaseUnavailable("another process rolled back the open transaction")
        redo_log.write(self.gateway, writes)
        failpoint("hbase-logged")
        self._apply(writes, has_undo_log=bool(self._undo_rows))
        self._undo_rows = []
        self._is_clean = True

    def _apply(self, writes: redo_log.Writes, *, has_undo_log: bool) -> None:
        """Apply a committed transaction; delete its redo row last, because this row proves that the undo
        log must not be used.
        """
        redo_log.apply(self.gateway, writes)
        if has_undo_log:
            undo_log.remove(self.gateway, writes.version)
            failpoint("hbase-undo-removed")
        redo_log.remove(self.gateway, writes)

    def _end_interrupted(self) -> None:
        """Finish or roll back the transaction of the last writer, if interrupted."""
        if self._is_clean:
            return
        self._finish_committed()
        if undo_log.roll_back(self.gateway, self._undo_rows, self.draw_versions):
            self.counts["rolled-back"] += 1
        self._undo_rows = []
        self._is_clean = True

    def _finish_committed(self) -> None:
        """Finish the transaction that the last writer logged but did not apply completely."""
        writes = redo_log.read(self.gateway)
        if writes is not None:
            self._apply(writes, has_undo_log=True)
            self._undo_rows = []
            self.counts["ended"] += 1

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock:
            assert self._open is None, "read through the open transaction"
            yield

    def _rows(self, keys: Iterable[bytes], cell: bytes) -> dict[bytes, StoredRow]:
        rows = self.gateway.rows([layout.row_key(key) for key in keys], [cell])
        self.counts["rows-fetched"] += len(rows)
        return {layout.entry_key(row): each for row, each in rows.items()}

    def _committed_page(
        self, start: bytes, end: bytes | None, reverse: bool, limit: int
    ) -> list[tuple[bytes, bytes]]:
        with self._reading():
            if reverse:
                return [entry[:2] for entry in self.entries(start, end, keys_only=False)][::-1][:limit]
            rows = self._count_scan(layout.row_range(start, end), [layout.VALUE], limit)
            return [_parse_entry(each)[:2] for each in rows]

    def _scan_rows(
        self, start: bytes, end: bytes | None, columns: Sequence[bytes], filter_text: bytes
    ) -> Iterator[StoredRow]:
        return self._pages(start, end, columns, filter_text, self._committed_scan)

    def _pages(
        self,
        start: bytes,
        end: bytes | None,
        columns: Sequence[bytes],
        filter_text: bytes | None,
        scan: Callable[..., list[StoredRow]],
    ) -> Iterator[StoredRow]:
        """Yield the rows of a scan, in pages that grow if no values are sent."""
        rows, limit = layout.row_range(start, end), pages.PAGE_KEYS
        while rows[0] < rows[1]:
            page = scan(rows, columns, limit, filter_text)
            yield from page
            if len(page) < limit:
                return
            rows = page[-1].row + b"\x00", rows[1]
            limit = min(limit * 4, KEYS_PAGE_MAX) if filter_text else limit

    def _committed_scan(self, *request: object) -> list[StoredRow]:
        with self._reading():
            return self._count_scan(*request)

    def _count_scan(self, *request: object) -> list[StoredRow]:
        rows = self.gateway.scan(*request)  # type: ignore[arg-type]  # passed on unchanged
        self.counts["rows-fetched"] += len(rows)
        return rows


def _parse_entry(row: StoredRow) -> StoredEntry:
    return layout.entry_key(row.row), row.cells[layout.VALUE], row.version
