"""The processor time that one filter may spend on checking keys.

A filter within the limits of size can still have thousands of conditions, each evaluated for every key in its ranges. Readers hold a
lock that the events need, so such a filter must end soon. Time is the processor time of the thread: a loaded machine or a slow store
never makes a filter fail that is cheap by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from state.errors import FilterTooExpensive
from state.partitions.filters.conditions import Condition, Leaf


CHECK_S: Final = 2.0
"""Processor time for the keys of one answer; a check of one condition takes about 0.2 µs."""
_CHECKS_BETWEEN_LOOKS: Final = 20_000
_LIKE_WEIGHT: Final = 50
"""Conditions that a LIKE pattern counts as, because it may search a long text."""
Clock = Callable[[], float]


class CheckBudget:
    """Counts the checked keys of one answer; looks at the clock only every few thousand conditions."""

    def __init__(self, condition: Condition, clock: Clock) -> None:
        self._conditions = count_conditions(condition)
        self._clock = clock
        self._step = max(1, _CHECKS_BETWEEN_LOOKS // self._conditions)
        self._end = clock() + CHECK_S

    def look(self, keys: int) -> int:
        """Return after how many keys to look again; raise FilterTooExpensive where the time is used up."""
        if self._clock() > self._end:
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
