"""A timeline as one line of text: where partitions exist, where some are missing, where none are."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from state.timelines.runs import Runs


FULL: Final = "\N{FULL BLOCK}"
PARTLY: Final = "\N{MEDIUM SHADE}"
NONE: Final = "\N{MIDDLE DOT}"


def bar(runs: Runs, width: int, start: int | None = None, end: int | None = None) -> str:
    """Draw [start, end), by default from the first to the last partition, in at most ``width`` cells.

    A cell is full, partly filled or empty; it stands for one partition at least, so a short timeline gives a short line.
    """
    assert width > 0, width
    first = runs.first if start is None else start
    last = runs.last if end is None else end - 1
    if first is None or last is None or last < first:
        return ""
    total = last + 1 - first
    cells = min(width, total)
    edges = [first + total * cell // cells for cell in range(cells + 1)]
    return "".join(_cell(runs, low, high) for low, high in pairwise(edges))


def _cell(runs: Runs, low: int, high: int) -> str:
    inside = runs.between(low, high)
    if not inside:
        return NONE
    return FULL if (inside[0], inside[1]) == (low, high) else PARTLY
