"""The tiling with the least missing time and then the fewest partitions, where periods do not nest.

Days nest in weeks and in months, but weeks do not nest in months: taking a month may cut a week whose days do not exist,
and two missing months are tiled better by the eight weeks across them than by seven and a dozen days. Largest-first is then
neither complete nor minimal. This is a shortest path instead: the points are the starts of weeks, months, quarters and years
within the range, the steps are whole partitions that exist, and from a point to the next one whatever the periods up to a
day cover (those nest, so largest-first is best for them).

Cost: about 65 points a year, each with one small cover; ten years take milliseconds.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from state.timelines.levels import Level, Segment, Stretch, joined, largest_first
from state.timelines.periods import UpdatePeriod


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_WEEKS = (UpdatePeriod.WEEKLY, UpdatePeriod.WEEKLY_ISO)


class _Way(NamedTuple):
    """The best way to a point: (missing seconds, partitions), the point before, and what is taken between."""

    cost: tuple[int, int]
    before_s: int
    segments: Sequence[Segment]
    open_: Sequence[Stretch]


def nests(levels: Sequence[Level]) -> bool:
    """Whether every partition of a longer period is made of whole ones of each shorter period."""
    weeks = sum(level.period in _WEEKS for level in levels)
    return weeks == 0 or (weeks == 1 and levels[0].period in _WEEKS)


def fewest(levels: Sequence[Level], start_s: int, end_s: int) -> tuple[list[Segment], list[Stretch]]:
    """Return what covers [start, end) with the least missing time, then the fewest partitions, and what stays open."""
    long = [level for level in levels if level.period.weight_ms >= UpdatePeriod.WEEKLY.weight_ms]
    short = levels[len(long) :]
    low_s, high_s = _extent(levels, start_s, end_s)
    starts = (point for level in long for point in _starts(level.period, low_s, high_s))
    points = sorted({start_s, end_s, *starts})
    ways = {start_s: _Way((0, 0), start_s, (), ())}
    for here_s, next_s in pairwise(points):
        for there_s, step in _steps(long, short, here_s, next_s):
            cost = (ways[here_s].cost[0] + step.cost[0], ways[here_s].cost[1] + step.cost[1])
            if there_s <= end_s and (there_s not in ways or cost < ways[there_s].cost):
                ways[there_s] = step._replace(cost=cost)
    found, open_ = _walked(ways, end_s)
    return joined(found, range(len(levels[0].slots.numbers))) if levels else found, open_


def _extent(levels: Sequence[Level], start_s: int, end_s: int) -> tuple[int, int]:
    """Narrow [start, end) to where anything is held: a range of 9,999 years costs no more than what is there."""
    ends = [
        (level.period.start_s(runs.first), level.period.start_s(runs.last + 1))
        for level in levels
        for _, runs, _, _ in level.holders
        if runs.first is not None and runs.last is not None
    ]
    low_s, high_s = min(first for first, _ in ends), max(last for _, last in ends)
    return max(start_s, low_s), min(end_s, high_s)


def _starts(period: UpdatePeriod, start_s: int, end_s: int) -> list[int]:
    return period.starts_s(range(period.ceil(start_s), period.floor(end_s) + 1)) if start_s < end_s else []


def _steps(
    long: Sequence[Level], short: Sequence[Level], here_s: int, next_s: int
) -> Iterator[tuple[int, _Way]]:
    for level in long:
        ordinal = level.period.floor(here_s)
        holders = level.holders_of(ordinal) if level.period.start_s(ordinal) == here_s else 0
        if holders:
            there_s = level.period.start_s(ordinal + 1)
            slot = level.slots.number(level.period, holders)
            yield there_s, _Way((0, 1), here_s, ((here_s, there_s, slot),), ())
    found, open_ = largest_first(short, here_s, next_s)
    slots = short[0].slots.listed() if short else []
    count = sum(partitions(slots[slot].period, start_s, end_s) for start_s, end_s, slot in found)
    yield next_s, _Way((sum(high_s - low_s for low_s, high_s in open_), count), here_s, found, open_)


def partitions(period: UpdatePeriod, start_s: int, end_s: int) -> int:
    """How many partitions an aligned stretch has."""
    return period.floor(end_s) - period.floor(start_s)


def _walked(ways: dict[int, _Way], end_s: int) -> tuple[list[Segment], list[Stretch]]:
    found: list[Segment] = []
    rest: list[Stretch] = []
    at_s = end_s
    while (way := ways[at_s]).before_s != at_s:
        found += reversed(way.segments)
        rest += reversed(way.open_)
        at_s = way.before_s
    return found[::-1], _joined(rest[::-1])


def _joined(stretches: list[Stretch]) -> list[Stretch]:
    joined: list[Stretch] = []
    for start_s, end_s in stretches:
        if joined and joined[-1][1] == start_s:
            joined[-1] = (joined[-1][0], end_s)
        else:
            joined.append((start_s, end_s))
    return joined
