"""The calendar of a flat table's hours, for its page: 24 letters for each of the last days that have rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from state.columns.slots import HOUR_S
from streaming.table.flat_table import HourPartition
from streaming.table.parameters import TOUCHED


DAYS_MAX: Final = 92
LATE_S: Final = HOUR_S
"""How far past the end of an hour the watermark must be for further rows to count as late. The batch with the
last rows of an hour already moves it past the end.
"""
_DAY_S: Final = 24 * HOUR_S


def make_calendar(partitions: Sequence[HourPartition]) -> dict[str, str]:
    """Return the last days that have rows, in order, each with a letter for each hour in UTC.

    ``s`` is a sealed hour, ``o`` an open one, ``l`` an open one with rows that arrived late, and ``-`` an
    hour without rows.
    """
    days: dict[int, list[str]] = {}
    for each in partitions:
        day, second = divmod(each.hour, _DAY_S)
        days.setdefault(day, ["-"] * 24)[second // HOUR_S] = _letter(each)
    return {
        time.strftime("%Y-%m-%d", time.gmtime(day * _DAY_S)): "".join(days[day])
        for day in sorted(days)[-DAYS_MAX:]
    }


def _letter(partition: HourPartition) -> str:
    if partition.is_sealed:
        return "s"
    touched_s = int(partition.parameters.get(TOUCHED, 0))
    return "l" if touched_s > partition.hour + HOUR_S + LATE_S else "o"
