"""Queries about timelines, with their HTTP paths below ``/api/v1/timelines``.
A name is a table (``db.table``) or a fact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from daemon.catalog.queries import Query, TableList, flag, parameter
from daemon.timelines.forms import CoverAnswer, LatestPartitions, TableTimelines, TimelineList


if TYPE_CHECKING:
    from collections.abc import Sequence


_PATH: Final = "/api/v1/timelines"


class ListTables(TableList):
    """The tables that have timelines."""

    path = _PATH
    form = TimelineList


@dataclass(frozen=True, kw_only=True)
class ShowTable(Query):
    """The timelines of a table with their runs."""

    path = f"{_PATH}/{{name}}"
    form = TableTimelines
    name: str


@dataclass(frozen=True, kw_only=True)
class FindLatest(Query):
    """The latest partition of each time column."""

    path = f"{_PATH}/{{name}}/latest"
    form = LatestPartitions
    name: str
    column: str | None = None
    """None: all time columns."""


def _split_words(value: str) -> tuple[str, ...]:
    return tuple(word for word in value.split(",") if word)


@dataclass(frozen=True, kw_only=True)
class CoverRange(Query):
    """The partitions that cover a range of time, and what is missing of it."""

    path = f"{_PATH}/{{name}}/cover"
    form = CoverAnswer
    name: str
    start: str = parameter(name="from")
    """A partition value such as 2015-01-29-06, or an ISO 8601 timestamp; as is ``end``, which is excluded."""
    end: str = parameter(name="to")
    """The end of the range, which is not part of it; written like the start."""
    column: str | None = None
    """Time column; required if the table has several."""
    periods: tuple[str, ...] = parameter((), parse=_split_words, format=",".join)
    """Update periods to choose from; empty: all."""
    strict: bool = flag()
    """Whether a missing partition is an error."""
    min_count: bool = flag()
    """Whether to use the fewest partitions, where weeks and months overlap."""
    where: str | None = None
    """``or``, ``in`` or ``between``: the form of the SQL condition; None: no condition."""
    alias: str = ""
    """Alias of the table in the condition."""


TimelineQuery = ListTables | ShowTable | FindLatest | CoverRange
QUERIES: Final[Sequence[type[TimelineQuery]]] = (ListTables, ShowTable, FindLatest, CoverRange)
