"""Limits of one answer: processor time for checking keys and altogether, and bytes.

A filter within the limits of size can still have thousands of conditions. Evaluating each for every key in
its ranges could keep the processor busy for minutes. Time is the processor time of the thread: a loaded
machine or a slow store never makes a cheap filter fail.

Every look at the clock calls ``pause``, so that answers give way to more urgent work.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from state.errors import FilterTooExpensive, LimitExceeded
from state.partitions.filters.conditions import Condition, Leaf
from state.store import Pause


CHECK_S: Final = 1.8
"""Processor time from the beginning of an answer until all keys are checked; no filter takes longer than 2 s.

Parsing and planning a filter of the longest kind takes up to 1.3 s of it; a check of one condition takes
about 0.2 µs.
"""
ANSWER_S: Final = 30.0
"""Processor time of one answer; a million whole partitions take about as long."""
ANSWER_BYTES_MAX: Final = 512 * 1024 * 1024
_CHECKS_BETWEEN_LOOKS: Final = 20_000
_LIKE_WEIGHT: Final = 50
"""Conditions that a LIKE pattern counts as, because it may search a long text."""
Clock = Callable[[], float]


class AnswerBudget:
    """Use and limits of one answer. Use it only from the thread that makes the answer."""

    def __init__(self, pause: Pause = lambda: None, clock: Clock = time.thread_time) -> None:
        self.clock = clock
        self.began_s = clock()
        self._pause = pause
        self._end = self.began_s + ANSWER_S
        self._bytes = 0

    def look(self) -> None:
        """Give way to more urgent work; raise LimitExceeded when the time is up."""
        self._pause()
        if self.clock() > self._end:
            raise LimitExceeded(
                "the answer takes too long", limit_s=ANSWER_S, hint="Request fewer partitions at once."
            )

    def count_bytes(self, size: int) -> None:
        """Count a part of the answer; raise LimitExceeded if it becomes too long."""
        self._bytes += size
        if self._bytes > ANSWER_BYTES_MAX:
            raise LimitExceeded(
                "the answer is too long",
                limit_bytes=ANSWER_BYTES_MAX,
                hint="Request fewer partitions at once.",
            )


class CheckBudget:
    """Counts the checked keys of one answer; looks at the clock only every few thousand conditions."""

    def __init__(self, condition: Condition, whole: AnswerBudget) -> None:
        self._conditions = count_conditions(condition)
        self._whole = whole
        self._step = max(1, _CHECKS_BETWEEN_LOOKS // self._conditions)
        self._end = whole.began_s + CHECK_S

    def look(self, keys: int) -> int:
        """Return the number of keys until the next look; raise FilterTooExpensive when the time is up."""
        self._whole.look()
        if self._whole.clock() > self._end:
            raise FilterTooExpensive(
                "checking partitions against the filter takes too long",
                checked=keys,
                conditions=self._conditions,
                limit_s=CHECK_S,
            )
        return keys + self._step


def count_conditions(condition: Condition) -> int:
    """Return how many conditions a check evaluates at most."""
    if isinstance(condition, Leaf):
        return 1 if condition.like is None else _LIKE_WEIGHT
    return sum(count_conditions(child) for child in condition.children)
