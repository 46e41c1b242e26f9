"""Writes the content of a listing under its table number in steps, and continues what an interrupted load has written.

A load that was interrupted, by a restart or by a change of the table, has left content of an older listing. The new listing
may differ from it anywhere. So every key is compared instead of written again, which takes a fraction of the time; at the end,
keys that the new listing does not have are removed. The result is the content of the new listing, independent of what was there before.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import islice
from typing import TYPE_CHECKING, Final

from state.store import get_many
from state.timelines.tables import records


if TYPE_CHECKING:
    from state.store import Transaction
    from state.timelines.tables.listing import ListingLoad


_BUCKETS: Final = 1024
"""Each is sorted separately, so no single call sorts a million keys."""


class ListingWriter:
    """Writes one listing."""

    def __init__(self, listing: ListingLoad, number: int, *, resumed: bool) -> None:
        """``resumed``: an interrupted load may have written under ``number`` before."""
        self._content = listing.content(number)
        self._number = number
        self._keys = KeySet() if resumed else None
        self._is_written = False
        self._checked_to = b""

    def write(self, txn: Transaction, limit: int) -> bool:
        """Write or check at most ``limit`` keys; return whether there is more."""
        if not self._is_written:
            chunk = list(islice(self._content, limit))
            self._put(txn, chunk)
            self._is_written = len(chunk) < limit
            return not self._is_written or self._keys is not None
        return self._keys is not None and self._remove_others(txn, self._keys, limit)

    def _put(self, txn: Transaction, chunk: list[tuple[bytes, bytes]]) -> None:
        if self._keys is None:
            for key, value in chunk:
                txn.put(key, value)
            return
        for (key, value), stored in zip(chunk, get_many(txn, [key for key, _ in chunk]), strict=True):
            self._keys.add(key)
            if stored != value:
                txn.put(key, value)

    def _remove_others(self, txn: Transaction, keys: KeySet, limit: int) -> bool:
        """Remove the keys of the next ``limit`` that are not in the listing."""
        stored = list(islice(records.scan_content(txn, self._number, self._checked_to), limit))
        for key in stored:
            if key not in keys:
                txn.delete(key)
        if stored:
            self._checked_to = stored[-1] + b"\x00"
        return len(stored) == limit


class KeySet:
    """A set of millions of keys in eight bytes each: their hashes, so two keys are confused once in 10^19 comparisons."""

    def __init__(self) -> None:
        self._buckets = [array("q") for _ in range(_BUCKETS)]
        self._is_sorted = bytearray(_BUCKETS)

    def add(self, key: bytes) -> None:
        """Add a key."""
        hashed = hash(key)
        self._buckets[hashed % _BUCKETS].append(hashed)
        self._is_sorted[hashed % _BUCKETS] = False

    def __contains__(self, key: bytes) -> bool:
        hashed = hash(key)
        number = hashed % _BUCKETS
        if not self._is_sorted[number]:
            self._buckets[number] = array("q", sorted(self._buckets[number]))
            self._is_sorted[number] = True
        ordered = self._buckets[number]
        at = bisect_left(ordered, hashed)
        return at < len(ordered) and ordered[at] == hashed
