"""The limit of bytes that threads copy at one time; ``byte_rates`` has those of bytes a second."""

from __future__ import annotations

import threading

from state.errors import FilesUnavailable


class ByteBudget:
    """A limit of ``size_bytes_max`` bytes at a time; a larger request waits until it is the only one."""

    def __init__(self, size_bytes_max: int) -> None:
        assert size_bytes_max > 0, size_bytes_max
        self._max = size_bytes_max
        self._used = 0
        self._closed = False
        self._waiting = 0
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)

    def would_wait(self, size_bytes: int) -> bool:
        """Whether a request for this number of bytes would wait now."""
        with self._lock:
            return self._used + min(size_bytes, self._max) > self._max

    def reserve_bytes(self, size_bytes: int) -> Reservation:
        """Reserve ``size_bytes`` for a block; it waits for them, or raises FilesUnavailable after the end of
        the budget.
        """
        return Reservation(self, min(size_bytes, self._max))

    def take(self, share: int) -> None:
        """Wait for ``share`` bytes; raise FilesUnavailable after the end of the budget."""
        with self._lock:
            while not self._closed and self._used + share > self._max:
                self._waiting += 1
                self._changed.wait()
                self._waiting -= 1
            if self._closed:
                raise FilesUnavailable("the copy pool is closed")
            self._used += share

    def give_back(self, share: int) -> None:
        """Return bytes taken."""
        with self._lock:
            self._used -= share
            if self._waiting:
                self._changed.notify_all()

    def close(self) -> None:
        """Wake all waiting callers and refuse new ones."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def check(self) -> None:
        """Assert the invariant."""
        with self._changed:
            assert 0 <= self._used <= self._max


class Reservation:
    """Bytes reserved for a block. A class, because a generator costs as much as a system call."""

    __slots__ = ("_budget", "_share")

    def __init__(self, budget: ByteBudget, share: int) -> None:
        self._budget = budget
        self._share = share

    def __enter__(self) -> None:
        """Wait for the bytes."""
        self._budget.take(self._share)

    def __exit__(self, *_: object) -> None:
        self._budget.give_back(self._share)
