"""Answers about partitions as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from daemon.catalog.answers import as_of
from daemon.terminal.layout import aligned_lines


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from daemon.partitions.answers import Answer


def listing_text(answer: Answer) -> str:
    """Return the indexed tables as a table, and how far each source is."""
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
    for source, told in answer["sources"].items():
        loading = f", {told['loading']} tables to load" if told["loading"] else ""
        lines.append(
            f"{source}: {told['tables']} tables, {told['partitions']} partitions{loading}, {as_of(told)}"
        )
    if answer["total"] > len(answer["tables"]):
        lines.append(f"{answer['total'] - len(answer['tables'])} more tables")
    return "\n".join(lines)


def progress_text(row: Mapping[str, Any]) -> str:
    """Return how far the load of a table is, "" where none is under way."""
    loading = row["loading"]
    return "" if loading is None else f"{loading['done']} of {loading['total']} loaded"


def filter_text(answer: Answer) -> str:
    """Return one partition per line, its location behind its values; names alone where they were asked for."""
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
    """Return the plan and what it cost."""
    ranges = [f"  [{start or '-'}, {end or '-'})" for start, end in answer["ranges"][:8]]
    more = answer["range_count"] - len(ranges)
    joined = ", ranges joined (too many)" if answer["capped"] else ""
    return "\n".join(
        [
            f"table     {answer['table']}",
            f"read      {answer['way']}{joined}",
            f"ranges    {answer['range_count']}",
            *ranges,
            *([f"  … {more} more"] if more > 0 else []),
            f"residual  {answer['residual'] or 'none: every key in the ranges matches'}",
            "rows      "
            + ", ".join(f"{cost} {answer[f'{cost}_rows']}" for cost in ("estimated", "scanned", "matched")),
            *_problem(answer),
        ]
    )


def check_text(found: Mapping[str, Any]) -> str:
    """Return what a check of one table found."""
    if not found["drift"]:
        return f"{found['table']}: {found['compared']} partitions as the source, {_moment(found)}"
    moving = " (the source changed meanwhile)" if found["moving"] else ""
    return "\n".join([f"{found['table']}: differs{moving}, {_moment(found)}", *_differences(found)])


def _differences(found: Mapping[str, Any]) -> Iterator[str]:
    for kind in ("missing", "surplus"):
        yield from (f"  {kind} {name}" for name in found[kind])
        yield from _more(found[f"{kind}_count"] - len(found[kind]), kind)
    yield from (f"  {name} differs in {', '.join(fields)}" for name, fields in found["differing"].items())
    yield from _more(found["differing_count"] - len(found["differing"]), "that differ")


def _moment(found: Mapping[str, Any]) -> str:
    return as_of({"event_id": found["event_id"], "current_event_id": found["source_event_id"]})


def _more(count: int, what: str) -> list[str]:
    return [f"  … {count} more {what}"] if count > 0 else []


def _cut(answer: Answer) -> list[str]:
    return ["… and more: raise --max"] if answer["truncated"] else []


def _problem(answer: Answer) -> list[str]:
    """Return what an answer has to be warned of."""
    if answer["state"] == "following":
        return []
    return [f"{answer['table']} is {answer['state']}, {as_of(answer)}", *filter(None, [answer["problem"]])]
