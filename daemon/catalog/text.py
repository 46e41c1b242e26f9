"""What answers about all branches of a catalog share as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.catalog.queries import Answer


def as_of(answer: Mapping[str, Any]) -> str:
    """Return which event an answer reflects, and where the source is."""
    newest = answer.get("current_event_id")
    return f"as of event {answer['event_id']}, source at {'?' if newest is None else newest}"


def summary_lines(answer: Answer, count: str) -> list[str]:
    """Return how much each source has (tables, and the figure ``count``), and how many tables the list leaves out."""
    lines = []
    for source, row in answer["sources"].items():
        loading = f", {row['loading']} still loading" if row["loading"] else ""
        lines.append(f"{source}: {row['tables']} tables, {row[count]} {count}{loading}, {as_of(row)}")
    more = answer["total"] - len(answer["tables"])
    return [*lines, *more_lines(more, "tables", indent="")]


def more_lines(count: int, what: str, *, indent: str = "  … ") -> list[str]:
    """Return the line that counts what is left out, if anything is."""
    return [f"{indent}{count} more {what}"] if count > 0 else []
