"""Full collections of garbage, which stop all threads of a process for as long as they take.

With 500 policies, one took 0.33 s, and every commit of that time became visible later. Most objects that
survive a long collection live as long as the process: policies, catalogs, imported modules. So the collector
ignores them from then on, and the next long collection comes after as many new objects. Python still frees
such objects when nothing refers to them any more; only cycles among them stay.
"""

from __future__ import annotations

import gc
import time
from typing import Final


PAUSE_MAX_S: Final = 0.1
_FULL: Final = 2
"""Python numbers its collections: 0 and 1 visit new objects only, 2 visits all."""


def shorten_pauses(pause_max_s: float = PAUSE_MAX_S) -> None:
    """Exclude the objects that survive a full collection of more than ``pause_max_s`` from later ones."""
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
