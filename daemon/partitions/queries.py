"""Queries about partitions and the forms of their answers, with the HTTP paths below ``/api/v1/partitions``.
A name is a table (``db.table``).
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, get_args
from urllib.parse import quote, unquote

from daemon.catalog.queries import (
    Currency,
    Query,
    SourceSummary,
    TableList,
    TableStateForm,
    flag,
    number,
    parameter,
)
from state.errors import BadInput


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


class ListTables(TableList):
    """The tables in the index, and those loaded for the first time."""

    path = _PATH
    form = IndexList


@dataclass(frozen=True, kw_only=True)
class FilterQuery(Query):
    """Common part of all queries with a filter."""

    name: str
    filter: str = parameter("", is_long=True)
    """A filter as the metastore reads it; empty: all partitions."""
    dialect: str = parameter("hive4", schema={"type": "string", "enum": ["hive2", "hive4"]})
    """How to compare values: as Hive 2 or Hive 4 does."""


@dataclass(frozen=True, kw_only=True)
class FilterPartitions(FilterQuery):
    """The partitions that match a filter, or their names."""

    path = f"{_PATH}/{{name}}"
    form = FilteredPartitions
    limit: int | None = number(NAMES_MAX, name="max")
    """None, or a negative number: as many as an answer may have."""
    names: bool = flag()
    """Whether to return only names."""

    @classmethod
    def parse(cls, name: str, given: Mapping[str, str]) -> Self:
        """Return the query; whole partitions have a lower limit than names."""
        query = super().parse(name, given)
        if not query.names and (query.limit or 0) > PARTITIONS_MAX:
            rule = f"must be a number from 0 to {PARTITIONS_MAX}, unless names=true"
            raise BadInput(f"max = {query.limit}: {rule}", parameter="max", value=query.limit)
        return query


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


def _join_values(values: Sequence[str]) -> str:
    return "/".join(quote(value, safe="") for value in values)


def _split_values(value: str) -> list[str]:
    return [unquote(each) for each in value.split("/")]


@dataclass(frozen=True, kw_only=True)
class NamesByValues(Query):
    """The names of partitions with these values in the order of the key; an empty value matches any."""

    path = f"{_PATH}/{{name}}/names_ps"
    form = PartitionNames
    name: str
    values: Sequence[str] = parameter(("",), parse=_split_values, format=_join_values, is_long=True)
    """As a parameter like a partition name: ``2024-05-01//eu``, escaped as Hive does."""
    limit: int | None = number(NAMES_MAX, name="max")
    """The most names to return."""


def _decode(value: str) -> bytes:
    try:
        return b64decode(value + "=" * (-len(value) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        raise ValueError("must be base64 for URLs") from error


def _encode(value: bytes) -> str:
    return urlsafe_b64encode(value).decode().rstrip("=")


@dataclass(frozen=True, kw_only=True)
class PartitionsByExpression(Query):
    """The partitions that match an expression as Hive's clients serialize it."""

    path = f"{_PATH}/{{name}}/by_expr"
    form = PartitionsOfExpression
    name: str
    expression: bytes = parameter(b"", name="expr", parse=_decode, format=_encode, is_long=True)
    """The expression as base64 for URLs; empty: all partitions."""
    limit: int | None = number(PARTITIONS_MAX, name="max")
    """The most partitions to return."""


TableQuery = FilterPartitions | CountPartitions | ExplainFilter | NamesByValues | PartitionsByExpression
"""The queries about one table."""
PartitionQuery = ListTables | TableQuery
QUERIES: Final[Sequence[type[PartitionQuery]]] = (ListTables, *get_args(TableQuery))
