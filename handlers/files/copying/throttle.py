"""Limits the rate of copied bytes: several threads share one budget, and each waits for what it has used.

A step of a copy is at most 64 MiB and is paid for after it was made, so that a rate is kept on average and no file is too large.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Callable


class Throttle:
    """At most ``bytes_per_s`` bytes a second, on average since the last idle moment; thread-safe."""

    def __init__(
        self,
        bytes_per_s: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        """``wait`` waits for so many seconds; by default until the throttle is closed."""
        assert bytes_per_s > 0, bytes_per_s
        self._bytes_per_s = bytes_per_s
        self._clock = clock
        self._closed = threading.Event()
        self._wait = wait or self._closed.wait
        self._lock = threading.Lock()
        self._free_s = clock()
        """When everything that was used so far is paid for."""

    def use(self, size_bytes: int) -> None:
        """Count the bytes, and wait until they are within the rate or the throttle is closed."""
        with self._lock:
            now = self._clock()
            self._free_s = max(self._free_s, now) + size_bytes / self._bytes_per_s
            pause_s = self._free_s - now
        if not self._closed.is_set():
            self._wait(pause_s)

    def close(self) -> None:
        """Let all waiting threads continue at once, and never wait again."""
        self._closed.set()
