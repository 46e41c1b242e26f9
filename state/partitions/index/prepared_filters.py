"""Filters with their table and plan, and a cache of them, because clients repeat their filters."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

from state.partitions.filters.conditions import Check, Condition
from state.partitions.filters.dialect import Dialect
from state.partitions.filters.syntax_tree import Node
from state.partitions.index.access_paths import AccessPath
from state.partitions.index.records import IndexedTable


REPLANNED_ABOVE: Final = 2, 1_024
"""The choice in the cache is made again after an answer that read more than this factor and number of keys
beyond those counted at the choice."""
_PREPARED_MAX: Final = 256
_PREPARED_CHARS_MAX: Final = 1 << 16
"""Longer filters stay out of the cache: 256 of the longest would take a gigabyte."""
PlanKey = tuple[int, str, Dialect]
"""A table's number, the text of a filter, and its dialect."""


@dataclass(frozen=True, slots=True)
class PreparedFilter:
    """A filter bound to a table and planned; valid until the table's columns change."""

    table: IndexedTable
    condition: Condition | None
    access: AccessPath
    residual: Condition | None
    """The condition to check on every key in the ranges; None if all of them match."""
    check: Check | None
    """The residual as a function of a key."""
    further: tuple[AccessPath, ...] = ()
    """Further paths, if the alternatives of the filter use different ones; a partition found on several
    counts once."""
    replan_above: int | None = None
    """If an answer reads more keys than this, the table has outgrown the choice of the path; None if there
    was no choice.
    """
    cache_key: PlanKey | None = None
    tree: Node | None = None
    """The syntax tree of a filter in text form; None for all partitions, and for other forms."""

    @property
    def paths(self) -> tuple[AccessPath, ...]:
        """All paths to read."""
        return (self.access, *self.further)


class PlanCache:
    """The planned filters of one index; thread-safe."""

    def __init__(self) -> None:
        self._plans: OrderedDict[PlanKey, PreparedFilter] = OrderedDict()

    def get(self, key: PlanKey) -> PreparedFilter | None:
        """Return the plan of a filter, None if there is none."""
        return self._plans.get(key)

    def keep(self, key: PlanKey, planned: PreparedFilter) -> PreparedFilter:
        """Keep a plan, unless its filter is too long, and return it."""
        if len(key[1]) > _PREPARED_CHARS_MAX:
            return planned
        entry = self._plans[key] = replace(planned, cache_key=key)
        if len(self._plans) > _PREPARED_MAX:
            self._plans.popitem(last=False)
        return entry

    def review(self, prepared: PreparedFilter, scanned: int) -> None:
        """Forget the plan of a filter, so that its next use plans it again, if the table has outgrown the
        choice of the path.
        """
        outgrown = prepared.replan_above is not None and scanned > prepared.replan_above
        if outgrown and prepared.cache_key is not None:
            self._plans.pop(prepared.cache_key, None)
