"""The store port over an HBase table.

What the port promises holds here too, with three differences that ``state.store.RemoteReader`` makes known to those who have
to know: questions are messages; another process may see a transaction while it takes effect, in the order of ``applying``;
and a transaction that is longer than a buffer (``transaction``) is all or nothing no more, but still done again whole.

One process writes. When it is killed in the middle, whoever opens the store next ends the transaction that was taking effect;
that it is done twice, or by two at once, does no harm (``applying``).
"""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from handlers.failpoints import failpoint
from handlers.hbase import layout, redo_log, server_filters
from handlers.hbase.gateway import Gateway, connector
from handlers.hbase.transaction import HBaseTransaction
from state.store import Transaction, pages


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from handlers.hbase.gateway import Found
    from handlers.hbase.transaction import Entry
    from state.partitions.filters.conditions import Condition


TIMEOUT_S: Final = 30.0
KEYS_PAGE_MAX: Final = 8192
"""A scan of keys begins with a page of ``pages.PAGE_KEYS`` and asks for four times as many each time, up to this."""


def open_store(host: str, port: int, table: str, timeout_s: float = TIMEOUT_S) -> HBaseStore:
    """Return the store in ``table``, which is made where it is missing.

    ``host`` and ``port`` are those of a Thrift gateway (version 1, binary protocol, buffered transport); ``timeout_s`` is for
    each message. Raises HBaseUnavailable, ConfigError without the package happybase, StateCorrupt where a transaction was cut off
    and cannot be read.
    """
    return HBaseStore(Gateway(connector(host, port, timeout_s), table, f"{host}:{port}"))


