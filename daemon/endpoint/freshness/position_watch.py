"""Waiting until the follower has committed an event.

The follower is another process, and SQLite has no notifications. One of the waiting threads therefore reads the position again and again, and
wakes the others; the others only wait. Nothing is read while no thread waits.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Callable


FIRST_PAUSE_S: Final = 0.001
"""Pause between two readings of the position; a reading takes about 0.05 ms."""
LONGEST_PAUSE_S: Final = 0.01


class PositionWatch:
    """Watches one position for many threads."""

    def __init__(
        self,
        read: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._read = read
        self._clock = clock
        self._pause = pause
        self._changed = threading.Condition()
        self._position = -1
        self._is_watched = False

    def wait(self, event_id: int, timeout_s: float) -> bool:
        """Wait until the position has reached ``event_id``; return False after the time-out. Raises the errors of reading."""
        end_s = self._clock() + timeout_s
        with self._changed:
            while self._position < event_id:
                left_s = end_s - self._clock()
                if left_s <= 0:
                    return False
                if self._is_watched:
                    self._changed.wait(left_s)
                else:
                    self._watch(end_s)
        return True

    def _watch(self, end_s: float) -> None:
        """Read until the position changes or the time ends; called with the lock, which is released meanwhile."""
        before, self._is_watched = self._position, True
        self._changed.release()
        found = before
        try:
            found = self._read_until_changed(before, end_s)
        finally:
            self._changed.acquire()
            self._position, self._is_watched = found, False
            self._changed.notify_all()

    def _read_until_changed(self, before: int, end_s: float) -> int:
        pause_s = FIRST_PAUSE_S
        while (found := self._read()) == before and self._clock() < end_s:
            self._pause(pause_s)
            pause_s = min(LONGEST_PAUSE_S, pause_s * 1.2)
        return found
