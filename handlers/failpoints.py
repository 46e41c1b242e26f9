"""Named points at which a crash test can kill the process.

Some steps (a metastore call, a decision) are not marked by a unique system call and cannot be hit from outside, so the code names
them. ``failpoint("x")`` does nothing unless ``TIDELINE_FAILPOINT`` is ``x`` or ``x:n``. Then the n-th pass (default: the first) ends the
process with SIGKILL: as in a power failure, nothing is cleaned up and no buffer is flushed.
"""

from __future__ import annotations

import os
import signal
from typing import Final


VARIABLE: Final = "TIDELINE_FAILPOINT"


class _Countdown:
    """Counts the passes that remain until the configured failpoint kills the process."""

    def __init__(self, setting: str) -> None:
        self.name, _, count = setting.partition(":")
        self.left = int(count or 1)

    def reached(self) -> bool:
        """Count one pass and return whether it is the last."""
        self.left -= 1
        return self.left == 0


_CHOSEN: Final = _Countdown(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None


def failpoint(name: str) -> None:
    """Kill the process here if the environment configures this failpoint."""
    if _CHOSEN is not None and _CHOSEN.name == name and _CHOSEN.reached():
        os.kill(os.getpid(), signal.SIGKILL)
