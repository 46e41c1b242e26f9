"""Scans in pages: the caller may write to the data under iteration.

A cursor that stays open during writes has undefined results (SQLite) or fails (a sorted dictionary). A scan
here fetches one page at a time and remembers only the last key that it returned, so the caller may write
between two items.

Promise: a scan returns a key that does not change meanwhile exactly once and in order. Of a key written or
deleted ahead of the scan, it may return the old or the new state. Each page is consistent in itself. A caller
that needs a longer scan to be consistent runs it inside a transaction, which keeps other writers out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from state.store import Pause, Reader


PAGE_KEYS: Final = 512
"""Keys per page: 100 KiB at usual sizes; measured on SQLite, larger pages gained nothing."""

FetchPage = Callable[[bytes, "bytes | None", bool, int], list[tuple[bytes, bytes]]]
"""(start, end, reverse, most): returns the first ``most`` pairs of ``start <= key < end`` in scan order."""
FetchKeys = Callable[[bytes, "bytes | None", int], list[bytes]]
"""(start, end, most): returns the first ``most`` keys of ``start <= key < end`` in order."""


def scan_pages(
    fetch: FetchPage, start: bytes, end: bytes | None, *, reverse: bool, limit: int | None
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the pairs of a scan, fetching the next page at the end of the previous one."""
    assert limit is None or limit >= 0, limit
    remaining = limit
    while remaining is None or remaining > 0:
        most = PAGE_KEYS if remaining is None else min(remaining, PAGE_KEYS)
        page = fetch(start, end, reverse, most)
        yield from page
        if len(page) < most:
            return
        remaining = None if remaining is None else remaining - most
        if reverse:
            end = page[-1][0]
        else:
            start = page[-1][0] + b"\x00"


def scan_key_pages(fetch: FetchKeys, start: bytes, end: bytes | None) -> Iterator[bytes]:
    """Yield the keys of a scan, fetching the next page at the end of the previous one."""
    while True:
        page = fetch(start, end, PAGE_KEYS)
        yield from page
        if len(page) < PAGE_KEYS:
            return
        start = page[-1] + b"\x00"


class PausingReader:
    """A reader that calls ``pause`` for each page of a scan."""

    def __init__(self, reader: Reader, pause: Pause) -> None:
        self._reader = reader
        self._pause = pause

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        return self._reader.get(key)

    def scan(
        self, start: bytes, end: bytes | None, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value) with ``start <= key < end`` in key order."""
        for number, entry in enumerate(self._reader.scan(start, end, reverse=reverse, limit=limit)):
            if not number % PAGE_KEYS:
                self._pause()
            yield entry

    def scan_keys(self, start: bytes, end: bytes | None) -> Iterator[bytes]:
        """Yield the keys with ``start <= key < end``."""
        for number, key in enumerate(self._reader.scan_keys(start, end)):
            if not number % PAGE_KEYS:
                self._pause()
            yield key
