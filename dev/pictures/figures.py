"""Draws the plots of docs/PERFORMANCE.md from the stored reports of the benchmarks."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Final

from dev.pictures.canvas import Canvas


RESULTS: Final = Path(__file__).parents[2] / "bench" / "results"
RIVALS: Final = (
    ("replication.bootstrap_tables", "bootstrap_tables", "bootstrap of many tables"),
    ("replication.bootstrap_partitions", "bootstrap_partitions", "bootstrap of many partitions"),
    ("replication.incremental", "incremental_mix", "incremental, inserts and DDL"),
    ("replication.incremental", "incremental_metadata", "incremental, metadata only"),
    ("endpoint", "by_filter_480", "a filter through the endpoint"),
    ("partitions", "metastore_100k_day_480", "a filter by the index"),
    ("splitting", "split_30_keys", "splitting 30 keys"),
    ("splitting", "query_cpu", "a query on the flat table"),
    ("timelines", "cover_holes_10y", "a cover with holes"),
    ("endpoint", "forwarded_call", "a forwarded call of the endpoint"),
    ("copies", "disk_md5_large", "a verified copy, large files"),
    ("copies", "spark_large", "a copy job, large files"),
)
"""Cases with a rival, including those in which Tideline is slower: report, row and name."""
TIMES: Final = "\u00d7"
SLOWEST, FASTEST = 0.1, 10_000.0
_LEFT: Final = 230
_WIDTH: Final = 440


def draw_rivals() -> Canvas:
    """Draw how many times faster than its rival each case is, on a logarithmic scale."""
    canvas = Canvas(980, 90 + 30 * len(RIVALS), "How many times faster than a rival Tideline is, by case")
    canvas.text(15, 28, "Times faster than the rival in the same run (logarithmic)", "head")
    bottom = 62 + 30 * len(RIVALS)
    for power in range(-1, 5):
        x = _place(10.0**power)
        canvas.rule(x, 48, x, bottom)
        canvas.text(x, bottom + 18, TIMES + _number(10.0**power), "small", "middle")
    for number, (report, case, name) in enumerate(RIVALS):
        row, y = _row(report, case), 54 + 30 * number
        ratio = row["ratio"]
        one, end = _place(1.0), _place(ratio)
        canvas.text(15, y + 15, name)
        canvas.bar(min(one, end), y, abs(end - one), 20, kind="mark" if ratio >= 1 else "warn")
        canvas.text(max(one, end) + 8, y + 15, f"{TIMES}{_number(ratio)}  {row['rival']}", "small")
    return canvas


def _place(ratio: float) -> int:
    share = math.log(ratio / SLOWEST) / math.log(FASTEST / SLOWEST)
    return _LEFT + round(share * _WIDTH)


def draw_sizes() -> Canvas:
    """Draw the cost of a filter and of a cover by the size of their data."""
    canvas = Canvas(
        980, 330, "The cost of a filter over the number of partitions, and of a cover over its length"
    )
    filters = Panel(
        canvas, 70, "A filter with 480 matches, by partitions", (1e4, 2e7), (0.01, 10_000.0), "ms"
    )
    filters.ticks({2e4: "20,000", 1e5: "100,000", 1e6: "1 million", 1e7: "10 million"})
    hive = [
        (2e4, _row("partitions", "metastore_20k_day_480")),
        (1e5, _row("partitions", "metastore_100k_day_480")),
    ]
    filters.line([(size, row["rival_value"]) for size, row in hive], "Hive 2.3", "warn")
    filters.line([(size, row["value"]) for size, row in hive], "Tideline beside it", "mark")
    filters.line([(1e6, _row("partitions", "memory_1m_480")["value"] / 1000)], "in memory", "mark")
    filters.line([(1e7, _row("partitions", "sqlite_10m_480")["value"])], "in a file", "mark")
    covers = Panel(canvas, 560, "A cover without holes, by years of hours", (0.7, 14.0), (1.0, 1e8), "µs")
    covers.ticks({1.0: "1 year", 10.0: "10 years"})
    years = [(1.0, _row("timelines", "cover_full_1y")), (10.0, _row("timelines", "cover_full_10y"))]
    covers.line([(size, row["rival_value"]) for size, row in years], "recursion over a set", "warn")
    covers.line([(size, row["value"]) for size, row in years], "Tideline", "mark")
    return canvas


class Panel:
    """Axes with logarithmic scales."""

    def __init__(
        self,
        canvas: Canvas,
        left: int,
        title: str,
        sizes: tuple[float, float],
        costs: tuple[float, float],
        unit: str,
    ) -> None:
        """``left`` is the position of the vertical axis. ``sizes`` and ``costs`` are the ends of the two
        scales.
        """
        self._canvas, self._left, self._sizes, self._costs = canvas, left, sizes, costs
        canvas.text(left, 28, title, "head")
        for power in range(round(math.log10(costs[0])), round(math.log10(costs[1])) + 1):
            y = self._y(10.0**power)
            canvas.rule(left, y, left + 340, y)
            canvas.text(left - 6, y + 4, f"{_number(10.0**power)} {unit}", "small", "end")

    def ticks(self, names: dict[float, str]) -> None:
        """Write sizes below the axis."""
        for size, name in names.items():
            self._canvas.text(self._x(size), 310, name, "small", "middle")

    def line(self, points: list[tuple[float, float]], name: str, kind: str) -> None:
        """Draw a line through measured points, with a name above the last one."""
        places = [(self._x(size), self._y(cost)) for size, cost in points]
        self._canvas.path(*places, kind=kind)
        x, y = places[-1]
        self._canvas.text(x, y - 10, name, "small", "middle")

    def _x(self, size: float) -> int:
        low, high = self._sizes
        return self._left + round(340 * math.log(size / low) / math.log(high / low))

    def _y(self, cost: float) -> int:
        low, high = self._costs
        return 290 - round(240 * math.log(cost / low) / math.log(high / low))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _row(report: str, case: str) -> dict[str, Any]:
    rows = json.loads((RESULTS / f"{report}.json").read_text())["rows"]
    found: dict[str, Any] = next(row for row in rows if row["case"] == case)
    return found
