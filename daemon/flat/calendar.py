"""The calendar of a flat table's hours: a picture with days from left to right, and the same as rows."""

from __future__ import annotations

import time
from calendar import timegm
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final


CELL: Final = 9
"""Width and height of an hour, with the gap to the next one."""
KINDS: Final = {"s": "sealed", "o": "open", "l": "late", "-": "missing"}
_DAY_S: Final = 86_400
_LABEL: Final = 8
"""Columns that the name of a month covers; a month with fewer has none."""
_BREAK: Final = 1
"""Columns left out for days without any hour."""


@dataclass(frozen=True, slots=True)
class Day:
    """One day: for each kind of hours, their text, such as ``0-13, 15``."""

    date: str
    hours: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Calendar:
    """The picture as SVG paths in pixels, and the same as rows."""

    width: int
    paths: Mapping[str, str]
    """By kind: ``sealed``, ``open``, ``late`` and ``missing``."""
    labels: Sequence[tuple[int, str]]
    """For each month, the position of its first day, and its name."""
    counts: Mapping[str, int]
    days: Sequence[Day]
    """The newest first."""


def draw_calendar(letters: Mapping[str, str]) -> Calendar | None:
    """Return the calendar of days with 24 letters each (``streaming.batch.calendar``); None without days.

    Hours before the first and after the last hour with rows do not count as missing.
    """
    dates = sorted(letters)
    if not dates:
        return None
    rows = dict(zip(dates, _without_ends([letters[date] for date in dates]), strict=True))
    columns = _place(dates)
    paths = dict.fromkeys(KINDS.values(), "")
    counts = dict.fromkeys(KINDS.values(), 0)
    for date, column in columns.items():
        for hour, letter in enumerate(rows[date]):
            if letter in KINDS:
                paths[KINDS[letter]] += f"M{column * CELL} {hour * CELL}h8v8h-8z"
                counts[KINDS[letter]] += 1
    months = {month: columns[next(days)] for month, days in groupby(dates, key=lambda date: date[:7])}
    labels = [
        (column * CELL, _month_text(month))
        for (month, column), following in zip(months.items(), [*list(months.values())[1:], None], strict=True)
        if following is None or following - column >= _LABEL
    ]
    days = [Day(date, _ranges(rows[date])) for date in reversed(dates)]
    return Calendar((max(columns.values()) + 1) * CELL, paths, labels, counts, days)


def _without_ends(rows: Sequence[str]) -> list[str]:
    """Replace the hours before the first and after the last hour with rows by spaces."""
    text = "".join(rows)
    inner = text.strip("-")
    start = len(text) - len(text.lstrip("-"))
    padded = (" " * start + inner).ljust(len(text))
    return [padded[at : at + 24] for at in range(0, len(text), 24)]


def _place(dates: Sequence[str]) -> dict[str, int]:
    """Return the column of each day; missing days leave a gap."""
    columns, column = {dates[0]: 0}, 0
    for before, date in pairwise(dates):
        column += 1 if _day(date) == _day(before) + 1 else 1 + _BREAK
        columns[date] = column
    return columns


def _day(date: str) -> int:
    return timegm(time.strptime(date, "%Y-%m-%d")) // _DAY_S


def _month_text(month: str) -> str:
    return time.strftime("%b %Y", time.strptime(month, "%Y-%m"))


def _ranges(row: str) -> dict[str, str]:
    texts: dict[str, list[str]] = {kind: [] for kind in KINDS.values()}
    for letter, first, last in _runs(row):
        if letter in KINDS:
            texts[KINDS[letter]].append(f"{first}" if first == last else f"{first}-{last}")
    return {kind: ", ".join(ranges) for kind, ranges in texts.items()}


def _runs(row: str) -> Iterator[tuple[str, int, int]]:
    for letter, hours in groupby(range(len(row)), key=row.__getitem__):
        listed = list(hours)
        yield letter, listed[0], listed[-1]
