"""Events that end a process: SIGTERM and SIGINT, and, for a child process, the end of its parent.

The first signal requests an orderly stop, the second ends the process at once. State survives any crash, so
ending at once is safe; the restart repeats some work. Exit codes are those that container platforms expect: 0
after an orderly stop, 1 otherwise.

The parent of a child holds the write end of the child's standard input and never writes. When the parent
ends, even by ``kill -9``, the kernel closes that end; the child then reads the end of its input and kills its
whole process group, which includes the JVM of a Spark driver. This needs neither polling nor a signal that
could get lost.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, NoReturn


@contextmanager
def stop_signals(*, at_once: Callable[[int], None] = os._exit) -> Iterator[threading.Event]:
    """Yield an event that the first SIGTERM or SIGINT sets; the second calls ``at_once(1)``. Main thread
    only.
    """
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


STDIN: Final = 0


def end_with_parent() -> None:
    """Start a thread that kills this process and its group when the parent's end of standard input closes."""
    threading.Thread(target=_watch_input, name="parent-watch", daemon=True).start()


def _watch_input() -> None:
    with suppress(OSError):  # closed, which is the end as well
        while os.read(STDIN, 4096):
            pass
    end_group()


def end_group() -> NoReturn:
    """Kill this process, and its process group if this process leads the group."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
