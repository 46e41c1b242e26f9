"""The store port: ordered bytes to bytes, and transactions over them.

Everything that Tideline remembers goes through this port, so that a position and the effects it stands for are written in
one transaction, and so that a rule is tested on the memory store and runs on SQLite (or HBase) unchanged.

Promises of every implementation: keys are ordered as plain bytes (``memcmp``); a transaction is all or nothing, also across
``kill -9``; a reader sees whole transactions only; there is one writer at a time. Keys are at most 8 KiB, values 16 MiB (8 on HBase).
While a transaction is open its own thread reads through the transaction (asking the store instead is a programming error)
and other threads wait. A scan fetches pages (``state.store.pages``), so the caller may write while it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from state.errors import LimitExceeded


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager


KEY_BYTES_MAX: Final = 8 * 1024
VALUE_BYTES_MAX: Final = 16 * 1024 * 1024


class Reader(Protocol):
    """What can be asked of a store, and of a transaction over it (which sees its own writes)."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""

    def scan(
        self, start: bytes, end: bytes | None, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value) with ``start <= key < end`` in key order; ``end`` None means to the last key."""

    def scan_keys(self, start: bytes, end: bytes | None) -> Iterator[bytes]:
        """Yield the keys of such a scan without fetching values, which costs memory a fiftieth."""


@runtime_checkable
class RemoteReader(Reader, Protocol):
    """A store that every question has to travel to, and that may show a transaction while it takes effect.

    So there are questions about many keys at once, and whoever follows one entry to another has to ask whether that one is
    there: one entry of a transaction may be seen before the other.
    """

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each of ``keys``, or None, in their order."""

    def existing(self, keys: Sequence[bytes]) -> set[bytes]:
        """Return those of ``keys`` that are there, without fetching values."""


class Transaction(Reader, Protocol):
    """Writes that take effect together when the ``with`` block ends without an error."""

    def put(self, key: bytes, value: bytes) -> None:
        """Set ``key``; raise LimitExceeded where key or value is too long."""

    def delete(self, key: bytes) -> None:
        """Forget ``key``; an absent one is no error."""

    def delete_range(self, start: bytes, end: bytes | None) -> int:
        """Forget every key with ``start <= key < end`` and return how many there were."""


class Store(Reader, Protocol):
    """An ordered map with transactions."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Open the one write transaction; a second one at the same time waits or, in the same thread, is an error."""

    def check(self) -> None:
        """Assert the implementation's own invariants; raise StateCorrupt where one is broken."""

    def close(self) -> None:
        """Release what is held; closing twice is no error."""


def prefix_end(prefix: bytes) -> bytes | None:
    """Return the first key after every key that starts with ``prefix``; None where there is none (all ff)."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def refuse_oversize(key: bytes, value: bytes) -> None:
    """Raise LimitExceeded where ``key`` or ``value`` is longer than any store has to take."""
    if len(key) > KEY_BYTES_MAX:
        raise LimitExceeded("a key of the store is too long", size_bytes=len(key), limit_bytes=KEY_BYTES_MAX)
    if len(value) > VALUE_BYTES_MAX:
        raise LimitExceeded(
            "a value of the store is too long", size_bytes=len(value), limit_bytes=VALUE_BYTES_MAX
        )


def get_many(reader: Reader, keys: Sequence[bytes]) -> list[bytes | None]:
    """Return the value of each of ``keys``, or None: at once where the store can do that, else one by one."""
    return reader.get_many(keys) if isinstance(reader, RemoteReader) else [reader.get(key) for key in keys]
