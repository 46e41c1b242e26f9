"""Converts timelines and covers to plain values, with the public field names of the JSON output.

A partition has the format of its update period, and a run is given by its first and last partition, both
included. Long lists are truncated at ``RUNS_MAX``, with the full count next to them.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from state.timelines.cover import Cover, CoverRun
from state.timelines.ignored_values import IGNORED_MAX, IgnoredValues
from state.timelines.runs import draw_bar
from state.timelines.timeline import Timeline


RUNS_MAX: Final = 10_000
"""Runs and holes in one answer; more are only counted."""
BAR_CELLS: Final = 60


def summary_of(timeline: Timeline) -> dict[str, Any]:
    """Return a timeline's row in a list: its latest partition and its size."""
    return {
        "column": timeline.column,
        "period": timeline.period.lens_name,
        "latest": _text(timeline.latest()),
        "partitions": timeline.runs.count(),
        "runs": len(timeline.runs),
    }


def timeline_of(timeline: Timeline, runs_max: int = RUNS_MAX) -> dict[str, Any]:
    """Return a timeline with its first runs and holes."""
    runs = timeline.runs
    text = timeline.period.format
    return {
        "column": timeline.column,
        "period": timeline.period.lens_name,
        "form": timeline.form.name,
        "first": _text(timeline.first()),
        "latest": _text(timeline.latest()),
        "partitions": runs.count(),
        "run_count": len(runs),
        "bar": draw_bar(runs, BAR_CELLS),
        "runs": [[text(first), text(end - 1)] for first, end in islice(runs.pairs(), runs_max)],
        "holes": [[text(first), text(end - 1)] for first, end in islice(runs.gaps(), runs_max)],
    }


def ignored_of(column: str, ignored: IgnoredValues | None) -> dict[str, Any]:
    """Return the values of a column that belong to none of its timelines; without a count if unknown or too
    high.
    """
    listed = [] if ignored is None else sorted(ignored.texts)
    is_complete = ignored is not None and ignored.is_complete
    return {
        "column": column,
        "count": len(listed) if is_complete else None,
        "more_than": IGNORED_MAX if ignored is not None and not is_complete else None,
        "values": listed,
    }


def cover_of(cover: Cover) -> dict[str, Any]:
    """Return the runs that cover a range, and the missing ranges with their total in seconds."""
    missing = [
        {"period": part.period.lens_name, "range": str(part)}
        for part in islice(cover.missing_ranges(), RUNS_MAX)
    ]
    return {
        "range": str(cover.span),
        "complete": cover.complete,
        "partitions": cover.partition_count(),
        "run_count": cover.run_count(),
        "tables": cover.tables(),
        "runs": [_run(run) for run in islice(cover.runs(), RUNS_MAX)],
        "missing": missing,
        "missing_s": cover.missing_s(),
    }


def _run(run: CoverRun) -> dict[str, Any]:
    text = run.period.format
    return {
        "table": run.table,
        "period": run.period.lens_name,
        "first": text(run.first),
        "last": text(run.last),
        "count": run.last - run.first + 1,
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)
