"""Decides when loads pause: those of failed tables, so that tries take at most a tenth of the time, and all
loads if the cause is probably not a table.

Times are Unix times, which another clock may set back; so a pause that seems longer than the maximum counts
as over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from handlers.catalog.following.table_state import PAUSE_MAX_S, PAUSE_SHARE


FAILURES_MAX: Final = 3
"""Failures in a row after which the cause is probably not in the tables."""
PAUSE_S: Final = 5.0
"""How long all loads pause, at least, if the cause is not in a table."""
Clock = Callable[[], float]


class LoadPauses:
    """The pauses of one source's loads."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._retries_from_s = self._loads_from_s = 0.0
        self._failures = 0
        """Failed loads since the last one that did not fail."""

    def allow_loads(self) -> bool:
        """Whether tables may load now."""
        return not _is_paused(self._loads_from_s, self.clock())

    def allow_retries(self) -> bool:
        """Whether tables with a failed load may load again now."""
        return not _is_paused(self._retries_from_s, self.clock())

    def measure_s(self, began_s: float) -> float:
        """Return the time since ``began_s``."""
        return max(0.0, self.clock() - began_s)

    def note_success(self) -> None:
        """Note that a load did not fail."""
        self._failures = 0

    def note_failure(self, took_s: float) -> None:
        """Note that the load of a table failed although the source answers;
        pause all loads after several in a row.
        """
        self._failures += 1
        if self._failures >= FAILURES_MAX:
            self.pause_loads(took_s)

    def pause_loads(self, took_s: float) -> float:
        """Pause all loads after one that failed in ``took_s``; return for how long."""
        pause_s = min(max(PAUSE_S, took_s), PAUSE_MAX_S)
        self._loads_from_s = self.clock() + pause_s
        return pause_s

    def pause_retries(self, took_s: float) -> None:
        """Pause loads of failed tables after an attempt that took ``took_s``."""
        self._retries_from_s = self.clock() + min(PAUSE_SHARE * took_s, PAUSE_MAX_S)


def _is_paused(until_s: float, now_s: float) -> bool:
    """Whether a pause lasts; False if the clock went back by more than the longest one."""
    return now_s < until_s <= now_s + PAUSE_MAX_S
