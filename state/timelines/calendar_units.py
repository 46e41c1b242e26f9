"""Calendar units: moments as consecutive numbers, and these numbers as Lens' partition values.

A timeline has to know which partition comes next, and calendars make that hard: months differ in length, and
weeks do not nest in months. Every unit therefore has consecutive numbers: the next piece is always ``+ 1``.
Only this module knows months and weeks.

Moments are whole seconds since 1970-01-01T00:00:00Z, in years 1 to 9999. All arithmetic is in UTC: in a time
zone with daylight saving time, a day of 23 hours breaks every alignment rule (reference: lens-timelines.md
§1.1).

Reading is strict: a text is a value only if writing it again gives the same text. Lens uses a lenient
SimpleDateFormat, which turns 2015-02-31 into 3 March and ``15aa`` into the year 15 (reference:
lens-timelines.md §1.1). Reading is fast, because a value is two look-ups: its date, which neighbouring values
share, and its time of day. ``read`` raises ValueError or KeyError for any other text; ``UpdatePeriod.parse``
turns these into a typed error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Final, Protocol


DAY_S: Final = 86_400
EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
TIME_START_S: Final = (date.min.toordinal() - EPOCH_DAY) * DAY_S
"""0001-01-01T00:00:00Z, the first supported moment."""
TIME_END_S: Final = (date.max.toordinal() + 1 - EPOCH_DAY) * DAY_S
"""10000-01-01T00:00:00Z, the first moment after the last supported one."""


class Pieces(Protocol):
    """A way to cut time into consecutive, numbered pieces."""

    @property
    def unit_s(self) -> int:
        """The length of a piece in seconds; 0 if lengths differ."""

    @property
    def offset_s(self) -> int:
        """Start of piece 0, for pieces of equal length."""

    def floor(self, moment_s: int) -> int:
        """Return the number of the piece that contains the moment."""

    def start_s(self, ordinal: int) -> int:
        """Return the first moment of a piece."""


@dataclass(frozen=True, slots=True)
class FixedPieces:
    """Pieces of equal length, number 0 starting at ``offset_s``: seconds to days, and weeks."""

    unit_s: int
    offset_s: int = 0

    def floor(self, moment_s: int) -> int:
        """Return the number of the piece that contains the moment."""
        return (moment_s - self.offset_s) // self.unit_s

    def start_s(self, ordinal: int) -> int:
        """Return the first moment of a piece."""
        return ordinal * self.unit_s + self.offset_s


@dataclass(frozen=True, slots=True)
class MonthPieces:
    """Pieces of ``count`` months (1, 3 or 12), numbered from the year 0."""

    count: int
    unit_s: int = 0
    offset_s: int = 0

    def floor(self, moment_s: int) -> int:
        """Return the number of the piece that contains the moment."""
        if moment_s >= TIME_END_S:
            return 10_000 * 12 // self.count
        day = date.fromordinal(moment_s // DAY_S + EPOCH_DAY)
        return (day.year * 12 + day.month - 1) // self.count

    def start_s(self, ordinal: int) -> int:
        """Return the first moment of a piece."""
        year, month = divmod(ordinal * self.count, 12)
        if year > date.max.year:
            return TIME_END_S
        return (date(year, month + 1, 1).toordinal() - EPOCH_DAY) * DAY_S


@dataclass(frozen=True, slots=True)
class CalendarUnit:
    """How one unit cuts time into pieces, reads a piece's number from text and writes it."""

    pieces: Pieces
    text_length: int
    read: Callable[[str], int]
    write: Callable[[int], str]


_is_date: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}").fullmatch
_is_year: Final = re.compile(r"[0-9]{4}").fullmatch
_TWO_DIGITS: Final = tuple(f"-{number:02d}" for number in range(60))
_HOUR_TEXTS: Final = _TWO_DIGITS[:24]
_MINUTE_TEXTS: Final = tuple(hour + minute for hour in _HOUR_TEXTS for minute in _TWO_DIGITS)
_HOURS: Final = {text: number for number, text in enumerate(_HOUR_TEXTS)}
_MINUTES: Final = {text: number for number, text in enumerate(_MINUTE_TEXTS)}
_SECONDS: Final = {text: number for number, text in enumerate(_TWO_DIGITS)}
_MONTHS: Final = {f"-{month + 1:02d}": month for month in range(12)}
_QUARTERS: Final = {f"-{quarter * 3 + 1:02d}": quarter for quarter in range(4)}


@lru_cache(maxsize=8_192)
def _read_day(text: str) -> int:
    if _is_date(text) is None:
        raise ValueError(text)
    return date.fromisoformat(text).toordinal() - EPOCH_DAY


@lru_cache(maxsize=8_192)
def _write_day(ordinal: int) -> str:
    return date.fromordinal(ordinal + EPOCH_DAY).isoformat()


