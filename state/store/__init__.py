"""The store port: an ordered map from bytes to bytes, with transactions.

Everything that Tideline remembers goes through this port. One transaction can therefore write a position and
the effects that it stands for, and a rule tested on the memory store runs unchanged on SQLite and HBase.

Every implementation guarantees:

- key order is that of plain bytes (``memcmp``);
- a transaction takes effect completely or not at all, even across ``kill -9``;
- a reader sees complete transactions only (``RemoteReader`` describes the exception);
- there is one writer at a time;
- keys may have 8 KiB and values 16 MiB (8 MiB on HBase).

While a transaction is open, its own thread must read through the transaction, and other threads wait, except
those that read a snapshot. A scan fetches pages (``state.store.pages``), so the caller may write while it
runs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Final, Protocol, cast, runtime_checkable

from state.errors import LimitExceeded


KEY_BYTES_MAX: Final = 8 * 1024
VALUE_BYTES_MAX: Final = 16 * 1024 * 1024
Pause = Callable[[], None]
"""Called before each page that a snapshot reads; it may wait, or raise to end the reading."""


class Reader(Protocol):
    """Reads from a store, or from a transaction over it (which sees its own writes)."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""

    def scan(
        self, start: bytes, end: bytes | None, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value) with ``start <= key < end`` in key order;
        ``end`` None means up to the last key.
        """

    def scan_keys(self, start: bytes, end: bytes | None) -> Iterator[bytes]:
        """Yield the keys that ``scan`` would yield, without fetching values, at a fiftieth of the cost in
        memory.
        """


@runtime_checkable
class BatchReader(Reader, Protocol):
    """A reader that reads many keys in one call, which costs less than one call for each."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each of ``keys``, or None, in their order."""


@runtime_checkable
class RemoteReader(BatchReader, Protocol):
    """A remote store: every read is a network call, and readers may see a transaction while it takes effect.

    It therefore has calls for many keys at once. A caller that follows one entry to another must check that
    the other exists, because one entry of a transaction may become visible before the other.
    """

    def existing(self, keys: Sequence[bytes]) -> set[bytes]:
        """Return those of ``keys`` that exist, without fetching values."""


class Transaction(Reader, Protocol):
    """Writes that take effect together when the ``with`` block ends without an error."""

    def put(self, key: bytes, value: bytes) -> None:
        """Set ``key``; raise LimitExceeded if key or value is too long."""

    def delete(self, key: bytes) -> None:
        """Delete ``key``; ignore an absent one."""

    def delete_range(self, start: bytes, end: bytes | None) -> None:
        """Delete every key with ``start <= key < end``."""


class Store(Reader, Protocol):
    """An ordered map with transactions."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Open the only write transaction; a second one waits, or fails an assertion in the same thread."""

    def snapshot(self, pause: Pause = ...) -> AbstractContextManager[Reader]:
        """Open a snapshot of the current committed state, unaffected by a transaction in progress. Use it
        from one thread only.

        An implementation without snapshots (memory, HBase) reads page by page the state committed then. Calls
        ``pause`` before each page.
        """

    def check(self) -> None:
        """Assert the implementation's own invariants; raise StateCorrupt if the stored data breaks one."""

    def recover(self) -> None:
        """Make the store usable again after a failure (a full disk, an I/O error); do nothing if it has not
        failed.

        The owner calls this before it reads its state again, because its memory may be ahead of the store.
        Raises FilesUnavailable while the cause lasts.
        """

    def close(self) -> None:
        """Release all resources; closing twice is harmless."""


def prefix_end(prefix: bytes) -> bytes | None:
    """Return the first key after all keys that start with ``prefix``; None if there is none (all ff)."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def refuse_oversize(key: bytes, value: bytes) -> None:
    """Raise LimitExceeded if ``key`` or ``value`` is longer than every store must accept."""
    if len(key) > KEY_BYTES_MAX:
        raise LimitExceeded(
            "the key is too long for the store", size_bytes=len(key), limit_bytes=KEY_BYTES_MAX
        )
    if len(value) > VALUE_BYTES_MAX:
        raise LimitExceeded(
            "the value is too long for the store", size_bytes=len(value), limit_bytes=VALUE_BYTES_MAX
        )


def get_many(reader: Reader, keys: Sequence[bytes]) -> list[bytes | None]:
    """Return the value of each of ``keys``, or None, in one call if the store supports it."""
    batch = cast("BatchReader", reader) if _has_methods_of(type(reader), BatchReader) else None
    return [reader.get(key) for key in keys] if batch is None else batch.get_many(keys)


def as_remote(reader: Reader) -> RemoteReader | None:
    """Return ``reader`` if it is remote, otherwise None."""
    return cast("RemoteReader", reader) if _has_methods_of(type(reader), RemoteReader) else None


@lru_cache(maxsize=64)
def _has_methods_of(kind: type, protocol: Hashable) -> bool:
    """Whether a class has a protocol's methods. ``isinstance`` takes tens of microseconds, so its result
    stays cached for each class.
    """
    return issubclass(kind, cast("type", protocol))
