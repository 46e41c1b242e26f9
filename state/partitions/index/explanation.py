"""Explains how a filter is answered: the access path, the ranges, the check of each key, and the cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from state.errors import StateCorrupt
from state.partitions.filters.conditions import AllOf, Condition, Leaf
from state.partitions.keys.binary_sortable import END, UNCONVERTIBLE, VALUE, decode


if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.partitions.filters.intervals import Interval
    from state.partitions.index.key_ranges import AccessPath
    from state.partitions.keys.column_types import PartitionColumn


_SHOWN_MAX: Final = 8
_POINT_SHARE, _CLOSED_SHARE, _OPEN_SHARE = 0.01, 0.1, 1 / 3


@dataclass(frozen=True, slots=True)
class Explanation:
    """A plan as text and numbers. ``ranges`` are hexadecimal (start, end); an empty end is the end of the table."""

    table: str
    way: str
    ranges: tuple[tuple[str, str], ...]
    residual: str
    """The condition that every key in the ranges is checked against; empty where no check is needed."""
    capped: bool
    estimated_rows: int
    """An estimate from the shape of the filter and the size of the table, for comparison."""
    scanned_rows: int
    matched_rows: int

    def text(self) -> str:
        """Return the explanation as aligned text."""
        shown = [f"  [{start or '-'}, {end or '-'})" for start, end in self.ranges[:_SHOWN_MAX]]
        more = len(self.ranges) - len(shown)
        return "\n".join(
            [
                f"table     {self.table}",
                f"read      {self.way}{', ranges merged (too many)' if self.capped else ''}",
                f"ranges    {len(self.ranges)}",
                *shown,
                *([f"  … {more} more"] if more else []),
                f"residual  {self.residual or 'none: every key in the ranges matches'}",
                f"rows      estimated {self.estimated_rows}, scanned {self.scanned_rows}, matched {self.matched_rows}",
            ]
        )


def describe_path(access: AccessPath, columns: Sequence[PartitionColumn]) -> str:
    """Describe an access path."""
    if not access.ranges:
        return "nothing: the filter can never be true"
    if access.whole_keys:
        return "gets of whole keys"
    if access.column is not None:
        return f"postings of {columns[access.column].name}"
    return "whole table" if access.ranges[0] == (b"", None) else "key ranges"


def describe_condition(condition: Condition, columns: Sequence[PartitionColumn]) -> str:
    """Return a condition as text."""
    if isinstance(condition, Leaf):
        return _leaf(condition, columns[condition.column])
    separator = " and " if isinstance(condition, AllOf) else " or "
    return "(" + separator.join(describe_condition(child, columns) for child in condition.children) + ")"


def estimate_selectivity(condition: Condition | None) -> float:
    """Estimate the share of a table that a condition selects: fixed shares, multiplied under AND and added under OR."""
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
    shown = [_interval(interval, column) for interval in leaf.intervals[:_SHOWN_MAX]]
    more = len(leaf.intervals) - len(shown)
    text = f"{column.name} in {{{', '.join(shown)}{f', … {more} more' if more else ''}}}"
    return f"({text} and like)" if leaf.like else text


def _interval(interval: Interval, column: PartitionColumn) -> str:
    if interval.is_point:
        return _edge(interval.lo, column)
    return f"[{_edge(interval.lo, column)}, {_edge(interval.hi, column)})"


def _edge(edge: bytes, column: PartitionColumn) -> str:
    """Return a bound as a value where it is one, else as bytes."""
    if edge in {VALUE, UNCONVERTIBLE, END}:
        return "-"
    try:
        value = decode(column.type, edge)
    except StateCorrupt:
        return f"0x{edge.hex()}"
    return "null" if value is None else repr(value) if isinstance(value, str) else str(value)
