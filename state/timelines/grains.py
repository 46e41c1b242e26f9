"""Time as numbers: how the moments of a calendar become consecutive integers, and back.

A timeline asks one question all day, "which partition comes next?", and calendars answer it badly: months have four
lengths and weeks do not nest in them. Numbered consecutively, every period is the same set of integers, the next partition
is ``+ 1``, and only the two functions here know what a month is.

Moments are whole seconds since 1970-01-01T00:00:00Z. All of it is UTC: in a zone with summer time a day of 23 hours
breaks every rule about alignment (reference: timelines §1.1). Years 1 to 9999.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Final, Protocol


DAY_S: Final = 86_400
EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
TIME_START_S: Final = (date.min.toordinal() - EPOCH_DAY) * DAY_S
"""0001-01-01T00:00:00Z, the first moment there is."""
TIME_END_S: Final = (date.max.toordinal() + 1 - EPOCH_DAY) * DAY_S
"""10000-01-01T00:00:00Z, the first moment after the last one."""


class Grain(Protocol):
    """A way to cut time into consecutive, numbered pieces."""

    @property
    def unit_s(self) -> int:
        """The length of a piece in seconds; 0 where lengths differ."""

    @property
    def offset_s(self) -> int:
        """Where piece 0 starts, for grains of one length."""

    def floor(self, moment_s: int) -> int:
        """Number of the piece that holds the moment."""

    def start_s(self, ordinal: int) -> int:
        """First moment of a piece."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Pieces of one length, number 0 starting at ``offset_s``: seconds to days, and weeks."""

    unit_s: int
    offset_s: int = 0

    def floor(self, moment_s: int) -> int:
        """Number of the piece that holds the moment."""
        return (moment_s - self.offset_s) // self.unit_s

    def start_s(self, ordinal: int) -> int:
        """First moment of a piece."""
        return ordinal * self.unit_s + self.offset_s


@dataclass(frozen=True, slots=True)
class Months:
    """Pieces of ``count`` months (1, 3 or 12), numbered from the year 0."""

    count: int
    unit_s: int = 0
    offset_s: int = 0

    def floor(self, moment_s: int) -> int:
        """Number of the piece that holds the moment."""
        if moment_s >= TIME_END_S:
            return 10_000 * 12 // self.count
        day = date.fromordinal(moment_s // DAY_S + EPOCH_DAY)
        return (day.year * 12 + day.month - 1) // self.count

    def start_s(self, ordinal: int) -> int:
        """First moment of a piece."""
        year, month = divmod(ordinal * self.count, 12)
        if year > date.max.year:
            return TIME_END_S
        return (date(year, month + 1, 1).toordinal() - EPOCH_DAY) * DAY_S


SECOND: Final = Fixed(1)
MINUTE: Final = Fixed(60)
HOUR: Final = Fixed(3_600)
DAY: Final = Fixed(DAY_S)
SUNDAY_WEEK: Final = Fixed(7 * DAY_S, 3 * DAY_S)
"""1970-01-04 was a Sunday."""
ISO_WEEK: Final = Fixed(7 * DAY_S, 4 * DAY_S)
MONTH: Final = Months(1)
QUARTER: Final = Months(3)
YEAR: Final = Months(12)
