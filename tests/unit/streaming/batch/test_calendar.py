"""The hours of a flat table by day, as its snapshot has them."""

from __future__ import annotations

import pytest

from handlers.files.paths import parse_location
from state.columns.slots import HOUR_S
from streaming.batch.calendar import DAYS_MAX, LATE_S, make_calendar
from streaming.table.flat_table import HourPartition
from streaming.table.parameters import SEALED, TOUCHED


DAY = 1_704_067_200
"""2024-01-01."""


def hour(number: int, **parameters: str) -> HourPartition:
    return HourPartition(DAY + number * HOUR_S, (), parse_location("file:/t"), parameters)


@pytest.mark.parametrize(
    ("parameters", "letter"),
    [
        ({SEALED: "true"}, "s"),
        ({}, "o"),
        ({TOUCHED: str(DAY + HOUR_S + LATE_S)}, "o"),
        ({TOUCHED: str(DAY + HOUR_S + LATE_S + 1)}, "l"),
        ({TOUCHED: str(DAY + 2 * HOUR_S), SEALED: "true"}, "s"),
    ],
)
def test_an_hour_is_sealed_open_or_late(parameters: dict[str, str], letter: str) -> None:
    assert make_calendar([hour(0, **parameters)]) == {"2024-01-01": letter + "-" * 23}


def test_days_are_in_order_and_those_without_hours_are_left_out() -> None:
    calendar = make_calendar([hour(23), hour(0), hour(49)])
    assert list(calendar.items()) == [
        ("2024-01-01", "o" + "-" * 22 + "o"),
        ("2024-01-03", "-o" + "-" * 22),
    ]
    assert make_calendar([]) == {}


def test_only_the_last_days_are_kept() -> None:
    days = list(make_calendar([hour(24 * day) for day in range(DAYS_MAX + 2)]))
    assert (len(days), days[0]) == (DAYS_MAX, "2024-01-03")
