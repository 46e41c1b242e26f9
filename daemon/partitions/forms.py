"""Forms of the answers about partitions, for the description of the API (``daemon.catalog.forms``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from daemon.catalog.forms import Currency, SourceSummary, TableStateForm


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadForm:
    """How far the load of a table is."""

    done: int
    total: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRow:
    """A table in a list."""

    source: str
    table: str
    state: str
    problem: str | None
    table_state: TableStateForm | None
    columns: list[tuple[str, str]]
    """Names and types of the partition columns."""
    partitions: int | None
    loading: LoadForm | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSource(SourceSummary):
    """A source in a list."""

    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexList:
    """The tables in the index."""

    sources: dict[str, IndexSource]
    tables: list[IndexRow]
    total: int
    """All tables, listed or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AboutTable(Currency):
    """What an answer says of its table."""

    table: str
    state: str
    problem: str | None
    table_state: TableStateForm | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredPartitions(AboutTable):
    """Partitions with the fields of Hive's objects, or their names if only these are requested."""

    partitions: list[dict[str, Any]] | None = None
    names: list[str] | None = None
    truncated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsOfExpression(AboutTable):
    """Partitions with the fields of Hive's objects."""

    partitions: list[dict[str, Any]]
    truncated: bool
    has_unknown: bool
    """Whether some may not match."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionNames(AboutTable):
    """Names of partitions."""

    names: list[str]
    truncated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCount(AboutTable):
    """A number of partitions."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedFilter(AboutTable):
    """How a filter is answered."""

    way: str
    ranges: list[str]
    """The first 1,000."""
    range_count: int
    residual: str
    capped: bool
    estimated_rows: int
    scanned_rows: int
    matched_rows: int
    table_rows: int
    spans: list[tuple[int, int]]
    """How many rows of the table are before the start and the end of each range."""
