"""The open transaction of the store on HBase: buffers writes until the commit; its own reads see them.

Memory cannot hold a long transaction. Rows and postings make it long, and they mean the same whenever they
are written. So above a limit the transaction writes them early, in the same order, and everything else waits
for the commit. It logs the old values before (``undo_log``), so that the next transaction first rolls back
one of any length that failed or was killed.

A cleared range is kept as a range with a version: it removes earlier entries and spares later ones. So a
reloaded table is never empty in between: its new rows are written first, and the old ones are removed at the
commit.

Every transaction that writes draws new versions, so its writes are newer than all earlier ones, of any
process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, Protocol

from sortedcontainers import SortedDict

from handlers.failpoints import failpoint
from handlers.hbase.gateway import Gateway
from handlers.hbase.redo_log import ClearedRange, Writes, delete_kind, put_kind
from state.errors import LimitExceeded
from state.partitions.index.records import EntryKind, kind_of
from state.store import refuse_oversize
from state.store.pages import scan_key_pages, scan_pages


SPILL_ENTRIES: Final = 10_000
SPILL_BYTES: Final = 4 << 20
VALUE_BYTES_MAX: Final = 8 << 20
"""HBase accepts cells of up to 10 MB."""
VERSIONS_AT_ONCE: Final = 1 << 20
"""A transaction needs one version, and one more for each range that it clears and each early write."""

StoredEntry = tuple[bytes, bytes, int]
"""Key, value, version."""


class Stored(Protocol):
    """The transaction's view of its store."""

    gateway: Gateway

    def draw_versions(self, count: int) -> int:
        """Return the last of ``count`` new versions, which are higher than all drawn before."""

    def entry(self, key: bytes) -> StoredEntry | None:
        """Return the stored entry of ``key``, or None."""

    def entries_of(self, keys: Sequence[bytes]) -> list[StoredEntry]:
        """Return the stored entries of ``keys``, without those that do not exist."""

    def log_undo(self, keys: Sequence[bytes], version: int) -> None:
        """Log the values under ``keys`` before early writes with ``version``."""

    def entries(self, start: bytes, end: bytes | None, *, keys_only: bool) -> Iterator[StoredEntry]:
        """Yield the stored entries with ``start <= key < end``, in order."""


