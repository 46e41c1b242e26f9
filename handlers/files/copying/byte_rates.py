"""Bytes a second: rates that copies share.

A step of a copy runs at once if the bytes of all earlier steps have had their time at this rate; the next
step then waits for the time of this one. So a rate holds on average, and no file is too large for it. If
several threads wait, the most urgent kind of copy comes first, and within one kind the one that waits
longest: replay waits for one step of a load at most.

A rate can change, or disappear, while threads wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import IntEnum
from itertools import count


class Urgency(IntEnum):
    """Kinds of copies, the most urgent first."""

    REPLAY = 0
    """Files of events."""
    LOAD = 1
    """Files of bootstraps, and of loads of single tables."""
    CYCLE = 2
    """Files of external tables that no event names."""


class ByteRate:
    """A limit of bytes per second for all users together; thread-safe."""

    def __init__(self, bytes_per_s: int | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        """None as ``bytes_per_s`` means no limit."""
        assert bytes_per_s is None or bytes_per_s > 0, bytes_per_s
        self._bytes_per_s = bytes_per_s
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: list[tuple[Urgency, int]] = []
        """The waiting steps; the least one has its turn once the bytes before it have had their time."""
        self._order = count()
        self.paid_s = clock()
        """When the bytes used so far have had their time."""

    @property
    def bytes_per_s(self) -> int | None:
        """The limit."""
        return self._bytes_per_s

    def change(self, bytes_per_s: int | None) -> None:
        """Set the limit; the new rate also applies to bytes that were used ahead of the rate."""
        assert bytes_per_s is None or bytes_per_s > 0, bytes_per_s
        with self._changed:
            now_s, before = self._clock(), self._bytes_per_s
            unpaid_bytes = max(0.0, self.paid_s - now_s) * (before or 0)
            self._bytes_per_s = bytes_per_s
            self.paid_s = now_s + (0.0 if bytes_per_s is None else unpaid_bytes / bytes_per_s)
            self._changed.notify_all()

    def use(self, size_bytes: int, urgency: Urgency, is_closed: Callable[[], bool]) -> None:
        """Wait until the bytes may be used, or ``is_closed`` returns True (see ``wake``)."""
        if self._bytes_per_s is None:
            return
        with self._changed:
            place = (urgency, next(self._order))
            self._waiting.append(place)
            try:
                while not is_closed() and self._bytes_per_s is not None:
                    is_first = min(self._waiting) == place
                    now_s = self._clock()
                    if is_first and self.paid_s <= now_s:
                        self.paid_s = now_s + size_bytes / self._bytes_per_s
                        return
                    self._changed.wait(self.paid_s - now_s if is_first else None)
            finally:
                self._waiting.remove(place)
                self._changed.notify_all()

    def wake(self) -> None:
        """Wake waiting threads to check for the end."""
        with self._changed:
            self._changed.notify_all()
