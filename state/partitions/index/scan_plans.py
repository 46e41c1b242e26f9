"""Scan plans: the boxes of the key space in which a filter can be true.

The counterparts of FilterPlan, ScanPlan and MultiScanPlan in Hive's own planner, as immutable values (that
planner shares parts between plans and modifies its left operand). A ScanPlan is a box: for some columns, the
set that their fields must be in. AND intersects boxes; OR collects them and merges those that fit. A plan may
be wider than its filter and records it (``is_exact``); it is never narrower. If a filter would need more than
``BOXES_MAX`` boxes, hulls of neighbouring boxes replace them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from state.partitions.filters.conditions import AllOf, Condition, Leaf
from state.partitions.filters.intervals import Intervals, intersect, unite
from state.partitions.filters.intervals import check as check_intervals


BOXES_MAX: Final = 1024
"""Large enough for the lists that clients send: a list of structs stays exact."""
FACTORS_MAX: Final = 32
"""ORs multiplied under one AND; the check of each key applies further ones, because planning would take
seconds."""


class FilterPlan(ABC):
    """The boxes in which a filter can be true."""

    @abstractmethod
    def plans(self) -> tuple[ScanPlan, ...]:
        """Return the boxes; an empty tuple if the filter can never be true."""

    @property
    def is_exact(self) -> bool:
        """Whether every key in the boxes matches the filter."""
        return all(plan.exact for plan in self.plans())

    def and_(self, other: FilterPlan) -> FilterPlan:
        """Return the plan of the AND of both filters."""
        mine, others = _limit_product(self.plans(), other.plans())
        boxes = (_intersect_boxes(one, two) for one in mine for two in others)
        return unite_boxes(plan for plan in boxes if plan is not None)

    def check(self) -> None:
        """Assert the invariants of a plan."""
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
    """One box: (column, set) pairs in the order of columns; other columns are unlimited."""

    limits: tuple[tuple[int, Intervals], ...] = ()
    exact: bool = True

    def plans(self) -> tuple[ScanPlan, ...]:
        """Return this box."""
        return (self,)

    def limit(self, column: int) -> Intervals | None:
        """Return the allowed set of a column's field, None if unlimited."""
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


def plan_filter(condition: Condition | None) -> FilterPlan:
    """Return the plan of a condition; None is the empty filter."""
    if condition is None:
        return EVERYTHING
    if isinstance(condition, Leaf):
        return (
            ScanPlan(((condition.column, condition.intervals),), condition.like is None)
            if condition.intervals
            else NOWHERE
        )
    children = [plan_filter(child) for child in condition.children]
    if isinstance(condition, AllOf):
        return _product(children)
    return unite_boxes(box for child in children for box in child.plans())


def unite_boxes(plans: Iterable[ScanPlan]) -> FilterPlan:
    """Return the union of boxes: an unlimited box replaces all others, boxes that differ in their last column
    merge.
    """
    boxes = list(dict.fromkeys(plans))
    whole = [box for box in boxes if not box.limits]
    if whole:
        return ScanPlan((), any(box.exact for box in whole))
    boxes = _merge(boxes)
    boxes = _reduce(boxes, BOXES_MAX)
    return boxes[0] if len(boxes) == 1 else MultiScanPlan(tuple(boxes))


def _product(plans: Sequence[FilterPlan]) -> FilterPlan:
    """Return the AND of plans, single boxes first to keep the products small."""
    ordered = sorted(plans, key=lambda plan: len(plan.plans()))
    singles = sum(len(plan.plans()) <= 1 for plan in ordered)
    product = reduce(FilterPlan.and_, ordered[: singles + FACTORS_MAX])
    if len(ordered) <= singles + FACTORS_MAX:
        return product
    return unite_boxes(ScanPlan(box.limits, exact=False) for box in product.plans())


def _merge(boxes: Sequence[ScanPlan]) -> list[ScanPlan]:
    groups: dict[object, list[ScanPlan]] = {}
    for box in boxes:
        last = box.limits[-1][0]
        groups.setdefault((box.limits[:-1], last, box.exact), []).append(box)
    return [_join_group(group) if len(group) > 1 else group[0] for group in groups.values()]


def _join_group(group: Sequence[ScanPlan]) -> ScanPlan:
    *others, (column, _) = group[0].limits
    return ScanPlan((*others, (column, unite(box.limits[-1][1] for box in group))), group[0].exact)


def _intersect_boxes(one: ScanPlan, other: ScanPlan) -> ScanPlan | None:
    limits = dict(one.limits)
    for column, intervals in other.limits:
        overlap = intersect(limits[column], intervals) if column in limits else intervals
        if not overlap:
            return None
        limits[column] = overlap
    return ScanPlan(tuple(sorted(limits.items())), one.exact and other.exact)


def _limit_product(
    mine: Sequence[ScanPlan], others: Sequence[ScanPlan]
) -> tuple[Sequence[ScanPlan], Sequence[ScanPlan]]:
    """Return two lists of boxes whose product stays within the limit; if necessary, the longer list gets
    fewer, larger boxes.
    """
    if len(mine) * len(others) <= BOXES_MAX:
        return mine, others
    if len(mine) >= len(others):
        return _reduce(mine, BOXES_MAX // len(others)), others
    return mine, _reduce(others, BOXES_MAX // len(mine))


def _reduce(boxes: Sequence[ScanPlan], most: int) -> list[ScanPlan]:
    """Return at most ``most`` boxes: hulls of neighbours, which add few keys to the boxes themselves."""
    if len(boxes) <= most:
        return list(boxes)
    size = -(-len(boxes) // most)
    ordered = sorted(boxes, key=_sort_key)
    return [_hull(ordered[at : at + size]) for at in range(0, len(ordered), size)]


def _sort_key(box: ScanPlan) -> tuple[tuple[int, ...], tuple[bytes, ...]]:
    """Sort boxes with the same columns together, in the order of their keys."""
    return tuple(column for column, _ in box.limits), tuple(intervals[0].lo for _, intervals in box.limits)


def _hull(boxes: Sequence[ScanPlan]) -> ScanPlan:
    """Return one box around all boxes: for each column that all of them limit, the union of the sets."""
    common = set.intersection(*({column for column, _ in box.limits} for box in boxes))
    maps = [dict(box.limits) for box in boxes]
    limits = tuple((column, unite(limit[column] for limit in maps)) for column in sorted(common))
    return ScanPlan(limits, exact=False)
