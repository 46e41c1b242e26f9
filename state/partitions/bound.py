"""A filter bound to a table: columns are numbers, constants are intervals of fields.

What is left of a comparison is "the field is in this set" and, for some LIKEs, "and its text matches". Both the ranges to
scan and the check of a single key come from this one form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from state.partitions.intervals import Intervals, meet_all, union


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from state.partitions.like import Like


@dataclass(frozen=True, slots=True)
class Leaf:
    """The field of one column is in the set, and its text matches ``like`` where there is one."""

    column: int
    intervals: Intervals
    like: Like | None = None


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every child is true."""

    children: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One child at least is true."""

    children: tuple[Bound, ...]


Bound = Leaf | AllOf | AnyOf


def all_of(children: Iterable[Bound]) -> Bound:
    """Return the AND of children; sets of one column become one set."""
    flat = [part for child in children for part in (child.children if isinstance(child, AllOf) else (child,))]
    parts = _grouped(flat, meet_all)
    return parts[0] if len(parts) == 1 else AllOf(tuple(parts))


def any_of(children: Iterable[Bound]) -> Bound:
    """Return the OR of children; sets of one column become one set, so that a list of values is one leaf."""
    flat = [part for child in children for part in (child.children if isinstance(child, AnyOf) else (child,))]
    parts = _grouped(flat, union)
    return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))


def _grouped(children: Sequence[Bound], join: Callable[[Sequence[Intervals]], Intervals]) -> list[Bound]:
    sets: dict[int, list[Intervals]] = {}
    others: list[Bound] = []
    for child in children:
        if isinstance(child, Leaf) and child.like is None:
            sets.setdefault(child.column, []).append(child.intervals)
        else:
            others.append(child)
    return [Leaf(column, join(found)) for column, found in sorted(sets.items())] + others