def _read_hour(text: str) -> int:
    return _read_day(text[:10]) * 24 + _HOURS[text[10:]]


def _write_hour(ordinal: int) -> str:
    day, hour = divmod(ordinal, 24)
    return _write_day(day) + _HOUR_TEXTS[hour]


def _read_minute(text: str) -> int:
    return _read_day(text[:10]) * 1_440 + _MINUTES[text[10:]]


def _write_minute(ordinal: int) -> str:
    day, minute = divmod(ordinal, 1_440)
    return _write_day(day) + _MINUTE_TEXTS[minute]


def _read_second(text: str) -> int:
    return _read_minute(text[:16]) * 60 + _SECONDS[text[16:]]


def _write_second(ordinal: int) -> str:
    minute, second = divmod(ordinal, 60)
    return _write_minute(minute) + _TWO_DIGITS[second]


@lru_cache(maxsize=1_024)
def _read_year(text: str) -> int:
    if _is_year(text) is None or text == "0000":
        raise ValueError(text)
    return int(text)


def _write_year(ordinal: int) -> str:
    return f"{ordinal:04d}"


def _read_month(text: str) -> int:
    return _read_year(text[:4]) * 12 + _MONTHS[text[4:]]


def _write_month(ordinal: int) -> str:
    year, month = divmod(ordinal, 12)
    return f"{year:04d}-{month + 1:02d}"


def _read_quarter(text: str) -> int:
    return _read_year(text[:4]) * 4 + _QUARTERS[text[4:]]


def _write_quarter(ordinal: int) -> str:
    year, quarter = divmod(ordinal, 4)
    return f"{year:04d}-{quarter * 3 + 1:02d}"


@dataclass(frozen=True, slots=True)
class _Weeks:
    """Weeks in the form ``yyyy-Www`` with ``yyyy`` as the year to which the week belongs.

    ``anchor_day`` is the day of January that is always in week 1. ``owner_day`` is the day of the week,
    counted from its start, whose year the week belongs to. Sunday weeks with one minimal day (Java's default
    outside Europe) use 1 and Saturday; ISO weeks use 4 and Thursday.
    """

    pieces: FixedPieces
    anchor_day: int
    owner_day: int

    def read(self, text: str) -> int:
        year, number = _read_year(text[:4]), _SECONDS["-" + text[6:]]
        ordinal = self._first_of(year) + number - 1
        if text[4:6] != "-W" or not self._first_of(year) <= ordinal < self._first_of(year + 1):
            raise ValueError(text)
        return ordinal

    def write(self, ordinal: int) -> str:
        owner = date.fromordinal(self.pieces.start_s(ordinal) // DAY_S + self.owner_day + EPOCH_DAY)
        return f"{owner.year:04d}-W{ordinal - self._first_of(owner.year) + 1:02d}"

    def _first_of(self, year: int) -> int:
        new_year_s = (
            TIME_END_S if year > date.max.year else (date(year, 1, 1).toordinal() - EPOCH_DAY) * DAY_S
        )
        return self.pieces.floor(new_year_s + (self.anchor_day - 1) * DAY_S)


_SUNDAY_WEEK_PIECES: Final = FixedPieces(7 * DAY_S, 3 * DAY_S)
"""1970-01-04 was a Sunday."""
_ISO_WEEK_PIECES: Final = FixedPieces(7 * DAY_S, 4 * DAY_S)
_SUNDAY_WEEKS: Final = _Weeks(_SUNDAY_WEEK_PIECES, anchor_day=1, owner_day=6)
_ISO_WEEKS: Final = _Weeks(_ISO_WEEK_PIECES, anchor_day=4, owner_day=3)

SECOND: Final = CalendarUnit(FixedPieces(1), 19, _read_second, _write_second)
MINUTE: Final = CalendarUnit(FixedPieces(60), 16, _read_minute, _write_minute)
HOUR: Final = CalendarUnit(FixedPieces(3_600), 13, _read_hour, _write_hour)
DAY: Final = CalendarUnit(FixedPieces(DAY_S), 10, _read_day, _write_day)
SUNDAY_WEEK: Final = CalendarUnit(_SUNDAY_WEEK_PIECES, 8, _SUNDAY_WEEKS.read, _SUNDAY_WEEKS.write)
ISO_WEEK: Final = CalendarUnit(_ISO_WEEK_PIECES, 8, _ISO_WEEKS.read, _ISO_WEEKS.write)
MONTH: Final = CalendarUnit(MonthPieces(1), 7, _read_month, _write_month)
QUARTER: Final = CalendarUnit(MonthPieces(3), 7, _read_quarter, _write_quarter)
YEAR: Final = CalendarUnit(MonthPieces(12), 4, _read_year, _write_year)
