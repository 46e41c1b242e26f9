"""Failpoints: named places at which a crash test kills the process.

System calls can be killed one by one from outside (strace), a metastore or Kafka call cannot be told from the next one that
way. So the steps whose order matters carry a name, and a test runs the same program once per name (and once per time it is
passed), always with ``SIGKILL``: no handler, no ``finally``, no flush, just as when the machine goes away.

``TIDELINE_FAILPOINT=name`` kills at the first pass, ``name:3`` at the third. Without the variable a failpoint is one
comparison; a malformed value stops the import, because a crash test that never crashes would pass.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Final


VARIABLE: Final = "TIDELINE_FAILPOINT"


class _Trap:
    """The one armed failpoint of this process and how many passes it has left."""

    def __init__(self, setting: str) -> None:
        name, _, count = setting.partition(":")
        self.name = name
        self._left = int(count) if count else 1
        self._lock = threading.Lock()

    def passed(self) -> bool:
        """Count one pass; tell whether it was the last one."""
        with self._lock:
            self._left -= 1
            return self._left == 0


_TRAP: Final = _Trap(os.environ.get(VARIABLE, ""))


def failpoint(name: str) -> None:
    """Kill this process if ``name`` is the armed failpoint and this is the pass that it is armed for."""
    if name == _TRAP.name and _TRAP.passed():
        os.kill(os.getpid(), signal.SIGKILL)
