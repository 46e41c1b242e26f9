"""Limits how many loads and cycles of external tables run at a time, over all policies of a target. Each runs
in its own threads, because it may take hours. A policy that finds no free place tries again between its next
two batches, and meanwhile continues to replicate.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final


LOADS_MAX: Final = 16
CYCLES_MAX: Final = 4


class Places:
    """A limited number of places; thread-safe."""

    def __init__(self, number: int) -> None:
        self._free = threading.BoundedSemaphore(number)

    def take(self) -> bool:
        """Take a place; return False if none is free."""
        return self._free.acquire(blocking=False)

    def leave(self) -> None:
        """Leave a place that was taken."""
        self._free.release()


@dataclass(frozen=True, slots=True)
class LongWork:
    """The places of a target's policies."""

    loads: Places = field(default_factory=lambda: Places(LOADS_MAX))
    """Loads of single tables of policies that are followed; bootstraps have their own turns."""
    cycles: Places = field(default_factory=lambda: Places(CYCLES_MAX))
    """Cycles over the external tables of a policy."""
