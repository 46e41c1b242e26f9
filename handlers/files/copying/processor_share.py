"""Processor time of copies that give way to replay.

Python runs one thread at a time. Eight copies of small files would delay each step of replay by eight turns,
and the commits of all policies by seconds. So while events are applied, and for a moment afterwards, the
copies of loads have a share of one processor. Otherwise they have all of it: a bootstrap of the only policy
does not become slower. Large files hardly count, because threads move and hash bytes without Python's lock.

The share does not depend on how much processor time replay uses: replay that is held up uses less.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from handlers.files.copying.byte_rates import ByteRate, Urgency


SHARE: Final = 0.1
"""Share of one processor that the copies of loads have while events are applied, so that a load ends
however much is replayed. With 0.25, the 99th percentile of other policies' commits was 1.5 to 1.9 times as
high as without a load (``bench/isolation.py``).
"""
HOLD_S: Final = 0.25
"""How long the share lasts after events were applied: the next commit is first read, decoded and sent to
its policies.
"""
_MICROSECONDS: Final = 1_000_000


class ProcessorShare:
    """The processor time of all copies of a process that give way; thread-safe."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rate = ByteRate(None, clock=clock)
        """A rate of microseconds, in place of bytes."""
        self._lock = threading.Lock()
        self._replaying = 0
        """Policies that apply events now."""
        self._ended_s = -math.inf
        """When a policy last stopped applying events."""

    @contextmanager
    def replaying(self) -> Iterator[None]:
        """Limit copies while events are applied in the block."""
        with self._lock:
            self._replaying += 1
        try:
            yield
        finally:
            with self._lock:
                self._replaying -= 1
                self._ended_s = self._clock()

    def use(self, seconds: float, urgency: Urgency, is_closed: Callable[[], bool]) -> None:
        """Count the processor time of a copy that has ended, and wait until the next one may begin, or
        ``is_closed`` returns True (see ``wake``).
        """
        with self._lock:
            is_limited = self._replaying > 0 or self._clock() - self._ended_s < HOLD_S
            limit = round(SHARE * _MICROSECONDS) if is_limited else None
            if limit != self._rate.bytes_per_s:
                self._rate.change(limit)
        self._rate.use(round(seconds * _MICROSECONDS), urgency, is_closed)

    def wake(self) -> None:
        """Wake waiting threads to check for the end."""
        self._rate.wake()
