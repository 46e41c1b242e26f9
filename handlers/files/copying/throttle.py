"""The limits of one pool of copies: rates of bytes, and processor time.

A step of a copy has the bytes of one second and at most 64 MiB inside the kernel, and 1 MiB elsewhere.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from handlers.files.copying.byte_rates import ByteRate, Urgency
from handlers.files.copying.processor_share import ProcessorShare
from handlers.files.copying.transfer import STEP_BYTES_MAX


class Throttle:
    """The limits of one pool of copies; thread-safe."""

    def __init__(
        self,
        rates: Sequence[ByteRate],
        urgency: Urgency = Urgency.REPLAY,
        *,
        processor: ProcessorShare | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``processor`` limits the copies that replay does not need; by default, nothing does."""
        self._clock = clock
        self._processor = processor
        self._rates = rates
        self._is_closed = False
        self._lock = threading.Lock()
        self._waiting = 0
        self._waited_s = 0.0
        self.urgency = urgency
        """The urgency of the copies from now on."""

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
        """How long all threads together have waited because of a limit."""
        return self._waited_s

    def step_bytes(self) -> int:
        """Return how many bytes the next step inside the kernel may have."""
        limits = (rate.bytes_per_s for rate in self._rates)
        return min([STEP_BYTES_MAX, *(limit for limit in limits if limit is not None)])

    def use(self, size_bytes: int) -> None:
        """Wait until the bytes are within all rates, or until the throttle is closed."""
        if not self.is_limited:
            return
        self._count(1)
        began_s = self._clock()
        try:
            for rate in self._rates:
                rate.use(size_bytes, self.urgency, lambda: self._is_closed)
        finally:
            self._count(-1, self._clock() - began_s)

    def use_processor(self, seconds: float) -> None:
        """If copies give way to replay now, wait before the next one until replay has had its share of the
        processor.
        """
        if self._processor is not None and self.urgency > Urgency.REPLAY:
            self._processor.use(seconds, self.urgency, lambda: self._is_closed)

    def _count(self, change: int, waited_s: float = 0.0) -> None:
        with self._lock:
            self._waiting += change
            self._waited_s += waited_s

    def close(self) -> None:
        """Let all waiting threads continue at once, and never wait again."""
        self._is_closed = True
        for rate in self._rates:
            rate.wake()
        if self._processor is not None:
            self._processor.wake()
