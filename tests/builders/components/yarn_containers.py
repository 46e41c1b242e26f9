"""The containers of a YARN on this machine."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from tests.builders.components.processes import all_commands


if TYPE_CHECKING:
    from dev.stack.servers.yarn import Yarn


def executors(yarn: Yarn) -> list[int]:
    """Return the JVMs of the containers with executors."""
    return [
        pid
        for pid, command in all_commands()
        if "YarnCoarseGrainedExecutorBackend" in command
        and str(yarn.directory) in command
        and not command.startswith("/bin/bash")
    ]


def kill_an_executor(yarn: Yarn) -> int:
    """Kill the JVM of an executor, as a node does that runs out of memory; return its process."""
    pid = executors(yarn)[0]
    os.kill(pid, signal.SIGKILL)
    return pid