class HBaseStore:
    """Ordered bytes to bytes in one HBase table."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.counts: Counter[str] = Counter()
        """Since start: ``rows-fetched``, and ``ended`` transactions of a process that was killed."""
        self._lock = threading.RLock()
        self._open: HBaseTransaction | None = None
        self._is_clean = False
        self._end_what_was_cut_off()

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        with self._reading():
            found = self.entry(key)
        return None if found is None else found[1]

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each of ``keys``, or None, in their order."""
        with self._reading():
            found = self._rows(keys, layout.VALUE)
        return [None if key not in found else found[key].cells[layout.VALUE] for key in keys]

    def existing(self, keys: Sequence[bytes]) -> set[bytes]:
        """Return those of ``keys`` that are there, without fetching values of partitions."""
        by_cell: dict[bytes, list[bytes]] = {}
        for key in keys:
            by_cell.setdefault(layout.smallest_cell(key), []).append(key)
        with self._reading():
            return {key for cell, some in by_cell.items() for key in self._rows(some, cell)}

    def scan(
        self, start: bytes, end: bytes | None, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value) with ``start <= key < end``; backwards, all of it is read first."""
        return pages.scan_pages(self._committed_page, start, end, reverse=reverse, limit=limit)

    def scan_keys(self, start: bytes, end: bytes | None) -> Iterator[bytes]:
        """Yield the keys with ``start <= key < end``."""
        found = self._scanned(start, end, [layout.VALUE], server_filters.KEYS_ONLY)
        return (layout.entry_key(each.row) for each in found)

    def scan_matching(self, start: bytes, end: bytes | None, condition: Condition) -> Iterator[bytes]:
        """Yield the keys of rows with ``start <= key < end``, without some that ``condition`` excludes."""
        cells = [
            layout.numbered_cell(column) for column in sorted(server_filters.compared_columns(condition))
        ]
        found = self._scanned(start, end, cells, server_filters.write_filter(condition))
        return (layout.entry_key(each.row) for each in found)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open the one write transaction; it takes effect when the block ends without an error.

        Raises HBaseUnavailable. Where that comes while it takes effect, it will yet do so, before the next one begins: who
        remembers something of the store has to read it again then.
        """
        with self._lock:
            assert self._open is None, "this thread has a transaction open already"
            self._end_what_was_cut_off()
            transaction = self._open = HBaseTransaction(self)
            try:
                yield transaction
                self._commit(transaction)
            finally:
                transaction.end()
                self._open = None

    def check(self) -> None:
        """Assert that every entry has the cells that its key asks for; raise StateCorrupt for an unreadable transaction."""
        with self._reading():
            redo_log.logged(self.gateway)
            for found in self._pages(b"", None, [layout.FAMILY], None, self.gateway.scan):
                key = layout.entry_key(found.row)
                assert found.cells == layout.cells(key, found.cells[layout.VALUE]), key

    def close(self) -> None:
        """Close the connection; closing twice is no error."""
        self.gateway.close()

    def entry(self, key: bytes) -> Entry | None:
        """Return key, value and version of what is stored (for the transaction's use)."""
        found = self._rows([key], layout.VALUE).get(key)
        return None if found is None else _entry(found)

    def entries(self, start: bytes, end: bytes | None, *, keys_only: bool) -> Iterator[Entry]:
        """Yield what is stored, in order (for the transaction's use)."""
        filter_text = server_filters.KEYS_ONLY if keys_only else None
        return map(_entry, self._pages(start, end, [layout.VALUE], filter_text, self._counted_scan))

    def draw_versions(self, count: int) -> int:
        """Return the last of ``count`` new versions (for the transaction's use)."""
        return self.gateway.add(layout.VERSIONS_ROW, layout.NEXT_VERSION, count)

    def _commit(self, transaction: HBaseTransaction) -> None:
        writes = transaction.writes()
        if not writes:
            return
        self._is_clean = False
        redo_log.log(self.gateway, writes)
        failpoint("hbase-logged")
        redo_log.apply(self.gateway, writes)
        redo_log.forget(self.gateway, writes)
        self._is_clean = True

    def _end_what_was_cut_off(self) -> None:
        """Do what the last writer has promised and not done."""
        if self._is_clean:
            return
        writes = redo_log.logged(self.gateway)
        if writes is not None:
            redo_log.apply(self.gateway, writes)
            redo_log.forget(self.gateway, writes)
            self.counts["ended"] += 1
        self._is_clean = True

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock:
            assert self._open is None, "read through the open transaction"
            yield

    def _rows(self, keys: Iterable[bytes], cell: bytes) -> dict[bytes, Found]:
        found = self.gateway.rows([layout.row_key(key) for key in keys], [cell])
        self.counts["rows-fetched"] += len(found)
        return {layout.entry_key(row): each for row, each in found.items()}

    def _committed_page(
        self, start: bytes, end: bytes | None, reverse: bool, limit: int
    ) -> list[tuple[bytes, bytes]]:
        with self._reading():
            if reverse:
                return [entry[:2] for entry in self.entries(start, end, keys_only=False)][::-1][:limit]
            found = self._counted_scan(layout.row_range(start, end), [layout.VALUE], limit)
            return [_entry(each)[:2] for each in found]

    def _scanned(
        self, start: bytes, end: bytes | None, columns: Sequence[bytes], filter_text: bytes
    ) -> Iterator[Found]:
        return self._pages(start, end, columns, filter_text, self._committed_scan)

    def _pages(
        self,
        start: bytes,
        end: bytes | None,
        columns: Sequence[bytes],
        filter_text: bytes | None,
        scan: Callable[..., list[Found]],
    ) -> Iterator[Found]:
        """Yield the rows of a scan, in pages that grow where no values come."""
        rows, limit = layout.row_range(start, end), pages.PAGE_KEYS
        while rows[0] < rows[1]:
            page = scan(rows, columns, limit, filter_text)
            yield from page
            if len(page) < limit:
                return
            rows = page[-1].row + b"\x00", rows[1]
            limit = min(limit * 4, KEYS_PAGE_MAX) if filter_text else limit

    def _committed_scan(self, *question: object) -> list[Found]:
        with self._reading():
            return self._counted_scan(*question)

    def _counted_scan(self, *question: object) -> list[Found]:
        found = self.gateway.scan(*question)  # type: ignore[arg-type]  # handed on as it came
        self.counts["rows-fetched"] += len(found)
        return found


def _entry(found: Found) -> Entry:
    return layout.entry_key(found.row), found.cells[layout.VALUE], found.version
