"""Partition values as text: Lens' formats, read strictly and fast.

Lens reads with a lenient SimpleDateFormat, which turns 2015-02-31 into 3 March and ``15aa`` into the year 15 (reference:
timelines §1.1). Here a text is a value only if writing it again gives the same text. A year of minutes is read in a
fraction of a second because a value is two look-ups: its date, which neighbours share, and its time of day.

``read`` raises ValueError or KeyError for anything else; ``UpdatePeriod.parse`` makes that a typed error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from state.timelines.grains import DAY_S, EPOCH_DAY, ISO_WEEK, SUNDAY_WEEK, TIME_END_S, Fixed


if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Format:
    """Text of one length to ordinals, and back."""

    length: int
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
    """Weeks named ``yyyy-Www`` by the year that owns them.

    ``anchor_day`` is the day of January that is always in week 1, ``owner_day`` the day of a week (from its start) whose
    year owns it: 1 and Saturday for Sunday weeks with one minimal day (Java's default outside Europe), 4 and Thursday
    for ISO.
    """

    grain: Fixed
    anchor_day: int
    owner_day: int

    def read(self, text: str) -> int:
        year, number = _read_year(text[:4]), _SECONDS["-" + text[6:]]
        ordinal = self._first_of(year) + number - 1
        if text[4:6] != "-W" or not self._first_of(year) <= ordinal < self._first_of(year + 1):
            raise ValueError(text)
        return ordinal

    def write(self, ordinal: int) -> str:
        owner = date.fromordinal(self.grain.start_s(ordinal) // DAY_S + self.owner_day + EPOCH_DAY)
        return f"{owner.year:04d}-W{ordinal - self._first_of(owner.year) + 1:02d}"

    def _first_of(self, year: int) -> int:
        new_year_s = (
            TIME_END_S if year > date.max.year else (date(year, 1, 1).toordinal() - EPOCH_DAY) * DAY_S
        )
        return self.grain.floor(new_year_s + (self.anchor_day - 1) * DAY_S)


_SUNDAY_WEEKS: Final = _Weeks(SUNDAY_WEEK, anchor_day=1, owner_day=6)
_ISO_WEEKS: Final = _Weeks(ISO_WEEK, anchor_day=4, owner_day=3)

SECOND: Final = Format(19, _read_second, _write_second)
MINUTE: Final = Format(16, _read_minute, _write_minute)
HOUR: Final = Format(13, _read_hour, _write_hour)
DAY: Final = Format(10, _read_day, _write_day)
SUNDAY_WEEK_TEXT: Final = Format(8, _SUNDAY_WEEKS.read, _SUNDAY_WEEKS.write)
ISO_WEEK_TEXT: Final = Format(8, _ISO_WEEKS.read, _ISO_WEEKS.write)
MONTH: Final = Format(7, _read_month, _write_month)
QUARTER: Final = Format(7, _read_quarter, _write_quarter)
YEAR: Final = Format(4, _read_year, _write_year)
