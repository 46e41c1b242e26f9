"""A bound on the bytes of all copies that run at the same time."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from state.errors import FilesUnavailable


if TYPE_CHECKING:
    from collections.abc import Iterator


class ByteBudget:
    """At most ``size_bytes_max`` bytes at a time; a larger request waits until it is the only one."""

    def __init__(self, size_bytes_max: int) -> None:
        assert size_bytes_max > 0, size_bytes_max
        self._max = size_bytes_max
        self._used = 0
        self._closed = False
        self._changed = threading.Condition()

    def would_wait(self, size_bytes: int) -> bool:
        """Whether a request for so many bytes would wait now."""
        with self._changed:
            return self._used + min(size_bytes, self._max) > self._max

    @contextmanager
    def reserve_bytes(self, size_bytes: int) -> Iterator[None]:
        """Reserve ``size_bytes`` for the block; wait for them, or raise FilesUnavailable once the budget is closed."""
        share = min(size_bytes, self._max)
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._used + share <= self._max)
            if self._closed:
                raise FilesUnavailable("the copy pool is closed")
            self._used += share
        try:
            yield
        finally:
            with self._changed:
                self._used -= share
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
