"""Explains the answer to a filter: the access path, the ranges, the check of each key, and the cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from state.partitions.filters.conditions import AllOf, Condition, Leaf
from state.partitions.filters.dialect import HIVE_4, Dialect
from state.partitions.filters.intervals import Interval, after, between
from state.partitions.index.access_paths import AccessPath
from state.partitions.index.partition_index import PartitionIndex
from state.partitions.index.prepared_filters import PreparedFilter
from state.partitions.index.range_text import ALL, NONE, describe_intervals, describe_range, quote, quote_name
from state.partitions.keys.binary_sortable import UNCONVERTIBLE, VALUE, escape_bytes
from state.partitions.keys.column_types import PartitionColumn


RANGES_MAX: Final = 1_000
"""Ranges in an explanation; further ones are only counted."""
_POINT_SHARE, _CLOSED_SHARE, _OPEN_SHARE = 0.01, 0.1, 1 / 3


@dataclass(frozen=True, slots=True)
class Explanation:
    """A plan as text and numbers."""

    table: str
    way: str
    ranges: tuple[str, ...]
    """The partitions that each range contains, in the filter language; the first ``RANGES_MAX`` of them."""
    range_count: int
    residual: str
    """The condition on every key in the ranges; empty if none is necessary."""
    capped: bool
    estimated_rows: int
    """An estimate from the shape of the filter and the size of the table, for comparison."""
    scanned_rows: int
    matched_rows: int
    table_rows: int
    """All partitions of the table."""
    spans: tuple[tuple[int, int], ...]
    """The first ``RANGES_MAX`` ranges of the table's own keys: how many rows are before their start and end.
    Ranges of postings have none."""


def explain_filter(index: PartitionIndex, table: str, text: str, dialect: Dialect = HIVE_4) -> Explanation:
    """Plan and run a filter and explain the answer, and count the table's partitions."""
    prepared = index.prepare(table, text, dialect)
    columns, paths = prepared.table.key_schema.columns, prepared.paths
    before = index.counts["rows-scanned"]
    matched = index.count(prepared)
    scanned = index.counts["rows-scanned"] - before
    size, spans = _locate(index, index.prepare(table, "", dialect), paths)
    return Explanation(
        table,
        way=", and ".join(describe_path(path, columns) for path in paths),
        ranges=describe_ranges(paths, columns),
        range_count=sum(len(path.ranges) for path in paths),
        residual="" if prepared.residual is None else describe_condition(prepared.residual, columns),
        capped=prepared.access.capped,
        estimated_rows=round(size * estimate_selectivity(prepared.condition)),
        scanned_rows=scanned,
        matched_rows=matched,
        table_rows=size,
        spans=spans,
    )


def _locate(
    index: PartitionIndex, whole: PreparedFilter, paths: Sequence[AccessPath]
) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Return the number of a table's rows, and the positions of the ranges among them, from one pass over
    keys.
    """
    prefix = whole.table.prefix(None)
    owned = (range_ for path in paths if path.column is None for range_ in path.ranges)
    ranges = [
        (prefix + start, b"" if end is None else prefix + end) for start, end in islice(owned, RANGES_MAX)
    ]
    bounds = sorted({bound for range_ in ranges for bound in range_ if bound})
    before: dict[bytes, int] = {}
    rows, reached = 0, 0
    for key in index.keys(whole):
        while reached < len(bounds) and key >= bounds[reached]:
            before[bounds[reached]] = rows
            reached += 1
        rows += 1
    spans = ((before.get(start, rows), before.get(end, rows)) for start, end in ranges)
    return rows, tuple(sorted(spans))


def describe_path(access: AccessPath, columns: Sequence[PartitionColumn]) -> str:
    """Describe an access path."""
    if not access.ranges:
        return "nothing: the filter can never be true"
    if access.whole_keys:
        return "gets of whole keys"
    if access.column is not None:
        return f"postings of {columns[access.column].name}"
    return "whole table" if access.ranges[0] == (b"", None) else "key ranges"


def describe_ranges(paths: Sequence[AccessPath], columns: Sequence[PartitionColumn]) -> tuple[str, ...]:
    """Return the first ``RANGES_MAX`` ranges of access paths as text."""
    ranges = ((path.column, *range_) for path in paths for range_ in path.ranges)
    return tuple(
        describe_range(start, end, [*([] if posting is None else [columns[posting]]), *columns])
        for posting, start, end in islice(ranges, RANGES_MAX)
    )


def describe_condition(condition: Condition, columns: Sequence[PartitionColumn]) -> str:
    """Return a condition as text."""
    if isinstance(condition, Leaf):
        return _leaf(condition, columns[condition.column])
    texts = [describe_condition(child, columns) for child in condition.children]
    if isinstance(condition, AllOf):
        return NONE if NONE in texts else _join(" and ", [text for text in texts if text != ALL], ALL)
    return ALL if ALL in texts else _join(" or ", [text for text in texts if text != NONE], NONE)


def _join(separator: str, texts: Sequence[str], empty: str) -> str:
    return f"({separator.join(texts)})" if len(texts) > 1 else texts[0] if texts else empty


def estimate_selectivity(condition: Condition | None) -> float:
    """Estimate the share of a table that a condition selects:
    fixed shares, multiplied under AND and added under OR.
    """
    if condition is None:
        return 1.0
    if isinstance(condition, Leaf):
        return min(1.0, sum(_share(interval) for interval in condition.intervals))
    if isinstance(condition, AllOf):
        share = 1.0
        for child in condition.children:
            share *= estimate_selectivity(child)
        return share
    return min(1.0, sum(estimate_selectivity(child) for child in condition.children))


def _share(interval: Interval) -> float:
    if interval.is_point:
        return _POINT_SHARE
    is_open = interval.lo <= VALUE or interval.hi >= UNCONVERTIBLE
    return _OPEN_SHARE if is_open else _CLOSED_SHARE


def _leaf(leaf: Leaf, column: PartitionColumn) -> str:
    intervals = describe_intervals(leaf.intervals, column)
    if leaf.like is None:
        return intervals or ALL
    # The interval is the pattern's own prefix, or the rest of it after other conditions.
    like = f"{quote_name(column.name)} like {quote(leaf.like.to_sql())}"
    prefix = VALUE + escape_bytes(leaf.like.prefix.encode(errors="surrogatepass"))
    is_implied = leaf.intervals == between(prefix, after(prefix))
    return like if is_implied or not intervals else f"({intervals} and {like})"
