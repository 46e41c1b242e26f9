"""Retry policy: decides from the class of an error whether and when a loop runs again.

A loop restarts indefinitely after transient errors, with exponential backoff and full jitter. After refusals
of the other side and unexpected errors, it restarts a few times in this way, because reopening may clear
them. After that, and at once for errors that need an operator (a gap, invalid configuration, corrupt state),
the loop counts as failed. It still runs again, with longer pauses, so that the daemon needs no restart once
the cause is gone. Other modules only raise errors; this one decides what follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Final

from annotated_types import Interval

from handlers.failures import Backoff
from state.errors import Refused, TidelineError, Transient


FAILED_RETRY: Final = Backoff(5.0, 300)
"""The delays before a failed loop runs again, unless the configuration sets the longest delay."""


class Verdict(Enum):
    """What a loop does after an error."""

    RETRY = "retry"
    RETRY_BOUNDED = "retry-bounded"
    STOP = "stop"


def judge(error: Exception) -> Verdict:
    """Return the verdict on ``error``. An error outside the tree is a defect of Tideline, which may not occur
    again.
    """
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
class RestartPolicy(Backoff):
    """The delays before a loop runs again, and the number of limited retries."""

    attempts_max: Annotated[int, Interval(ge=1, le=1000)] = 8
    """Consecutive failures after which a loop whose request the other side refuses counts as failed."""
    failed: Backoff = FAILED_RETRY
    """The delay before a new attempt of a failed loop."""
    settled_s: float = 5.0
    """How long a failed loop must follow until it no longer counts as failed; finding a gap takes some
    reading.
    """