class HBaseTransaction:
    """A transaction; only ``HBaseStore.transaction`` creates one."""

    def __init__(self, store: Stored) -> None:
        self._store = store
        self._version = self._versions_end = 0
        self._own: SortedDict = SortedDict()  # None: deleted
        self._early_count = self._early_bytes = 0
        self._cleared: list[ClearedRange] = []
        self._ended = False
        self._has_spilled = False

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key`` as this transaction sees it, or None."""
        assert not self._ended, "the transaction is over"
        if key in self._own:
            own: bytes | None = self._own[key]
            return own
        entry = self._store.entry(key)
        return entry[1] if entry is not None and self._remains(entry) else None

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each of ``keys`` as this transaction sees it, or None;
        one message for those that it did not write.
        """
        assert not self._ended, "the transaction is over"
        entries = self._store.entries_of([key for key in keys if key not in self._own])
        stored = {key: value for key, value, version in entries if self._remains((key, value, version))}
        return [self._own[key] if key in self._own else stored.get(key) for key in keys]

    def scan(
        self, start: bytes, end: bytes | None, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value) with ``start <= key < end``, including own writes."""
        return scan_pages(self._page, start, end, reverse=reverse, limit=limit)

    def scan_keys(self, start: bytes, end: bytes | None) -> Iterator[bytes]:
        """Yield the keys with ``start <= key < end``, including own writes."""
        return scan_key_pages(self._keys, start, end)

    def put(self, key: bytes, value: bytes) -> None:
        """Set ``key``; raise LimitExceeded if key or value is too long."""
        refuse_oversize(key, value)
        if len(value) > VALUE_BYTES_MAX:
            raise LimitExceeded(
                "a value is too long for HBase", size_bytes=len(value), limit_bytes=VALUE_BYTES_MAX
            )
        self._set(key, value)

    def delete(self, key: bytes) -> None:
        """Delete ``key``; an absent one is not an error."""
        self._set(key, None)

    def delete_range(self, start: bytes, end: bytes | None) -> None:
        """Delete every key with ``start <= key < end``; nothing is read for that."""
        assert not self._ended, "the transaction is over"
        for key in list(self._own.irange(start, end, inclusive=(True, False))):
            del self._own[key]
        if end is None or start < end:
            self._cleared.append(ClearedRange(start, end, self._next_version()))

    def writes(self) -> Writes:
        """Return the writes that the commit must apply."""
        is_empty = not self._own and not self._cleared and not self._has_spilled
        return Writes(0 if is_empty else self._next_version(), *self._split(self._own), self._cleared)

    def end(self) -> None:
        """End the transaction; every later use is an error."""
        self._ended = True

    def _set(self, key: bytes, value: bytes | None) -> None:
        assert not self._ended, "the transaction is over"
        self._own[key] = value
        if kind_of(key) is EntryKind.OTHER:
            return
        self._early_count += 1
        self._early_bytes += len(key) + len(value or b"")
        if self._early_count >= SPILL_ENTRIES or self._early_bytes >= SPILL_BYTES:
            self._spill()

    def _spill(self) -> None:
        """Write rows and postings now, and before them their requirements: table numbers, which no other
        process may draw, and dictionaries.
        """
        early = {key: value for key, value in self._own.items() if kind_of(key) is not EntryKind.OTHER}
        writes = Writes(self._next_version(), *self._split(early))
        undone = [key for key in early if kind_of(key) is not EntryKind.BASIS]
        self._store.log_undo(undone, writes.version)
        self._has_spilled = True
        for kind in (EntryKind.BASIS, EntryKind.POSTING, EntryKind.ROW):
            put_kind(self._store.gateway, writes, kind)
        for kind in (EntryKind.ROW, EntryKind.POSTING):
            delete_kind(self._store.gateway, writes, kind)
        for key in early:
            del self._own[key]
        self._early_count = self._early_bytes = 0
        failpoint("hbase-spilled")

    def _next_version(self) -> int:
        if self._version == self._versions_end:
            self._versions_end = self._store.draw_versions(VERSIONS_AT_ONCE)
            self._version = self._versions_end - VERSIONS_AT_ONCE
        self._version += 1
        return self._version

    @staticmethod
    def _split(entries: dict[bytes, bytes | None]) -> tuple[dict[bytes, bytes], list[bytes]]:
        puts = {key: value for key, value in entries.items() if value is not None}
        return puts, [key for key in entries if key not in puts]

    def _remains(self, entry: StoredEntry) -> bool:
        key, _, version = entry
        return not any(cleared.has(key, version) for cleared in self._cleared)

    def _page(self, start: bytes, end: bytes | None, reverse: bool, most: int) -> list[tuple[bytes, bytes]]:
        """Return a page of entries. To read backwards, it reads everything forwards and reverses that;
        nothing on HBase reads backwards.
        """
        entries = self._view(start, end, keys_only=False)
        return list(entries)[::-1][:most] if reverse else list(islice(entries, most))

    def _keys(self, start: bytes, end: bytes | None, most: int) -> list[bytes]:
        return [key for key, _ in islice(self._view(start, end, keys_only=True), most)]

    def _view(self, start: bytes, end: bytes | None, *, keys_only: bool) -> Iterator[tuple[bytes, bytes]]:
        """Yield stored and pending entries in one order;
        a pending entry replaces the stored one with the same key.
        """
        assert not self._ended, "the transaction is over"
        own = [(key, self._own[key]) for key in self._own.irange(start, end, inclusive=(True, False))]
        at = 0
        for entry in self._store.entries(start, end, keys_only=keys_only):
            while at < len(own) and own[at][0] < entry[0]:
                if own[at][1] is not None:
                    yield own[at]
                at += 1
            if self._remains(entry) and not (at < len(own) and own[at][0] == entry[0]):
                yield entry[:2]
        yield from (each for each in own[at:] if each[1] is not None)
