"""A filter bound to a table: columns are numbers, constants are intervals of fields.

What is left of a comparison is "the field is in this set" and, for some LIKEs, "and its text matches". Both the ranges to
scan and the check of a single key come from this one form.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from state.partitions.filters.intervals import Intervals, contains, intersect_all, unite
from state.partitions.keys.binary_sortable import VALUE, unterminate


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from state.partitions.filters.like_pattern import LikePattern


@dataclass(frozen=True, slots=True)
class Leaf:
    """The field of one column is in the set, and its text matches ``like`` where there is one."""

    column: int
    intervals: Intervals
    like: LikePattern | None = None


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every child is true."""

    children: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One child at least is true."""

    children: tuple[Condition, ...]


Condition = Leaf | AllOf | AnyOf


def all_of(children: Iterable[Condition]) -> Condition:
    """Return the AND of children; sets of one column become one set."""
    flat = [part for child in children for part in (child.children if isinstance(child, AllOf) else (child,))]
    parts = _grouped(flat, intersect_all)
    return parts[0] if len(parts) == 1 else AllOf(tuple(parts))


def any_of(children: Iterable[Condition]) -> Condition:
    """Return the OR of children; sets of one column become one set, so that a list of values is one leaf."""
    flat = [part for child in children for part in (child.children if isinstance(child, AnyOf) else (child,))]
    parts = _grouped(flat, unite)
    return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))


def _grouped(
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


Check = Callable[[bytes], bool]
_STARTS: Final = struct.Struct(">HH")
_REMEMBERED: Final = 1 << 14


def compile_check(bound: Condition, columns: int) -> Check:
    """Return a function that tells of a key with so many columns whether its partition matches."""
    if isinstance(bound, Leaf):
        return _field_check(bound, columns)
    checks = [compile_check(child, columns) for child in bound.children]
    if len(checks) == 2:
        one, other = checks
        return (
            (lambda key: one(key) and other(key))
            if isinstance(bound, AllOf)
            else (lambda key: one(key) or other(key))
        )
    if isinstance(bound, AllOf):
        return lambda key: all(check(key) for check in checks)
    return lambda key: any(check(key) for check in checks)


def _field_check(leaf: Leaf, columns: int) -> Check:
    """Cut the field out as ``keys.field`` does, without a call for each key."""
    starts, tail, at = _STARTS.unpack_from, 2 * columns + 3, 2 * leaf.column
    if len(leaf.intervals) == 1 and leaf.like is None:
        low, high = leaf.intervals[0][:2]

        def within(key: bytes) -> bool:
            end = len(key) - tail
            start, after = starts(key, end + at)
            return low <= key[end - start : end - after] < high

        return within
    holds = _holds(leaf)

    def check(key: bytes) -> bool:
        end = len(key) - tail
        start, after = starts(key, end + at)
        return holds(key[end - start : end - after])

    return check


def _holds(leaf: Leaf) -> Callable[[bytes], bool]:
    inside = _membership(leaf)
    if leaf.like is None:
        return inside
    like = leaf.like

    # Few values make up many partitions: each text is looked at once.
    @lru_cache(maxsize=_REMEMBERED)
    def holds(field: bytes) -> bool:
        return inside(field) and like.matches(unterminate(field[len(VALUE) :]).decode(errors="surrogatepass"))

    return holds


def _membership(leaf: Leaf) -> Callable[[bytes], bool]:
    lows = [interval.lo for interval in leaf.intervals]
    highs = [interval.hi for interval in leaf.intervals]
    return lambda field: contains(lows, highs, field)
