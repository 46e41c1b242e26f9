"""Draws timelines and covers as SVG paths on an axis of time.

Every picture is ``WIDTH`` units wide. A part is at least one unit wide, so that a single missing hour of ten
years is visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from state.timelines.cover import Cover
from state.timelines.timeline import Timeline


WIDTH: Final = 1000
DRAWN_MAX: Final = 20_000
"""Runs or holes of one timeline that are drawn."""
Span = tuple[int, int]
"""Start and end in seconds; the end is not part of it."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of a picture."""

    name: str
    whole: str
    """Path of the existing partitions."""
    holes: str
    """Path of the missing partitions."""
    is_cut: bool = False
    """Whether only the first ``DRAWN_MAX`` holes are drawn."""


@dataclass(frozen=True, slots=True)
class Picture:
    """Lanes on one axis."""

    start_s: int
    end_s: int
    lanes: Sequence[Lane]


def draw_timelines(timelines: Sequence[Timeline]) -> Picture | None:
    """Return the picture of one column's timelines on one axis; None if they have no partition."""
    filled = [timeline for timeline in timelines if timeline.runs]
    if not filled:
        return None
    ends = [_ends_of(timeline) for timeline in filled]
    axis = min(start for start, _ in ends), max(end for _, end in ends)
    lanes = []
    for timeline, span in zip(filled, ends, strict=True):
        gaps = list(islice(timeline.runs.gaps(), DRAWN_MAX + 1))
        holes = _to_spans(timeline, gaps[:DRAWN_MAX])
        lanes.append(
            Lane(
                timeline.period.lens_name,
                draw_spans([span], axis),
                draw_spans(holes, axis),
                is_cut=len(gaps) > DRAWN_MAX,
            )
        )
    return Picture(*axis, lanes)


def draw_cover(cover: Cover) -> Picture:
    """Return the picture of a cover: a lane of runs for each period and table, and the missing partitions."""
    axis = cover.span.start_s, cover.span.end_s
    lanes: dict[str, list[Span]] = {}
    for run in islice(cover.runs(), DRAWN_MAX):
        lanes.setdefault(f"{run.table} {run.period.lens_name}", []).append(
            (run.range.start_s, run.range.end_s)
        )
    missing = [(part.start_s, part.end_s) for part in islice(cover.missing(), DRAWN_MAX)]
    drawn = [Lane(name, draw_spans(spans, axis), "") for name, spans in lanes.items()]
    return Picture(*axis, [*drawn, Lane("missing", "", draw_spans(missing, axis))] if missing else drawn)


def draw_spans(spans: Iterable[Span], axis: Span) -> str:
    """Return the path of rectangles with a height of 1; rectangles that touch or overlap are joined."""
    start_s, length_s = axis[0], max(1, axis[1] - axis[0])
    merged: list[list[int]] = []
    for low_s, high_s in spans:
        low = (low_s - start_s) * WIDTH // length_s
        high = max(low + 1, -(-(high_s - start_s) * WIDTH // length_s))
        if merged and low <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], high)
        else:
            merged.append([low, high])
    return "".join(f"M{low} 0h{high - low}v1h-{high - low}z" for low, high in merged)


def _ends_of(timeline: Timeline) -> Span:
    first, latest = timeline.first(), timeline.latest()
    assert first is not None and latest is not None  # noqa: S101, PT018 - the runs are not empty
    return first.start_s, latest.end_s


def _to_spans(timeline: Timeline, ranges: Sequence[tuple[int, int]]) -> Iterable[Span]:
    """Convert half-open ranges of ordinals to spans."""
    starts_s = timeline.period.starts_s(low for low, _ in ranges)
    ends_s = timeline.period.starts_s(high for _, high in ranges)
    return zip(starts_s, ends_s, strict=True)
