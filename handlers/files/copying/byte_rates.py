"""Bytes a second: rates that copies share, and the rates that hold for one pool of copies (``Throttle``).

A step of a copy has the bytes of one second and at most 64 MiB inside the kernel, and 1 MiB elsewhere. It
runs at once if all earlier ones have their share of the rate, and then takes its own share. So a rate holds
on average, and no file is too large. If several threads wait, the most urgent kind of copy comes first, and
within one kind the one that waits longest: replay waits for one step of a load at most.

A rate can change, or disappear, while threads wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from enum import IntEnum
from itertools import count

from handlers.files.copying.transfer import STEP_BYTES_MAX


class Urgency(IntEnum):
    """Kinds of copies, the most urgent first."""

    REPLAY = 0
    """Files of events."""
    LOAD = 1
    """Files of bootstraps, and of loads of single tables."""
    CYCLE = 2
    """Files of external tables that no event names."""


class ByteRate:
    """At most so many bytes a second for all users together; thread-safe."""

    def __init__(self, bytes_per_s: int | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        """None: no limit."""
        assert bytes_per_s is None or bytes_per_s > 0, bytes_per_s
        self._bytes_per_s = bytes_per_s
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: list[tuple[Urgency, int]] = []
        """The least one has its turn once everything is paid for."""
        self._order = count()
        self.paid_s = clock()
        """When everything used so far is paid for."""

    @property
    def bytes_per_s(self) -> int | None:
        """The limit."""
        return self._bytes_per_s

    def change(self, bytes_per_s: int | None) -> None:
        """Set the limit; unpaid bytes count at the new rate."""
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


class Throttle:
    """The rates that hold for one pool of copies; thread-safe."""

    def __init__(
        self,
        rates: Sequence[ByteRate],
        urgency: Urgency = Urgency.REPLAY,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._rates = rates
        self._is_closed = False
        self._lock = threading.Lock()
        self._waiting = 0
        self._waited_s = 0.0
        self.urgency = urgency
        """Of the copies from now on."""

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit now."""
        return any(rate.bytes_per_s is not None for rate in self._rates)

    @property
    def has_waiting(self) -> bool:
        """Whether a thread waits because of a limit."""
        return self._waiting > 0

    @property
    def waited_s(self) -> float:
        """For how long threads have waited because of a limit, all of them together."""
        return self._waited_s

    def step_bytes(self) -> int:
        """Return how many bytes the next step inside the kernel may have."""
        limits = (rate.bytes_per_s for rate in self._rates)
        return min([STEP_BYTES_MAX, *(limit for limit in limits if limit is not None)])

    def use(self, size_bytes: int) -> None:
        """Wait until the bytes are within all rates, or the end of the throttle."""
        if not self.is_limited:
            return
        self._count(1)
        began_s = self._clock()
        try:
            for rate in self._rates:
                rate.use(size_bytes, self.urgency, lambda: self._is_closed)
        finally:
            self._count(-1, self._clock() - began_s)

    def _count(self, change: int, waited_s: float = 0.0) -> None:
        with self._lock:
            self._waiting += change
            self._waited_s += waited_s

    def close(self) -> None:
        """Let all waiting threads continue at once, and never wait again."""
        self._is_closed = True
        for rate in self._rates:
            rate.wake()
