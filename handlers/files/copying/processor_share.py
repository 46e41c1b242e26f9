"""Processor time of copies that give way to replay.

Python runs one thread at a time. Eight copies of small files would delay each step of replay by eight turns,
and the commits of all policies by seconds. So the copies of loads leave a multiple of the processor time that
replay has just used. While nothing is replayed, they have the whole processor: a bootstrap of the only policy
does not become slower. Large files hardly count, because threads move and hash bytes without Python's lock.

Replay that is held up uses less processor time. So the use that was measured once is forgotten only slowly:
otherwise copies would take even more of a machine that is already too busy.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from handlers.files.copying.byte_rates import ByteRate, Urgency


REPLAY_FACTOR: Final = 6.0
"""Replay uses other threads besides the measured one, and waits for answers between its steps."""
SHARE_MIN: Final = 0.25
"""Of one processor, so that a load ends however much is replayed."""
HALF_LIFE_S: Final = 5.0
"""Of the measured use of replay."""
_WINDOW_S: Final = 0.25
_UNLIMITED: Final = 0.98
_MICROSECONDS: Final = 1_000_000


class ProcessorShare:
    """The processor time of all copies of a process that give way; thread-safe."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rate = ByteRate(None, clock=clock)
        """Of microseconds, in place of bytes."""
        self._lock = threading.Lock()
        self._began_s = clock()
        self._replayed_s = 0.0
        """Processor time of replay since then."""
        self._replay = 0.0
        """The share that replay uses."""
        self.share = 1.0
        """What copies may use of one processor now; 1 if there is no limit."""

    def note_replay(self, seconds: float) -> None:
        """Count processor time of replay."""
        with self._lock:
            self._replayed_s += seconds

    def use(self, seconds: float, urgency: Urgency, is_closed: Callable[[], bool]) -> None:
        """Count the processor time of a copy that has ended, and wait until the next one may begin, or
        ``is_closed`` returns True (see ``wake``).
        """
        with self._lock:
            elapsed_s = self._clock() - self._began_s
            if elapsed_s >= _WINDOW_S:
                remembered = self._replay * 0.5 ** (elapsed_s / HALF_LIFE_S)
                self._replay = max(min(1.0, self._replayed_s / elapsed_s), remembered)
                self._began_s, self._replayed_s = self._began_s + elapsed_s, 0.0
                self.share = max(SHARE_MIN, 1.0 - REPLAY_FACTOR * self._replay)
                is_limited = self.share < _UNLIMITED
                self._rate.change(round(self.share * _MICROSECONDS) if is_limited else None)
        self._rate.use(round(seconds * _MICROSECONDS), urgency, is_closed)

    def wake(self) -> None:
        """Wake waiting threads to check for the end."""
        self._rate.wake()
