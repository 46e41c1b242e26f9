"""Values for callers: one partition, a range of partitions, and a range of time.

Timelines count in bare integers. Callers exchange values with their period: nothing adds a day to a timeline
of hours. Lens accepts that and breaks (reference: lens-timelines.md §1.2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from state.errors import BadInput
from state.timelines.calendar_units import TIME_END_S, TIME_START_S
from state.timelines.periods import UpdatePeriod


_LENS_RANGE: Final = re.compile(
    r"\s*([\[(]?)\s*([^\s,\[\]()]+)\s*,\s*([^\s,\[\]()]+)\s*([\])]?)\s*"
).fullmatch
_TEXT_PERIODS: Final = (
    UpdatePeriod.YEARLY,
    UpdatePeriod.MONTHLY,
    UpdatePeriod.DAILY,
    UpdatePeriod.HOURLY,
    UpdatePeriod.MINUTELY,
    UpdatePeriod.SECONDLY,
)


@dataclass(frozen=True, slots=True)
class TimePartition:
    """One partition of one update period."""

    period: UpdatePeriod
    ordinal: int

    @staticmethod
    def parse(period: UpdatePeriod, text: str) -> TimePartition:
        """Read a partition value; raise BadPartitionValue if it is not a value of this period."""
        return TimePartition(period, period.parse(text))

    @property
    def start_s(self) -> int:
        """Return the first moment."""
        return self.period.start_s(self.ordinal)

    @property
    def end_s(self) -> int:
        """Return the first moment after the end."""
        return self.period.start_s(self.ordinal + 1)

    def __str__(self) -> str:
        return self.period.format(self.ordinal)


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """Consecutive partitions [begin, end) of one period; may be empty."""

    period: UpdatePeriod
    begin: int
    end: int

    def __post_init__(self) -> None:
        """Refuse a range that ends before it begins."""
        if self.end < self.begin:
            raise BadInput(
                "the range ends before it begins",
                begin=self.begin,
                end=self.end,
                period=self.period.lens_name,
            )

    @staticmethod
    def parse(period: UpdatePeriod, text: str) -> PartitionRange:
        """Read ``a,b`` or ``[a, b)`` (half open). ``(`` and ``]`` move their end by one partition.

        An end that does not belong to the range may be the first partition of the year 10000.
        """
        parts = _LENS_RANGE(text)
        if parts is None:
            raise BadInput("not a range of partitions", value=text, period=period.lens_name)
        opening, begin, end, closing = parts.groups()
        last = period.parse(end) + 1 if closing == "]" else period.parse_end(end)
        return PartitionRange(period, period.parse(begin) + (opening == "("), last)

    @property
    def start_s(self) -> int:
        """Return the first moment."""
        return self.period.start_s(self.begin)

    @property
    def end_s(self) -> int:
        """Return the first moment after the end."""
        return self.period.start_s(self.end)

    def __len__(self) -> int:
        return self.end - self.begin

    def __contains__(self, partition: TimePartition) -> bool:
        return partition.period is self.period and self.begin <= partition.ordinal < self.end

    def __iter__(self) -> Iterator[TimePartition]:
        return (TimePartition(self.period, ordinal) for ordinal in range(self.begin, self.end))

    def __str__(self) -> str:
        return f"[{self.period.format(self.begin)}, {self.period.format_end(self.end)})"


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A span of time [start, end) in whole seconds since the epoch, UTC; may be empty."""

    start_s: int
    end_s: int

    def __post_init__(self) -> None:
        """Refuse spans that end before they start, or that leave the years 1 to 9999."""
        if not TIME_START_S <= self.start_s <= self.end_s <= TIME_END_S:
            raise BadInput(
                "not a range of time",
                start_s=self.start_s,
                end_s=self.end_s,
                hint="Put the start before the end.",
            )

    @staticmethod
    def parse(start: str, end: str) -> TimeRange:
        """Build from two texts, each a partition value or an ISO 8601 moment (UTC if it has no zone)."""
        return TimeRange(_parse_moment(start), _parse_moment(end))

    def __str__(self) -> str:
        """Both bounds in the finer period of the two: ``[2015-01-29-06, 2015-03-01-00)``."""
        period = max((_find_period(self.start_s), _find_period(self.end_s)), key=_TEXT_PERIODS.index)
        return f"[{_format(self.start_s, period)}, {_format(self.end_s, period)})"


def _find_period(moment_s: int) -> UpdatePeriod:
    return next(period for period in _TEXT_PERIODS if period.ceil(moment_s) == period.floor(moment_s))


def _format(moment_s: int, period: UpdatePeriod) -> str:
    return "10000" if moment_s == TIME_END_S else period.format(period.floor(moment_s))


def _parse_moment(text: str) -> int:
    period = next((period for period in _TEXT_PERIODS if _is_value(period, text)), None)
    if period is not None:
        return period.start_s(period.parse(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(
            "not a timestamp", value=text, hint="Write 2015-01-29-06 or 2015-01-29T06:00:00Z."
        ) from None
    return _to_seconds(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _is_value(period: UpdatePeriod, text: str) -> bool:
    try:
        period.parse(text)
    except BadInput:
        return False
    return True


def _to_seconds(moment: datetime) -> int:
    if moment.tzinfo is None or moment.microsecond:
        raise BadInput("a bound must have a time zone and whole seconds", value=moment.isoformat())
    return int(moment.timestamp())
