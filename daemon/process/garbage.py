"""Shortens full garbage collections, which stop all threads of a process.

With 500 policies, one took 0.33 s, and with 20 it took 0.09 s, most of it for imported modules. Each commit
of that time became visible later. Most objects that survive a long collection live as long as the process:
modules, policies, catalogs. So the collector ignores them from then on, and the next collection takes long
only after as many new objects. Python still frees such an object when its last reference goes; only cycles
among them stay in memory.
"""

from __future__ import annotations

import gc
import time
from typing import Final


PAUSE_MAX_S: Final = 0.02
_FULL: Final = 2
"""Python numbers its collections: 0 and 1 visit new objects only, 2 visits all."""


def shorten_pauses(pause_max_s: float = PAUSE_MAX_S) -> None:
    """If a full collection takes longer than ``pause_max_s``, exclude the surviving objects from later
    collections.
    """
    began_s = 0.0

    def freeze(phase: str, info: dict[str, int]) -> None:
        nonlocal began_s
        if info["generation"] < _FULL:
            return
        if phase == "start":
            began_s = time.perf_counter()
        elif time.perf_counter() - began_s > pause_max_s:
            gc.freeze()

    gc.callbacks.append(freeze)
