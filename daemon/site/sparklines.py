"""Draws sparklines of the last day as SVG paths, and describes them in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from daemon.status.history import INTERVAL_S, POINTS, HistoryPoint
from daemon.terminal.layout import bytes_text, duration_text


WIDTH: Final = POINTS
HEIGHT: Final = 40
OBSERVED_S_MIN: Final = 10.0
"""Shorter observations give no rate."""


@dataclass(frozen=True, slots=True)
class Sparkline:
    """One sparkline. It is interrupted for the time in which the daemon did not run."""

    name: str
    latest: str
    highest: str
    path: str
    """In a box of ``WIDTH`` by ``HEIGHT``; one unit is one interval."""


def draw_sparklines(points: Sequence[HistoryPoint], now_s: float) -> list[Sparkline]:
    """Return the sparklines of lag, events and bytes; none without samples."""
    if not points:
        return []
    last = int(now_s) // INTERVAL_S
    observed = [point for point in points if point.observed_s >= OBSERVED_S_MIN]
    lags = {point.number: point.lag_s for point in points if point.lag_s is not None}
    events = {point.number: point.events / point.observed_s for point in observed}
    sizes = {point.number: point.size_bytes / point.observed_s for point in observed}
    return [
        _draw("Largest lag", lags, last, duration_text),
        _draw("Events of all sources", events, last, lambda rate: f"{rate:,.1f}/s"),
        _draw("Copied", sizes, last, lambda rate: f"{bytes_text(round(rate))}/s"),
    ]


def _draw(name: str, values: Mapping[int, float], last: int, text: Callable[[float], str]) -> Sparkline:
    highest = max(values.values(), default=0.0)
    steps, before = [], None
    for number, value in sorted(values.items()):
        x = WIDTH - 1 - (last - number)
        if x < 0:
            continue
        y = HEIGHT - 1 - (HEIGHT - 2) * value / highest if highest else HEIGHT - 1
        steps.append(f"{'L' if before == number - 1 else 'M'}{x} {y:.1f}h1")
        before = number
    latest = text(values[max(values)]) if values else "-"
    return Sparkline(name, latest, text(highest) if values else "-", "".join(steps))
