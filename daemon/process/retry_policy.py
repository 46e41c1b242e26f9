"""What follows from an error that ended a loop, and how long to wait before the next attempt.

Decided here and nowhere else, by the error's branch of the tree: what may pass is retried for ever with growing, jittered
pauses; what the other side refuses or a defect of ours is retried a few times, because reopening may clear it; what only a
human can settle (a gap, a wrong setting, corrupt state) stops that one loop.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum
from typing import Final

from state.errors import Refused, ServerFault, TidelineError, Transient


_JITTER: Final = random.SystemRandom()


class Verdict(Enum):
    """What an error means for the loop that it ended."""

    RETRY = "retry"
    RETRY_BOUNDED = "retry-bounded"
    STOP = "stop"


def verdict(error: Exception) -> Verdict:
    """Decide by the error's branch; what is not in the tree is a defect of ours, and may be one of a single moment."""
    match error:
        case ServerFault() | Refused():
            return Verdict.RETRY_BOUNDED
        case Transient():
            return Verdict.RETRY
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
