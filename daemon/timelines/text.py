"""Answers about timelines as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from daemon.catalog.text import as_of, more_lines, summary_lines
from daemon.terminal.layout import aligned_lines


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from daemon.catalog.queries import Answer


LINES_MAX: Final = 200
"""Runs that are printed; more are counted, and ``--json`` has them."""


def listing_text(answer: Answer) -> str:
    """Return the tables as a table, and how current each source is."""
    rows = [
        (
            row["table"],
            one["column"],
            one["period"],
            str(one["partitions"]),
            str(one["runs"]),
            one["latest"] or "-",
            row["state"],
        )
        for row in answer["tables"]
        for one in row["timelines"]
        or [{"column": "-", "period": "-", "partitions": 0, "runs": 0, "latest": None}]
    ]
    lines = aligned_lines(("table", "column", "period", "partitions", "runs", "latest", "state"), rows)
    if not rows:
        lines = ["no table has timelines yet; the daemon ('tideline run') loads those that 'catalog' names"]
    return "\n".join([*lines, *summary_lines(answer, "runs")])


def show_text(answer: Answer) -> str:
    """Return each timeline with its bar of runs and holes."""
    lines = [f"{answer['table']} ({answer['source']}), {as_of(answer)}", *_problems(answer)]
    for one in answer["timelines"]:
        lines += [
            "",
            f"{one['column']} {one['period']} ({one['form']}): {one['partitions']} partitions, {one['run_count']} runs",
        ]
        if one["first"] is not None:
            lines.append(f"  {one['first']} |{one['bar']}| {one['latest']}")
        lines += [f"  missing {_range(hole)}" for hole in one["holes"][:LINES_MAX]]
        lines += _more(len(one["holes"]), "holes")
    for one in answer.get("ignored", ()):
        lines += _ignored_lines(one)
    return "\n".join(lines)


def _ignored_lines(one: Mapping[str, Any]) -> list[str]:
    """Return how many values of a column are in none of its timelines, with the first ones."""
    if one["count"] == 0:
        return []
    if one["count"] is None and one["more_than"] is None:
        rule = "values that are not in a timeline are not known; 'tideline timeline rebuild' lists them"
        return ["", f"{one['column']}: {rule}"]
    count = f"more than {one['more_than']}" if one["count"] is None else str(one["count"])
    lines = ["", f"{one['column']}: {count} values are ignored, because they are not in a timeline"]
    lines += [f"  ignored {value}" for value in one["values"][:LINES_MAX]]
    return [*lines, *_more(len(one["values"]), "ignored values")]


def latest_text(answer: Answer) -> str:
    """Return the latest partition of each column."""
    rows = [
        (column, found["value"] if found else "-", found["period"] if found else "-")
        for column, found in answer["latest"].items()
    ]
    return "\n".join(
        [*aligned_lines(("column", "latest", "period"), rows), as_of(answer), *_problems(answer)]
    )


def cover_text(answer: Answer) -> str:
    """Return runs, missing ranges, and the condition if requested."""
    complete = "complete" if answer["complete"] else "NOT complete"
    lines = [
        f"{answer['name']} {answer['column']} {answer['range']}: {complete}, {answer['partitions']} partitions"
    ]
    rows = [
        (run["table"], run["period"], run["first"], run["last"], str(run["count"]))
        for run in answer["runs"][:LINES_MAX]
    ]
    lines += aligned_lines(("table", "period", "first", "last", "partitions"), rows)
    lines += _more(answer["run_count"], "runs")
    lines += [f"missing {part['period']} {part['range']}" for part in answer["missing"][:LINES_MAX]]
    lines += _more(len(answer["missing"]), "missing ranges")
    lines += [f"{table}: {text}" for table, text in answer.get("where", {}).items()]
    return "\n".join([*lines, as_of(answer), *_problems(answer)])


def check_text(found: Mapping[str, Any]) -> str:
    """Return the differences that a check of one table found."""
    if not found["drift"]:
        return f"{found['table']}: matches the source, {as_of(found)}"
    moving = " (the source changed during the check)" if found["moving"] else ""
    lines = [f"{found['table']}: differs{moving}, {as_of(found)}"]
    for one in found["drift"]:
        for kind in ("missing", "surplus"):
            lines += [f"  {one['column']} {one['period']} {kind} {part}" for part in one[kind][:LINES_MAX]]
            lines += _more(len(one[kind]), kind)
    return "\n".join(lines)


def _problems(answer: Answer) -> list[str]:
    states = [f"{table} is {state}" for table, state in answer["states"].items() if state != "following"]
    return [*states, *(f"{table}: {reason}" for table, reason in answer["problems"].items())]


def _more(count: int, what: str) -> list[str]:
    return more_lines(count - LINES_MAX, what)


def _range(ends: Sequence[str]) -> str:
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
