"""Answers about partitions as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from daemon.catalog.text import as_of, more_lines, summary_lines
from daemon.terminal.layout import aligned_lines


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from daemon.catalog.queries import Answer


RANGES_MAX: Final = 8
"""Ranges that are printed; more are counted, and ``--json`` has them."""


def listing_text(answer: Answer) -> str:
    """Return the indexed tables as a table, and how current each source is."""
    rows = [
        (
            row["table"],
            ", ".join(f"{name} {kind}" for name, kind in row["columns"]) or "-",
            "-" if row["partitions"] is None else str(row["partitions"]),
            row["state"],
            progress_text(row),
        )
        for row in answer["tables"]
    ]
    lines = aligned_lines(("table", "columns", "partitions", "state", ""), rows)
    if not rows:
        lines = [
            "no table is in the partition index yet; the daemon ('tideline run') loads those that 'catalog' names"
        ]
    return "\n".join([*lines, *summary_lines(answer, "partitions")])


def progress_text(row: Mapping[str, Any]) -> str:
    """Return the progress of a table's load, or "" where the table is not being loaded."""
    loading = row["loading"]
    return "" if loading is None else f"{loading['done']} of {loading['total']} loaded"


def filter_text(answer: Answer) -> str:
    """Return one partition per line, with values and location; only names if only names were requested."""
    lines = answer.get("names")
    if lines is None:
        rows = [
            ("/".join(one["values"]), one.get("sd", {}).get("location") or "-")
            for one in answer["partitions"]
        ]
        lines = aligned_lines(("values", "location"), rows)
    return "\n".join([*lines, *_cut(answer), *_problem(answer)])


def count_text(answer: Answer) -> str:
    """Return the number."""
    return "\n".join([str(answer["count"]), *_problem(answer)])


def explain_text(answer: Answer) -> str:
    """Return the plan and its cost."""
    ranges = [f"  {text}" for text in answer["ranges"][:RANGES_MAX]]
    more = answer["range_count"] - len(ranges)
    joined = ", ranges joined (too many)" if answer["capped"] else ""
    return "\n".join(
        [
            f"table     {answer['table']}",
            f"read      {answer['way']}{joined}",
            f"ranges    {answer['range_count']}",
            *ranges,
            *more_lines(more, "ranges"),
            f"residual  {answer['residual'] or 'none: every key in the ranges matches'}",
            "rows      "
            + ", ".join(f"{cost} {answer[f'{cost}_rows']}" for cost in ("estimated", "scanned", "matched")),
            *_problem(answer),
        ]
    )


def check_text(found: Mapping[str, Any]) -> str:
    """Return the differences that a check of one table found."""
    if not found["drift"]:
        return f"{found['table']}: {found['compared']} partitions match the source, {_as_of(found)}"
    moving = " (the source changed during the check)" if found["moving"] else ""
    return "\n".join([f"{found['table']}: differs{moving}, {_as_of(found)}", *_differences(found)])


def _differences(found: Mapping[str, Any]) -> Iterator[str]:
    for kind in ("missing", "surplus"):
        yield from (f"  {kind} {name}" for name in found[kind])
        yield from more_lines(found[f"{kind}_count"] - len(found[kind]), kind)
    yield from (f"  {name} differs in {', '.join(fields)}" for name, fields in found["differing"].items())
    yield from more_lines(found["differing_count"] - len(found["differing"]), "that differ")


def _as_of(found: Mapping[str, Any]) -> str:
    return as_of({"event_id": found["event_id"], "current_event_id": found["source_event_id"]})


def _cut(answer: Answer) -> list[str]:
    return ["… and more: raise --max"] if answer["truncated"] else []


def _problem(answer: Answer) -> list[str]:
    """Return a warning where the answer may not be current."""
    if answer["state"] == "following":
        return []
    return [f"{answer['table']} is {answer['state']}, {as_of(answer)}", *filter(None, [answer["problem"]])]
