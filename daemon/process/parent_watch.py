"""A process that does not outlive the one that started it.

The starter keeps the write end of the process' standard input and never writes. However the starter ends, even by ``kill -9``, the
kernel closes that end, the process reads the end of its input, and ends itself with everything that it started: it leads a process
group of its own, and a Spark driver's JVM is in it. No polling, no signal that a third process could miss.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Final, NoReturn


STDIN: Final = 0


def end_with_starter(descriptor: int = STDIN) -> None:
    """From now on end, at once and with the whole process group, when nobody holds the other end of ``descriptor`` any more."""
    threading.Thread(target=_watch, args=(descriptor,), name="leash", daemon=True).start()


def _watch(descriptor: int) -> None:
    while _read(descriptor):
        pass
    end_group()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""  # closed, which is the end as well


def end_group() -> NoReturn:
    """Kill this process, and its process group where it leads one (otherwise the group is somebody else's)."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
