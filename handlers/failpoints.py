"""Named points at which a crash test can kill the process, or hold one of its threads.

Some steps (a metastore call, a decision) have no unique system call, so a test cannot hit them from outside,
and the code names them. ``failpoint("x")`` does nothing unless one of two variables is set:

* ``TIDELINE_FAILPOINT`` is ``x`` or ``x:n``: the n-th pass (default: the first) ends the process with
  SIGKILL. As in a power failure, the process neither cleans up nor flushes a buffer.
* ``TIDELINE_FAILPOINT_HOLD`` is a directory that contains the file ``x.armed``: the first thread that passes
  renames it to ``x.held`` and waits until that file is removed. All other threads continue. Meanwhile the
  test kills a dependency of the process.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Final


VARIABLE: Final = "TIDELINE_FAILPOINT"
HOLD_VARIABLE: Final = "TIDELINE_FAILPOINT_HOLD"
ARMED: Final = ".armed"
HELD: Final = ".held"
_POLL_S: Final = 0.01


class _Countdown:
    """Counts the passes that remain until the configured failpoint kills the process."""

    def __init__(self, setting: str) -> None:
        self.name, _, count = setting.partition(":")
        self.passes = int(count or 1)
        self._lock = threading.Lock()

    def reached(self) -> bool:
        """Count one pass and return whether it is the last."""
        with self._lock:
            self.passes -= 1
            return self.passes == 0


_CHOSEN: Final = _Countdown(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None
_HOLDS: Final = Path(os.environ[HOLD_VARIABLE]) if os.environ.get(HOLD_VARIABLE) else None


def failpoint(name: str) -> None:
    """Kill the process here, or wait, if the environment configures this failpoint."""
    if _CHOSEN is not None and _CHOSEN.name == name and _CHOSEN.reached():
        os.kill(os.getpid(), signal.SIGKILL)
    if _HOLDS is not None:
        hold(_HOLDS, name)


def hold(directory: Path, name: str) -> None:
    """Wait here if the failpoint is armed, until the test removes its file."""
    marker = directory / f"{name}{HELD}"
    try:
        (directory / f"{name}{ARMED}").rename(marker)
    except FileNotFoundError:
        return
    while marker.exists():
        time.sleep(_POLL_S)
