"""Consequence of a failure: a delay before the retry, or the quarantine of a table.

The delay is exponential with full jitter, for single calls and for the loops of the daemon alike. The reason
of a quarantine is one value, which projections report and which status, log and JSON show.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final


_JITTER: Final = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class Backoff:
    """The delay after the n-th failure in a row:
    between ``min_s`` and a bound that doubles up to ``max_s``.
    """

    min_s: float = 0.5
    max_s: float = 60.0

    def bound_s(self, failures: int) -> float:
        """Return the longest delay after ``failures`` failures in a row (1 or more)."""
        doublings = min(failures - 1, 32)
        return float(min(self.max_s, self.min_s * 2**doublings))

    def pause_s(self, failures: int) -> float:
        """Draw a delay; the jitter keeps callers that failed together from returning together."""
        return _JITTER.uniform(self.min_s, self.bound_s(failures))


@dataclass(frozen=True, slots=True)
class TableFailure:
    """The first failure of a quarantined table."""

    table: str
    """``db.table`` at the source."""
    event_id: int | None
    """The event that could not be applied; None if the table failed while it was loaded."""
    time_s: int | None
    """Unix time; None if an older version recorded the failure."""
    code: str
    reason: str
