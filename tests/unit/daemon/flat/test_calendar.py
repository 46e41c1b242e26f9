"""The hours of a flat table as a picture."""

from __future__ import annotations

from daemon.flat.calendar import CELL, draw_calendar


def test_hours_before_the_first_and_after_the_last_are_not_missing() -> None:
    calendar = draw_calendar({"2024-01-01": "-" * 20 + "s-ss", "2024-01-02": "o" + "-" * 23})
    assert calendar is not None
    assert calendar.counts == {"sealed": 3, "open": 1, "late": 0, "missing": 1}
    assert [day.hours["missing"] for day in calendar.days] == ["", "21"]
    assert calendar.paths["missing"] == f"M0 {21 * CELL}h8v8h-8z"


def test_days_without_hours_leave_a_gap_and_months_have_names() -> None:
    days = ["2024-01-31", *(f"2024-02-{day:02}" for day in range(1, 9)), "2024-03-09"]
    calendar = draw_calendar(dict.fromkeys(days, "s" * 24))
    assert calendar is not None
    assert calendar.labels == [(CELL, "Feb 2024"), (10 * CELL, "Mar 2024")], (
        "one day of January is too narrow"
    )
    assert calendar.width == 11 * CELL
    assert [day.date for day in calendar.days] == sorted(days, reverse=True)


def test_a_table_without_hours_has_no_calendar_and_unknown_letters_are_left_out() -> None:
    assert draw_calendar({}) is None
    calendar = draw_calendar({"2024-01-01": "s" * 23 + "?"})
    assert calendar is not None
    assert sum(calendar.counts.values()) == 23
