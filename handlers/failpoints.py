"""Named places where a crash test may end the process.

Steps that no unique system call marks (a metastore call, a decision) cannot be hit from outside, so the code names them.
``failpoint("x")`` does nothing unless ``TIDELINE_FAILPOINT`` is ``x`` or ``x:n``: then the n-th time (the first by default)
it is reached the process is ended with SIGKILL, as a power cut would: no cleanup, no buffers flushed.
"""

from __future__ import annotations

import os
import signal
from typing import Final


VARIABLE: Final = "TIDELINE_FAILPOINT"


class _Countdown:
    """How often the chosen failpoint may still be passed."""

    def __init__(self, setting: str) -> None:
        self.name, _, count = setting.partition(":")
        self.left = int(count or 1)

    def reached(self) -> bool:
        """Count one pass and tell whether it is the last."""
        self.left -= 1
        return self.left == 0


_CHOSEN: Final = _Countdown(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None


def failpoint(name: str) -> None:
    """End the process here if the environment asks for it."""
    if _CHOSEN is not None and _CHOSEN.name == name and _CHOSEN.reached():
        os.kill(os.getpid(), signal.SIGKILL)
