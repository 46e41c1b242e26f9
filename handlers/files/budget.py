"""How many bytes may move at one time.

A bound on bytes, not on files: eight copies of 2 kB and eight of 2 GB load disks and networks in quite different ways.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from state.errors import FilesUnavailable


if TYPE_CHECKING:
    from collections.abc import Iterator


class ByteBudget:
    """At most ``size_bytes_max`` bytes at one time; a larger request waits until it is alone."""

    def __init__(self, size_bytes_max: int) -> None:
        assert size_bytes_max > 0, size_bytes_max
        self._max = size_bytes_max
        self._used = 0
        self._closed = False
        self._changed = threading.Condition()

    @contextmanager
    def reserved(self, size_bytes: int) -> Iterator[None]:
        """Hold ``size_bytes`` during the block; waits for them, and raises FilesUnavailable once the budget is closed."""
        share = min(size_bytes, self._max)
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._used + share <= self._max)
            if self._closed:
                raise FilesUnavailable("the copy pool was closed")
            self._used += share
        try:
            yield
        finally:
            with self._changed:
                self._used -= share
                self._changed.notify_all()

    def close(self) -> None:
        """Wake all who wait and refuse all who come."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def check(self) -> None:
        """Assert the invariant."""
        with self._changed:
            assert 0 <= self._used <= self._max
