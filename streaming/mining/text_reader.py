"""The child process of ``text_worker``: reads one text after another within its limits.

The process sets its own limits, after it has loaded the parsers. Above the memory limit, Python raises
MemoryError; above the processor time, the kernel ends the process. The process ends with its parent, when the
connection closes or the time for the current text is over.
"""

from __future__ import annotations

import math
import os
import resource
import signal
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import streaming.mining.sql.queries  # noqa: F401 - loaded before memory is limited
from streaming.mining.miner import Miner


OUT_OF_MEMORY: Final = 77
"""Exit code."""


def main(descriptor: int) -> None:
    """Read texts until the parent closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-c in a terminal reaches the parent, too
    connection: Connection[Any, Any] = Connection(descriptor)
    try:
        rules, memory_bytes, cpu_s = connection.recv()
        miner = Miner(rules)
        _limit_memory(memory_bytes)
        connection.send(True)
        while True:
            answers = []
            for question in connection.recv():
                _limit_time(cpu_s)
                answers.append(miner.read(*question))
            connection.send(answers)
    except (EOFError, OSError):
        return
    except MemoryError:
        os._exit(OUT_OF_MEMORY)  # end at once, because nothing that needs memory is reliable now


def _limit_memory(further_bytes: int) -> None:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + further_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _limit_time(cpu_s: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + cpu_s, hard))


if __name__ == "__main__":
    main(int(sys.argv[1]))
