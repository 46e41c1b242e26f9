"""Update periods: how often a table gets partitions, under Lens' names.

A partition value is an integer ordinal, consecutive within its period: the next partition is always ``+ 1``.
There are two orders. ``rank`` is Lens' enum order (CONTINUOUS last); ``weight_ms`` is the order of length
(CONTINUOUS first). Covering uses the weight.

Weeks start on Sunday, and the week that contains 1 January is week 1. A table with ISO weeks uses WEEKLY_ISO,
which has the same name in properties. MONTHLY and QUARTERLY have the same text form, and so do SECONDLY and
CONTINUOUS: text alone does not distinguish them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from functools import cached_property
from operator import attrgetter
from typing import Final

from state.errors import BadInput, BadPartitionValue
from state.timelines import calendar_units


_WEEK_ONE_S: Final = 1_514_764_800
"""2018-01-01T00:00:00Z, a Monday, which is in week 1 whether weeks start on Sunday or on Monday."""


class UpdatePeriod(Enum):
    """One update period: rank, weight, arithmetic and text form."""

    SECONDLY = (0, 1_000, calendar_units.SECOND)
    MINUTELY = (1, 60_000, calendar_units.MINUTE)
    HOURLY = (2, 3_600_000, calendar_units.HOUR)
    DAILY = (3, 86_400_000, calendar_units.DAY)
    WEEKLY = (4, 604_800_000, calendar_units.SUNDAY_WEEK)
    WEEKLY_ISO = (4, 604_800_000, calendar_units.ISO_WEEK)
    MONTHLY = (5, 2_592_000_000, calendar_units.MONTH)
    QUARTERLY = (6, 7_776_000_000, calendar_units.QUARTER)
    YEARLY = (7, 31_104_000_000, calendar_units.YEAR)
    CONTINUOUS = (8, 1, calendar_units.SECOND)

    def __init__(self, rank: int, weight_ms: int, unit: calendar_units.CalendarUnit) -> None:
        self.rank = rank
        self.weight_ms = weight_ms
        self._unit_s = unit.pieces.unit_s
        self._offset_s = unit.pieces.offset_s
        self.text_length = unit.text_length
        self.floor: Callable[[int], int] = unit.pieces.floor
        """Return the ordinal of the partition that contains a moment (seconds since the epoch, UTC)."""
        self.start_s: Callable[[int], int] = unit.pieces.start_s
        """Return the first moment of a partition; its end is the start of its successor."""
        self._unit = unit

    # Members are singletons, so identity is enough. Enum's own hash is the slowest part of a look-up by
    # period.
    __hash__ = object.__hash__

    @property
    def lens_name(self) -> str:
        """The name in property keys and partition parameters."""
        return "WEEKLY" if self is UpdatePeriod.WEEKLY_ISO else self.name

    @staticmethod
    def from_lens_name(name: str, *, iso_weeks: bool = False) -> UpdatePeriod:
        """Return the period of a Lens name in any case; raise BadInput for an unknown name."""
        upper = name.strip().upper()
        if upper == "WEEKLY" and iso_weeks:
            return UpdatePeriod.WEEKLY_ISO
        if upper not in UpdatePeriod.__members__:
            raise BadInput("unknown update period", name=name, known=", ".join(UpdatePeriod.__members__))
        return UpdatePeriod[upper]

    def ceil(self, moment_s: int) -> int:
        """Return the ordinal of the first partition that starts at the moment or later."""
        ordinal = self.floor(moment_s)
        return ordinal if self.start_s(ordinal) == moment_s else ordinal + 1

    def starts_s(self, ordinals: Iterable[int]) -> list[int]:
        """Return the first moments of many partitions, at a fraction of the cost of separate calls."""
        unit_s, offset_s = self._unit_s, self._offset_s
        if unit_s:
            return [ordinal * unit_s + offset_s for ordinal in ordinals]
        return [self.start_s(ordinal) for ordinal in ordinals]

    def parse(self, text: str) -> int:
        """Return the ordinal of a partition value; raise BadPartitionValue for any text but this period's
        exact form.
        """
        try:
            return self._unit.read(text)
        except (ValueError, KeyError):
            raise BadPartitionValue(
                "not a value of this update period", value=text, period=self.lens_name
            ) from None

    def parse_or_none(self, text: str) -> int | None:
        """Return the ordinal of a partition value, or None if the text is not a value of this period."""
        if len(text) != self.text_length:
            return None
        try:
            return self._unit.read(text)
        except (ValueError, KeyError):
            return None

    def format(self, ordinal: int) -> str:
        """Write a partition value; ``parse`` is its inverse."""
        return self._unit.write(ordinal)

    def format_end(self, ordinal: int) -> str:
        """Write the first partition after a range:
        ``10000-01-01`` after 9999-12-31, as Java's date format writes and reads it.
        """
        if ordinal == self._last + 1:
            return f"10000{self.format(self.floor(_WEEK_ONE_S))[4:]}"
        return self.format(ordinal)

    def parse_end(self, text: str) -> int:
        """Return the ordinal of the first partition after a range;
        the inverse of ``format_end``. Raises BadPartitionValue.
        """
        return self._last + 1 if text == self.format_end(self._last + 1) else self.parse(text)

    @cached_property
    def _last(self) -> int:
        """The last partition that has a value: the year 9999 has four digits, the next one has five."""
        last = self.floor(calendar_units.TIME_END_S - 1)
        try:
            self.format(last)
        except ValueError:  # the last Sunday week belongs to the year 10000
            return last - 1
        return last


_weight = attrgetter("weight_ms")


def sort_longest_first(periods: Iterable[UpdatePeriod]) -> list[UpdatePeriod]:
    """Sort from the longest to the shortest, without duplicates."""
    return sorted(dict.fromkeys(periods), key=_weight, reverse=True)


def detect_period(text: str, allowed: Iterable[UpdatePeriod]) -> UpdatePeriod | None:
    """Return the first allowed period that has ``text`` as a value, or None."""
    return next((period for period in allowed if period.parse_or_none(text) is not None), None)
