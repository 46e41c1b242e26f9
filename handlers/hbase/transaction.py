"""The open transaction of the store on HBase: writes are kept here until it commits, and reads see them.

Long transactions cannot be kept whole. What makes them long are rows and postings, which mean the same whenever they are
written; so above a limit those go out early, in the same order, and everything else waits for the commit. A transaction of
at most ``SPILL_ENTRIES`` and ``SPILL_BYTES`` of them is all or nothing; of a longer one that fails or is killed rows and postings may
stay, ahead of the position, until the same events come again.

A cleared range is kept as a range with a version: it takes away what was there before and spares what was put since. So a
table that is loaded anew never stands empty: its new rows come first, and the old ones go at the commit.

Versions are drawn anew by every transaction that writes, so what it writes is newer than all before it, whoever wrote that.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from sortedcontainers import SortedDict

from handlers.failpoints import failpoint
from handlers.hbase.redo_log import Cleared, Writes, delete_kind, put_kind
from state.errors import LimitExceeded
from state.partitions.index.records import EntryKind, kind_of
from state.store import refuse_oversize
from state.store.pages import scan_key_pages, scan_pages


if TYPE_CHECKING:
    from collections.abc import Iterator

    from handlers.hbase.gateway import Gateway


SPILL_ENTRIES: Final = 10_000
SPILL_BYTES: Final = 4 << 20
VALUE_BYTES_MAX: Final = 8 << 20
"""HBase takes cells of 10 MB."""
VERSIONS_AT_ONCE: Final = 1 << 20
"""A transaction needs one, and one more for each range that it clears and each time it writes early."""

Entry = tuple[bytes, bytes, int]
"""Key, value, version."""


class Stored(Protocol):
    """What the transaction asks its store."""

    gateway: Gateway

    def draw_versions(self, count: int) -> int:
        """Return the last of ``count`` versions that are higher than all that were drawn before."""

    def entry(self, key: bytes) -> Entry | None:
        """Return what is stored under ``key``."""

    def entries(self, start: bytes, end: bytes | None, *, keys_only: bool) -> Iterator[Entry]:
        """Yield what is stored with ``start <= key < end``, in order."""


class HBaseTransaction:
    """Made by ``HBaseStore.transaction`` only."""

    def __init__(self, store: Stored) -> None:
        self._store = store
        self._version = self._versions_end = 0
        self._own: SortedDict = SortedDict()  # None: deleted
        self._early_count = self._early_bytes = 0
        self._cleared: list[Cleared] = []
        self._ended = False

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key`` as this transaction sees it, or None."""
        assert not self._ended, "the transaction is over"
        if key in self._own:
            own: bytes | None = self._own[key]
            return own
        found = self._store.entry(key)
        return found[1] if found is not None and self._is_left(found) else None

    def scan(
        self, start: bytes, end: bytes | None, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value) with ``start <= key < end``, own writes included."""
        return scan_pages(self._page, start, end, reverse=reverse, limit=limit)

    def scan_keys(self, start: bytes, end: bytes | None) -> Iterator[bytes]:
        """Yield the keys with ``start <= key < end``, own writes included."""
        return scan_key_pages(self._keys, start, end)

    def put(self, key: bytes, value: bytes) -> None:
        """Set ``key``; raise LimitExceeded where key or value is too long."""
        refuse_oversize(key, value)
        if len(value) > VALUE_BYTES_MAX:
            raise LimitExceeded(
                "a value is too long for HBase", size_bytes=len(value), limit_bytes=VALUE_BYTES_MAX
            )
        self._set(key, value)

    def delete(self, key: bytes) -> None:
        """Forget ``key``; an absent one is no error."""
        self._set(key, None)

    def delete_range(self, start: bytes, end: bytes | None) -> int:
        """Forget every key with ``start <= key < end`` and return how many there were."""
        count = sum(1 for _ in self.scan_keys(start, end))
        for key in list(self._own.irange(start, end, inclusive=(True, False))):
            del self._own[key]
        if end is None or start < end:
            self._cleared.append(Cleared(start, end, self._next_version()))
        return count

    def writes(self) -> Writes:
        """Return what is to be done at the commit."""
        is_empty = not self._own and not self._cleared
        return Writes(0 if is_empty else self._next_version(), *self._split(self._own), self._cleared)

    def end(self) -> None:
        """Make every later use of this transaction an error."""
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
        """Write rows and postings now, and the number before them, which nobody else may draw then."""
        early = {key: value for key, value in self._own.items() if kind_of(key) is not EntryKind.OTHER}
        writes = Writes(self._next_version(), *self._split(early))
        for kind in (EntryKind.NUMBER, EntryKind.POSTING, EntryKind.ROW):
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

    def _is_left(self, entry: Entry) -> bool:
        key, _, version = entry
        return not any(cleared.has(key, version) for cleared in self._cleared)

    def _page(self, start: bytes, end: bytes | None, reverse: bool, most: int) -> list[tuple[bytes, bytes]]:
        """Reading backwards reads forwards and turns round: nothing that runs on HBase asks for it."""
        found = self._view(start, end, keys_only=False)
        return list(found)[::-1][:most] if reverse else list(islice(found, most))

    def _keys(self, start: bytes, end: bytes | None, most: int) -> list[bytes]:
        return [key for key, _ in islice(self._view(start, end, keys_only=True), most)]

    def _view(self, start: bytes, end: bytes | None, *, keys_only: bool) -> Iterator[tuple[bytes, bytes]]:
        """Yield stored entries and own ones in one order; own ones stand for stored ones of the same key."""
        assert not self._ended, "the transaction is over"
        own = [(key, self._own[key]) for key in self._own.irange(start, end, inclusive=(True, False))]
        at = 0
        for entry in self._store.entries(start, end, keys_only=keys_only):
            while at < len(own) and own[at][0] < entry[0]:
                if own[at][1] is not None:
                    yield own[at]
                at += 1
            if self._is_left(entry) and not (at < len(own) and own[at][0] == entry[0]):
                yield entry[:2]
        yield from (each for each in own[at:] if each[1] is not None)
