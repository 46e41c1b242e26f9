"""Reads event times by the same rule in Spark (``event_seconds``) and in Python (``read_seconds``).

A time never depends on the clock, so a batch that runs again after midnight routes every row as before: a
text needs a date. Spark's own cast turns ``12:30`` into a time of today and ``2024`` into the first of
January, and does not read a time with an offset but without seconds. Therefore ``ISO_TEXT`` defines a time,
and texts that Spark does not read are converted first.

Numbers count from 1970. Spark's cast also accepts Java literals such as ``1795170600d`` and ``0x1p30``;
``NUMBER_TEXT`` does not.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from streaming.settings import EpochUnit


if TYPE_CHECKING:
    from pyspark.sql import Column


PER_SECOND: Final = {
    EpochUnit.SECONDS: 1,
    EpochUnit.MILLISECONDS: 1_000,
    EpochUnit.MICROSECONDS: 1_000_000,
    EpochUnit.NANOSECONDS: 1_000_000_000,
}
_SPACE: Final = r"[ \t\r\n]*"
NUMBER_TEXT: Final = rf"^{_SPACE}[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?{_SPACE}$"
_OFFSET: Final = r"[+-](?:[0-9]{4}(?:[0-9]{2})?|[0-9]{1,2}(?::[0-9]{2}(?::[0-9]{2})?)?)"
ISO_TEXT: Final = (
    rf"^{_SPACE}([0-9]{{4}}-[0-9]{{1,2}}-[0-9]{{1,2}})"
    r"(?:[Tt ]([0-9]{1,2}:[0-9]{1,2})(?::([0-9]{1,2})(?:[.,][0-9]*)?)?"
    rf" *([Zz]|{_OFFSET}|[A-Z][A-Za-z0-9_/:+-]+)?)?{_SPACE}$"
)
"""A date, and optionally a time of day with a zone: the groups are the date, hours and minutes, seconds, and
the zone."""
_DATE, _MINUTES, _SECONDS, _ZONE = 1, 2, 3, 4
_BEYOND_S: Final = 10**11
_UTC: Final = re.compile(r"UTC|GMT|UT|[Zz]|")
_OFFSET_MAX_S: Final = 18 * 3_600
"""Java's limit."""


def event_seconds(text: Column, unit: EpochUnit) -> Column:
    """Return a LONG column with the event time in seconds since 1970; NULL if the text is not a time."""
    from pyspark.sql import functions as sql

    if unit is EpochUnit.ISO:
        time = sql.coalesce(sql.try_to_timestamp(text), sql.try_to_timestamp(_in_sparks_form(text)))
        return sql.when(text.rlike(ISO_TEXT), sql.unix_timestamp(time))
    if unit is EpochUnit.NANOSECONDS:  # more digits than a DOUBLE holds
        number = text.try_cast("decimal(38,0)")
        seconds = sql.call_function("div", number, sql.lit(PER_SECOND[unit]))
    else:
        number = text.try_cast("double")
        seconds = sql.floor(number / PER_SECOND[unit])
    in_range = text.rlike(NUMBER_TEXT) & (number >= 0) & (number < float(_BEYOND_S * PER_SECOND[unit]))
    return sql.when(in_range, seconds).cast("long")


def read_seconds(text: str, unit: EpochUnit) -> int | None:
    """Return the event time in seconds since 1970; None if the text is not a time in this form."""
    if unit is EpochUnit.ISO:
        return _read_iso(text)
    if not re.fullmatch(NUMBER_TEXT, text):
        return None
    number = Decimal(text.strip())
    within = 0 <= number < _BEYOND_S * PER_SECOND[unit]
    return int(number) // PER_SECOND[unit] if within else None


def _in_sparks_form(text: Column) -> Column:
    """Return the text of a time in upper case, with seconds and a zone, and without a fraction."""
    from pyspark.sql import functions as sql

    def group(number: int, missing: str) -> Column:
        part = sql.regexp_extract(text, ISO_TEXT, number)
        return sql.when(part == "", missing).otherwise(part)

    zone = sql.when(sql.regexp_extract(text, ISO_TEXT, _ZONE) == "z", "Z").otherwise(group(_ZONE, "Z"))
    return sql.concat(
        group(_DATE, ""), sql.lit("T"), group(_MINUTES, "00:00"), sql.lit(":"), group(_SECONDS, "00"), zone
    )


def _read_iso(text: str) -> int | None:
    read = re.fullmatch(ISO_TEXT, text)
    if read is None:
        return None
    date, minutes, seconds, zone = read.groups(default="")
    numbers = [int(number) for part in (*date.split("-"), *minutes.split(":"), seconds) if (number := part)]
    try:
        time = dt.datetime(*numbers, tzinfo=_read_zone(zone))  # type: ignore[arg-type, misc]
    except (ValueError, OSError, LookupError):
        return None
    return int(time.timestamp())


def _read_zone(text: str) -> dt.tzinfo:
    """Return the time zone. Raises ValueError, OSError or LookupError if it does not exist."""
    sign, digits = "", ""
    if offset := re.fullmatch(rf"(?:UTC|GMT|UT)?({_OFFSET})", text):
        sign, digits = offset[1][0], offset[1][1:].replace(":", "")
    elif not _UTC.fullmatch(text):
        return ZoneInfo(text)
    padded = digits.zfill(2 if len(digits) <= 2 else len(digits) + len(digits) % 2).ljust(6, "0")
    hours, minutes, seconds = (int(padded[n : n + 2]) for n in (0, 2, 4))
    offset_s = hours * 3_600 + minutes * 60 + seconds
    if max(minutes, seconds) >= 60 or offset_s > _OFFSET_MAX_S:
        raise ValueError(text)
    return dt.timezone(dt.timedelta(seconds=-offset_s if sign == "-" else offset_s))
