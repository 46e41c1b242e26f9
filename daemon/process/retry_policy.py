"""Retry policy: decides, from the class of an error, whether a loop is restarted and after which delay.

Transient errors are retried indefinitely with exponential backoff and full jitter. Refusals of the other side and unexpected errors
are retried a few times, because reopening may clear them. Errors that need an operator (a gap, invalid configuration, corrupt
state) stop the loop. Every other module raises; only this one decides.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum
from typing import Final

from state.errors import Refused, TidelineError, Transient


_JITTER: Final = random.SystemRandom()


class Verdict(Enum):
    """What an error means for the loop that it ended."""

    RETRY = "retry"
    RETRY_BOUNDED = "retry-bounded"
    STOP = "stop"


def judge(error: Exception) -> Verdict:
    """Return what ``error`` means; an error outside the tree is a defect of Tideline, which may not happen again."""
    match error:
        case Transient():
            return Verdict.RETRY
        case Refused():
            return Verdict.RETRY_BOUNDED
        case TidelineError():
            return Verdict.STOP
        case _:
            return Verdict.RETRY_BOUNDED


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to pause after the n-th failure in a row: full jitter between ``min_s`` and a doubling bound."""

    min_s: float = 0.5
    max_s: float = 60.0
    attempts_max: int = 8
    """Failures in a row after which a bounded retry gives up."""

    def bound_s(self, failures: int) -> float:
        """Return the longest pause after ``failures`` failures in a row (1 or more)."""
        doublings = min(failures - 1, 32)
        return float(min(self.max_s, self.min_s * 2**doublings))

    def pause_s(self, failures: int) -> float:
        """Draw a pause; the jitter keeps loops that failed together from coming back together."""
        return _JITTER.uniform(self.min_s, self.bound_s(failures))
