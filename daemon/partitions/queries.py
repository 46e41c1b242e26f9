"""Queries about partitions and the forms of their answers, with the HTTP paths below ``/api/v1/partitions``.
A name is a table (``db.table``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, get_args

from annotated_types import Interval

from daemon.catalog.queries import Currency, Query, SourceSummary, TableList, TableStateForm
from daemon.http.parameters import LongText


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
    """An answer's facts about its table."""

    table: str
    state: str
    problem: str | None
    table_state: TableStateForm | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredPartitions(AboutTable):
    """Partitions with the fields of Hive's objects, or only their names."""

    partitions: list[dict[str, Any]] | None = None
    names: list[str] | None = None
    truncated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsOfExpression(AboutTable):
    """Partitions with the fields of Hive's objects."""

    partitions: list[dict[str, Any]]
    truncated: bool
    has_unknown: bool
    """Whether some of them might not match."""


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
    """How to answer a filter."""

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


PARTITIONS_MAX: Final = 10_000
"""Whole partitions in one answer: about 20 MB."""
NAMES_MAX: Final = 100_000
_PATH: Final = "/api/v1/partitions"
Limit = Annotated[int, Interval(ge=0, le=NAMES_MAX)]


class ListTables(TableList):
    """The tables in the index, and those loaded for the first time."""

    path = _PATH
    form = IndexList


@dataclass(frozen=True, kw_only=True)
class FilterQuery(Query):
    """Common part of all queries with a filter."""

    name: str
    filter: LongText = ""
    """A filter as the metastore reads it; empty: all partitions."""
    dialect: Literal["hive2", "hive4"] = "hive4"
    """How to compare values: as Hive 2 or Hive 4 does."""


@dataclass(frozen=True, kw_only=True)
class FilterPartitions(FilterQuery):
    """The partitions that match a filter, or their names."""

    path = f"{_PATH}/{{name}}"
    form = FilteredPartitions
    limit: Limit | None = field(default=None, metadata={"alias": "max"})
    """The most partitions to return; 10,000 at most, unless only names are returned."""
    names: bool = False
    """Whether to return only names."""


@dataclass(frozen=True, kw_only=True)
class CountPartitions(FilterQuery):
    """How many partitions match a filter."""

    path = f"{_PATH}/{{name}}/count"
    form = PartitionCount


@dataclass(frozen=True, kw_only=True)
class ExplainFilter(FilterQuery):
    """How a filter is answered, and the cost."""

    path = f"{_PATH}/{{name}}/explain"
    form = ExplainedFilter


@dataclass(frozen=True, kw_only=True)
class NamesByValues(Query):
    """The names of partitions with these values in the order of the key; an empty value matches any."""

    path = f"{_PATH}/{{name}}/names_ps"
    form = PartitionNames
    name: str
    values: LongText = ""
    """Like a partition name: ``2024-05-01//eu``, escaped as Hive does."""
    limit: Limit | None = field(default=None, metadata={"alias": "max"})
    """The most names to return."""


@dataclass(frozen=True, kw_only=True)
class PartitionsByExpression(Query):
    """The partitions that match an expression as Hive's clients serialize it."""

    path = f"{_PATH}/{{name}}/by_expr"
    form = PartitionsOfExpression
    name: str
    expr: LongText = ""
    """The expression as base64 for URLs; empty: all partitions."""
    limit: Annotated[int, Interval(ge=0, le=PARTITIONS_MAX)] | None = field(
        default=None, metadata={"alias": "max"}
    )
    """The most partitions to return."""


TableQuery = FilterPartitions | CountPartitions | ExplainFilter | NamesByValues | PartitionsByExpression
"""The queries about one table."""
PartitionQuery = ListTables | TableQuery
QUERIES: Final[Sequence[type[PartitionQuery]]] = (ListTables, *get_args(TableQuery))
