"""Queries about timelines and the forms of their answers, with the HTTP paths below ``/api/v1/timelines``.
A name is a table (``db.table``) or a fact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from daemon.catalog.queries import Currency, Query, SourceSummary, TableList, TableStateForm


Ends = tuple[str, str]
"""First and last partition, both included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSummary:
    """A timeline in a list."""

    column: str
    period: str
    latest: str | None
    partitions: int
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRow:
    """A table in a list."""

    source: str
    table: str
    state: str
    timelines: list[TimelineSummary]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSource(SourceSummary):
    """A source in a list."""

    runs: int
    facts: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineList:
    """The tables with timelines."""

    sources: dict[str, TimelineSource]
    tables: list[TimelineRow]
    total: int
    """All tables, listed or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AboutTables(Currency):
    """An answer's facts about its tables."""

    states: dict[str, str]
    problems: dict[str, str]
    table_states: dict[str, TableStateForm | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineForm:
    """One timeline; at most 10,000 runs and holes, as pairs of their first and last partition."""

    column: str
    period: str
    form: str
    first: str | None
    latest: str | None
    partitions: int
    run_count: int
    bar: str
    runs: list[Ends]
    holes: list[Ends]


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoredForm:
    """Values of a column that are in none of its timelines."""

    column: str
    count: int | None
    more_than: int | None
    values: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTimelines(AboutTables):
    """The timelines of a table."""

    table: str
    columns: list[str]
    timelines: list[TimelineForm]
    ignored: list[IgnoredForm]


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestPartition:
    """One partition."""

    period: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestPartitions(AboutTables):
    """The latest partition of each time column."""

    name: str
    latest: dict[str, LatestPartition | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverRunForm:
    """Consecutive partitions of one table, both ends included."""

    table: str
    period: str
    first: str
    last: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingRange:
    """A range that no partition covers."""

    period: str
    range: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverAnswer(AboutTables):
    """The partitions that cover a range, and what is missing; at most 10,000 of each."""

    name: str
    column: str
    range: str
    complete: bool
    partitions: int
    run_count: int
    tables: list[str]
    runs: list[CoverRunForm]
    missing: list[MissingRange]
    missing_s: int
    where: dict[str, str] | None = None
    """The condition in SQL by table, if requested."""


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


@dataclass(frozen=True, kw_only=True)
class CoverRange(Query):
    """The partitions that cover a range of time, and what is missing of it."""

    path = f"{_PATH}/{{name}}/cover"
    form = CoverAnswer
    name: str
    start: str = field(metadata={"alias": "from"})
    """A partition value such as 2015-01-29-06, or an ISO 8601 timestamp; as is ``end``, excluded."""
    end: str = field(metadata={"alias": "to"})
    """The end of the range, which is not part of it; written like the start."""
    column: str | None = None
    """Time column; required if the table has several."""
    periods: str = ""
    """Update periods to choose from, separated by commas; empty: all."""
    strict: bool = False
    """Whether a missing partition is an error."""
    min_count: bool = False
    """Whether to use the fewest partitions if weeks and months overlap."""
    where: Literal["or", "in", "between"] | None = None
    """The form of the SQL condition; none by default."""
    alias: str = ""
    """Alias of the table in the condition."""


TimelineQuery = ListTables | ShowTable | FindLatest | CoverRange
QUERIES: Final[Sequence[type[TimelineQuery]]] = (ListTables, ShowTable, FindLatest, CoverRange)
