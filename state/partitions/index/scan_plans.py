"""Plans: which boxes of the key space a filter can be true in.

The seed's FilterPlan, ScanPlan and MultiScanPlan, as values that nothing changes (Hive's own shared its parts and changed
its left operand). A ScanPlan is a box: for some columns, the set their fields have to be in. AND intersects, OR unites and
merges what fits. A plan may be wider than its filter and says so (``is_exact``); it is never narrower. When a filter would
become more than ``BOXES_MAX`` boxes, the hull takes their place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from state.partitions.filters.conditions import AllOf, Condition, Leaf
from state.partitions.filters.intervals import Intervals, intersect
from state.partitions.filters.intervals import check as check_intervals
from state.partitions.filters.intervals import unite as unite_intervals


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


BOXES_MAX: Final = 1024
"""As many as the values of a list that clients send, so that a list of structs stays exact."""
FACTORS_MAX: Final = 32
"""Alternatives that are multiplied under one AND; more are left to the check of each key, or planning would take seconds."""


class FilterPlan(ABC):
    """Where a filter can be true."""

    @abstractmethod
    def plans(self) -> tuple[ScanPlan, ...]:
        """Return the boxes; none where the filter can never be true."""

    @property
    def is_exact(self) -> bool:
        """Whether everything inside matches the filter."""
        return all(plan.exact for plan in self.plans())

    def and_(self, other: FilterPlan) -> FilterPlan:
        """Return where both can be true."""
        mine, others = _within_cap(self.plans(), other.plans())
        met = (_meet(one, two) for one in mine for two in others)
        return unite(plan for plan in met if plan is not None)

    def or_(self, other: FilterPlan) -> FilterPlan:
        """Return where one of them can be true."""
        return unite([*self.plans(), *other.plans()])

    def check(self) -> None:
        """Assert what this module promises of every plan."""
        assert len(self.plans()) <= BOXES_MAX, len(self.plans())
        for plan in self.plans():
            assert [column for column, _ in plan.limits] == sorted({column for column, _ in plan.limits}), (
                plan
            )
            for _, intervals in plan.limits:
                assert intervals, plan
                check_intervals(intervals)


@dataclass(frozen=True, slots=True)
class ScanPlan(FilterPlan):
    """One box: (column, set) pairs in the order of columns; a column that is not named may be anything."""

    limits: tuple[tuple[int, Intervals], ...] = ()
    exact: bool = True

    def plans(self) -> tuple[ScanPlan, ...]:
        """Return itself."""
        return (self,)

    def limit(self, column: int) -> Intervals | None:
        """Return the set that a column's field has to be in, None where it may be anything."""
        return next((intervals for number, intervals in self.limits if number == column), None)


@dataclass(frozen=True, slots=True)
class MultiScanPlan(FilterPlan):
    """Several boxes, or none."""

    boxes: tuple[ScanPlan, ...] = ()

    def plans(self) -> tuple[ScanPlan, ...]:
        """Return the boxes."""
        return self.boxes


EVERYTHING: Final = ScanPlan()
NOWHERE: Final = MultiScanPlan()


def plan_filter(bound: Condition | None) -> FilterPlan:
    """Return where a bound filter can be true; None is the empty filter."""
    if bound is None:
        return EVERYTHING
    if isinstance(bound, Leaf):
        return (
            ScanPlan(((bound.column, bound.intervals),), bound.like is None) if bound.intervals else NOWHERE
        )
    children = [plan_filter(child) for child in bound.children]
    if isinstance(bound, AllOf):
        return _product(children)
    return unite(box for child in children for box in child.plans())


def unite(plans: Iterable[ScanPlan]) -> FilterPlan:
    """Return the union of boxes: whole scans swallow the rest, boxes that differ in their last column become one."""
    boxes = list(dict.fromkeys(plans))
    whole = [box for box in boxes if not box.limits]
    if whole:
        return ScanPlan((), any(box.exact for box in whole))
    boxes = _merged(boxes)
    if len(boxes) > BOXES_MAX:
        boxes = [_hull(boxes)]
    return boxes[0] if len(boxes) == 1 else MultiScanPlan(tuple(boxes))


def _product(plans: Sequence[FilterPlan]) -> FilterPlan:
    """Return the AND of plans: single boxes first, which keep the products small."""
    ordered = sorted(plans, key=lambda plan: len(plan.plans()))
    singles = sum(len(plan.plans()) <= 1 for plan in ordered)
    met = reduce(FilterPlan.and_, ordered[: singles + FACTORS_MAX])
    if len(ordered) <= singles + FACTORS_MAX:
        return met
    return unite(ScanPlan(box.limits, exact=False) for box in met.plans())


def _merged(boxes: Sequence[ScanPlan]) -> list[ScanPlan]:
    groups: dict[object, list[ScanPlan]] = {}
    for box in boxes:
        last = box.limits[-1][0]
        groups.setdefault((box.limits[:-1], last, box.exact), []).append(box)
    return [_joined(group) if len(group) > 1 else group[0] for group in groups.values()]


def _joined(group: Sequence[ScanPlan]) -> ScanPlan:
    *others, (column, _) = group[0].limits
    return ScanPlan((*others, (column, unite_intervals(box.limits[-1][1] for box in group))), group[0].exact)


def _meet(one: ScanPlan, other: ScanPlan) -> ScanPlan | None:
    limits = dict(one.limits)
    for column, intervals in other.limits:
        met = intersect(limits[column], intervals) if column in limits else intervals
        if not met:
            return None
        limits[column] = met
    return ScanPlan(tuple(sorted(limits.items())), one.exact and other.exact)


def _within_cap(
    mine: Sequence[ScanPlan], others: Sequence[ScanPlan]
) -> tuple[Sequence[ScanPlan], Sequence[ScanPlan]]:
    """Return two lists of boxes whose product stays below the cap, the longer one as its hull where it would not."""
    if len(mine) * len(others) <= BOXES_MAX:
        return mine, others
    return ([_hull(mine)], others) if len(mine) >= len(others) else (mine, [_hull(others)])


def _hull(boxes: Sequence[ScanPlan]) -> ScanPlan:
    """Return one box around all: per column that every box limits, the union of the sets."""
    shared = set.intersection(*({column for column, _ in box.limits} for box in boxes))
    maps = [dict(box.limits) for box in boxes]
    limits = tuple((column, unite_intervals(limit[column] for limit in maps)) for column in sorted(shared))
    return ScanPlan(limits, exact=False)
