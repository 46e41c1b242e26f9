"""The copies made by loads, as part of the counts of their policy.

Every load has copy threads of its own, which end with it. Their counts are kept, so that the metrics of copies and bytes contain all
files that reach the target, and never decrease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.files.copying.pool import CopyCounters


if TYPE_CHECKING:
    from collections.abc import Callable

    from handlers.files.copying.pool import CopyPool


class LoadCopies:
    """The copy pools of a policy's loads, which run one after another. ``total`` is for any thread."""

    def __init__(self, build: Callable[[], CopyPool]) -> None:
        self._build = build
        self._known: tuple[CopyCounters, CopyPool | None] = (CopyCounters(), None)
        """The counts of ended loads, and the pool of the last one; replaced as a whole."""

    def open(self) -> CopyPool:
        """Return the copy threads of the next load."""
        pool = self._build()
        self._known = (self.total(), pool)
        return pool

    def total(self) -> CopyCounters:
        """Return the counts of all loads so far."""
        ended, pool = self._known
        return ended if pool is None else ended.plus(pool.counters())

    def pending(self) -> int:
        """Return the approximate number of files that the current load still has to copy."""
        _, pool = self._known
        return 0 if pool is None else sum(pool.pending())
