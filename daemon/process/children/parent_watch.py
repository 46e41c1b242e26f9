"""Ends a process when the process that started it is gone.

The starter holds the write end of the child's standard input and never writes. However the starter ends, even by ``kill -9``, the
kernel closes that end; the child then reads the end of its input and kills its whole process group, which includes the JVM of a Spark
driver. This needs no polling, and no signal that a third process could miss.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Final, NoReturn


STDIN: Final = 0


def end_with_parent(descriptor: int = STDIN) -> None:
    """Start a thread that kills this process and its group as soon as the other end of ``descriptor`` is closed."""
    threading.Thread(target=_watch, args=(descriptor,), name="parent-watch", daemon=True).start()


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
    """Kill this process, and its process group if it leads one (otherwise the group belongs to another process)."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
