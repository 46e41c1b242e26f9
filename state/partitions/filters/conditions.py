"""Conditions: a filter bound to a table's columns, and the check of a single key against it.

Columns are numbers and constants are intervals of fields. A comparison is "the field is in this set" and, for
some LIKE patterns, "and its text matches". The ranges to scan (``index.scan_plans``) and the check of a
single key both come from this form.

The check works on the bytes of a key: it cuts out fields and compares them, and decodes nothing. Only a LIKE
pattern that is more than a prefix needs the text.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from state.partitions.filters.intervals import Intervals, contains, intersect_all, unite
from state.partitions.filters.like_pattern import LikePattern
from state.partitions.keys.binary_sortable import VALUE, unterminate


Check = Callable[[bytes], bool]
_STARTS: Final = struct.Struct(">HH")
_CACHED_FIELDS_MAX: Final = 1 << 14
_DISPATCHED_MIN: Final = 8
"""Number of alternatives with a value in one column above which a look-up by this value is faster."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """True if a column's field is in the set and, if ``like`` is given, its text matches."""

    column: int
    intervals: Intervals
    like: LikePattern | None = None


@dataclass(frozen=True, slots=True)
class AllOf:
    """True if every child is true."""

    children: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True if at least one child is true."""

    children: tuple[Condition, ...]


Condition = Leaf | AllOf | AnyOf


def all_of(children: Iterable[Condition]) -> Condition:
    """Return the AND of children, with one set for each column."""
    flat = [part for child in children for part in (child.children if isinstance(child, AllOf) else (child,))]
    parts = _merge_sets(flat, intersect_all)
    return parts[0] if len(parts) == 1 else AllOf(tuple(parts))


def any_of(children: Iterable[Condition]) -> Condition:
    """Return the OR of children, with one set for each column: a list of values is one leaf."""
    flat = [part for child in children for part in (child.children if isinstance(child, AnyOf) else (child,))]
    parts = _merge_sets(flat, unite)
    return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))


def _merge_sets(
    children: Sequence[Condition], join: Callable[[Sequence[Intervals]], Intervals]
) -> list[Condition]:
    sets: dict[int, list[Intervals]] = {}
    others: list[Condition] = []
    for child in children:
        if isinstance(child, Leaf) and child.like is None:
            sets.setdefault(child.column, []).append(child.intervals)
        else:
            others.append(child)
    return [Leaf(column, join(found)) for column, found in sorted(sets.items())] + others


def compile_check(condition: Condition, columns: int) -> Check:
    """Return a function that checks a key with this number of columns."""
    if isinstance(condition, Leaf):
        return _compile_leaf(condition, columns)
    if isinstance(condition, AnyOf) and len(condition.children) >= _DISPATCHED_MIN:
        dispatch = _compile_dispatch(condition, columns)
        if dispatch is not None:
            return dispatch
    checks = [compile_check(child, columns) for child in condition.children]
    if len(checks) == 2:
        one, other = checks
        return (
            (lambda key: one(key) and other(key))
            if isinstance(condition, AllOf)
            else (lambda key: one(key) or other(key))
        )
    stops_at = isinstance(condition, AnyOf)

    def check_each(key: bytes) -> bool:
        # SIM110: any() and all() need a second frame for each level of the filter
        for check in checks:  # noqa: SIM110
            if check(key) is stops_at:
                return stops_at
        return not stops_at

    return check_each


def _compile_dispatch(condition: AnyOf, columns: int) -> Check | None:
    """Return a check that evaluates only the alternatives of the key's own value in one column;
    None if no column has values.

    ``(a = 1 and b = 2) or (a = 3 and b = 4) or ..``, the form of a list of structs, costs one look-up instead
    of one evaluation for each struct.
    """
    values = [_find_values(child) for child in condition.children]
    counts = Counter(column for found in values for column in found)
    column, count = counts.most_common(1)[0] if counts else (0, 0)
    if count < _DISPATCHED_MIN:
        return None
    groups: dict[bytes, list[Condition]] = {}
    others: list[Condition] = []
    for child, found in zip(condition.children, values, strict=True):
        if column in found:
            groups.setdefault(found[column].intervals[0].lo, []).append(_drop(child, found[column]))
        else:
            others.append(child)
    by_field = {field: compile_check(any_of(group), columns) for field, group in groups.items()}
    rest = compile_check(any_of(others), columns) if others else None
    starts, tail, at = _STARTS.unpack_from, 2 * columns + 3, 2 * column

    def check(key: bytes) -> bool:
        end = len(key) - tail
        start, after = starts(key, end + at)
        chosen = by_field.get(key[end - start : end - after])
        return (chosen is not None and chosen(key)) or (rest is not None and rest(key))

    return check


def _find_values(condition: Condition) -> dict[int, Leaf]:
    """Return the parts of a condition that limit a column to one value, by column.

    Leaves out limits to several values, because the rest of the condition would need compiling for each
    value.
    """
    parts = condition.children if isinstance(condition, AllOf) else (condition,)
    return {
        part.column: part
        for part in parts
        if isinstance(part, Leaf)
        and part.like is None
        and len(part.intervals) == 1
        and part.intervals[0].is_point
    }


def _drop(condition: Condition, known: Leaf) -> Condition:
    """Return the rest of the condition, given that ``known``, a part of it, is true."""
    parts = condition.children if isinstance(condition, AllOf) else (condition,)
    rest = [part for part in parts if part is not known]
    return all_of(rest) if rest else AllOf(())


def _compile_leaf(leaf: Leaf, columns: int) -> Check:
    """Cut out the field as ``partition_key.field`` does, inlined to save a call for each key."""
    starts, tail, at = _STARTS.unpack_from, 2 * columns + 3, 2 * leaf.column
    if len(leaf.intervals) == 1 and leaf.like is None:
        low, high = leaf.intervals[0][:2]

        def within(key: bytes) -> bool:
            end = len(key) - tail
            start, after = starts(key, end + at)
            return low <= key[end - start : end - after] < high

        return within
    matches = _compile_match(leaf)

    def check(key: bytes) -> bool:
        end = len(key) - tail
        start, after = starts(key, end + at)
        return matches(key[end - start : end - after])

    return check


def _compile_match(leaf: Leaf) -> Callable[[bytes], bool]:
    inside = _compile_membership(leaf)
    if leaf.like is None:
        return inside
    like = leaf.like

    # Many partitions share few values: match each text once.
    @lru_cache(maxsize=_CACHED_FIELDS_MAX)
    def matches(field: bytes) -> bool:
        return inside(field) and like.matches(unterminate(field[len(VALUE) :]).decode(errors="surrogatepass"))

    return matches


def _compile_membership(leaf: Leaf) -> Callable[[bytes], bool]:
    lows = [interval.lo for interval in leaf.intervals]
    highs = [interval.hi for interval in leaf.intervals]
    return lambda field: contains(lows, highs, field)
