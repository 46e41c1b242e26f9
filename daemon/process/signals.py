"""SIGTERM and SIGINT: the first requests an orderly stop, the second ends the process at once.

State survives any crash, so ending at once is safe; some work is repeated after the restart. Exit codes are those that container
platforms expect: 0 after an orderly stop, 1 otherwise.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType


@contextmanager
def stop_signals(*, at_once: Callable[[int], None] = os._exit) -> Iterator[threading.Event]:
    """Yield an event that the first SIGTERM or SIGINT sets; the second one calls ``at_once(1)``. Main thread only."""
    stopping = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        if stopping.is_set():
            at_once(1)
        stopping.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
