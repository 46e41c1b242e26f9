"""Pages of the partition index: the list of tables, and one table with a filter, its plan, and its first
results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from daemon.catalog.pages import list_tables
from daemon.catalog.queries import Answer
from daemon.http.parameters import read_parameters
from daemon.partitions.answers import DIALECTS, PartitionAnswers
from daemon.partitions.queries import ExplainFilter, FilterPartitions
from daemon.site.lists import ListParameters
from daemon.site.pages import Asked, PageRoute
from state.errors import TidelineError


PATH: Final = "/partitions"
NAMES_SHOWN: Final = 50
RANGES_SHOWN: Final = 20
WIDTH: Final = 1000
"""Units of the axis of keys. A range is at least one unit wide."""


def partition_pages(answers: PartitionAnswers) -> Sequence[PageRoute]:
    """Return the routes of the pages."""

    def tables(asked: Asked) -> dict[str, Any]:
        return {"listed": list_tables(asked, answers)}

    def table(asked: Asked) -> dict[str, Any]:
        return _table_values(asked, answers)

    return (
        PageRoute(PATH, "partitions.html", tables, entry="Partitions", parameters=ListParameters),
        PageRoute(f"{PATH}/{{name}}", "partition_filter.html", table, parameters=ExplainFilter),
    )


def _table_values(asked: Asked, answers: PartitionAnswers) -> dict[str, Any]:
    query = read_parameters(ExplainFilter, asked.parameters, name=asked.name)
    source, view = answers.find_table(query.name, query.source)
    values: dict[str, Any] = {
        "table": query.name,
        "row": view.rows(source, [query.name])[0],
        "filter": query.filter,
        "dialect": query.dialect,
        "dialects": tuple(DIALECTS),
        "ranges_shown": RANGES_SHOWN,
        "explained": None,
        "found": None,
        "problem": None,
    }
    try:
        explained = answers.answer(query)
        found = answers.answer(FilterPartitions(**asdict(query), names=True, limit=NAMES_SHOWN))
    except TidelineError as problem:
        return {**values, "problem": problem}
    return {**values, "explained": explained, "found": found, "ranges": draw_ranges(explained)}


def draw_ranges(explained: Answer) -> str:
    """Return the path of the ranges read, on an axis of all keys of the table."""
    rows = max(1, explained["table_rows"])
    parts = []
    for low, high in explained["spans"]:
        if low < high:
            start = min(low * WIDTH // rows, WIDTH - 1)
            width = max(1, -(-high * WIDTH // rows) - start)
            parts.append(f"M{start} 0h{width}v1h-{width}z")
    return "".join(parts)
