"""Draws the pictures of a timeline's cover, a filter's key ranges, and a flat table's columns."""

from __future__ import annotations

from typing import Final

from dev.pictures.canvas import Canvas


_HOURS: Final = 20
"""Pixels of one day in the timeline."""


def draw_cover() -> Canvas:
    """Draw a range covered by the largest partitions, with the hours of a missing day."""
    canvas = Canvas(980, 260, "Months, days and hours that together cover a time range")
    start, days = 130, 41
    for row, name in enumerate(("MONTHLY", "DAILY", "HOURLY")):
        canvas.text(15, 75 + 45 * row, name, "head")
        canvas.rule(start, 84 + 45 * row, start + days * _HOURS, 84 + 45 * row)
    canvas.bar(start + 60, 55, 28 * _HOURS, 26)
    canvas.text(start + 60 + 14 * _HOURS, 72, "2015-02", "small", "middle")
    for day in range(days):
        if day != 34:
            used = day in {1, 2, 31, 32, 33, 35}
            canvas.bar(start + day * _HOURS + 1, 100, _HOURS - 2, 26, kind="mark" if used else "box")
    for hour in range(days * 4):
        used = hour in {1, 2, 3} or 34 * 4 <= hour < 35 * 4 or 36 * 4 <= hour < 36 * 4 + 2
        canvas.bar(start + hour * 5 + 1, 145, 3, 26, kind="mark" if used else "box")
    left, right = start + 5, start + 36 * _HOURS + 10
    for x, label in ((left, "from 2015-01-29-06"), (right, "to 2015-03-06-12")):
        canvas.rule(x, 40, x, 185)
        canvas.text(x, 32, label, "small", "start" if x == left else "middle")
    canvas.text(15, 210, "Filled: the partitions of the cover. The longest periods come first.", "small")
    canvas.text(15, 234, "The day 2015-03-04 is missing, so its 24 hours are used instead.", "small")
    return canvas


def draw_ranges() -> Canvas:
    """Draw a filter as a few ranges of the sorted keys."""
    canvas = Canvas(980, 230, "A filter becomes two ranges of sorted keys")
    canvas.text(15, 32, "dt between '2024-01-02' and '2024-01-03' and hr < 3", "code")
    start, width = 60, 36
    for day in range(4):
        for hour in range(6):
            x = start + (day * 6 + hour) * width
            hit = day in {1, 2} and hour < 3
            canvas.bar(x + 2, 80, width - 4, 34, kind="mark" if hit else "box")
            canvas.text(x + width // 2, 102, f"{hour:02}", "small", "middle")
        canvas.text(start + day * 6 * width + 3 * width, 70, f"dt=2024-01-0{day + 1}", "small", "middle")
    for day in (1, 2):
        x = start + day * 6 * width
        canvas.arrow((x + 3 * width // 2, 165), (x + 3 * width // 2, 118))
        canvas.text(x + 3 * width // 2, 182, f"range {day}: 3 rows read, 3 matched", "small", "middle")
    canvas.text(
        15,
        214,
        "Keys are sorted in the order of the columns. Rows between the ranges are not read.",
        "small",
    )
    return canvas


def draw_flat_table() -> Canvas:
    """Draw how raw events become columns, and how a new column appears."""
    canvas = Canvas(980, 300, "How a key of raw JSON becomes a column of a flat table")
    raw = canvas.box(15, 50, 190, 60, "raw event", '{"user": {"id": 7}, "n": 3}')
    split = canvas.box(260, 50, 150, 60, "split", "one micro-batch", kind="mark")
    hour = canvas.box(470, 50, 200, 60, "hour of the table", "user/id INT, n INT, raw")
    sealed = canvas.box(735, 50, 200, 60, "sealed hour", "compacted into few files")
    query = canvas.box(15, 195, 190, 60, "user's query", "get_json_object(e, '$.user.id')")
    demand = canvas.box(260, 195, 150, 60, "key log", "who reads which key")
    plan = canvas.box(470, 195, 200, 60, "column plan", "demand, types, fill rates")
    change = canvas.box(735, 195, 200, 60, "new column", "from the next batch on", kind="mark")
    for left, right in (
        (raw, split),
        (split, hour),
        (hour, sealed),
        (query, demand),
        (demand, plan),
        (plan, change),
    ):
        canvas.arrow(left.right, right.left)
    canvas.arrow(change.top, (835, 152), (335, 152), split.bottom)
    canvas.text(585, 146, "older hours are filled again if the plan says so", "small", "middle")
    return canvas
