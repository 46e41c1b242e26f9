"""Forms of the answers about timelines, for the description of the API (``daemon.catalog.forms``)."""

from __future__ import annotations

from dataclasses import dataclass

from daemon.catalog.forms import Currency, SourceSummary, TableStateForm


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
    """What an answer says of the tables that it is made from."""

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
    """The condition in SQL by table, if one is requested."""
