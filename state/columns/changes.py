"""Changes of a flat table as values, and the rules for changes of a column's type.

``evolution`` decides from these values and returns them. A type changes in one of two ways:

* *Widening* between numeric types: the metastore alters the table, and readers accept old files as they are. A BIGINT becomes DOUBLE
  only if DOUBLE represents every retained integer exactly (2^53); otherwise it becomes STRING.
* *Promotion to STRING*: files of the old type must be rewritten first, because Spark's reader fails on filters over them
  (flat-tables-hive4.md §0-§2). A rewrite is expensive. It therefore needs more than a few values that do not fit, or a pin, and is a
  task for the caller.

A column is never widened beyond its pin. If the column is already wider than the pin, the change waits with a reason that says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from state.columns.types import DOUBLE_EXACT_MAX, ColumnType, metastore_accepts, readers_accept


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from state.columns.observations import KeyWindow
    from state.columns.paths import KeyPath
    from state.columns.rules import FlatRules
    from state.columns.slots import Layout, Slot


class ChangeKind(StrEnum):
    """What happens to a slot, or to a key without one."""

    APPEND = "append"
    REUSE = "reuse"
    REVIVE = "revive"
    WIDEN = "widen"
    RETIRE = "retire"
    REFRESH = "refresh"
    """Only the hours in the column comments change."""
    PROMOTE = "harden"
    """A task: the retained partitions must be rewritten before the slot can become STRING. The value is stored in the history."""
    WAIT = "wait"
    """The key does not get a column yet, or its column does not get the type yet."""


TASKS: Final = frozenset({ChangeKind.PROMOTE, ChangeKind.WAIT})


@dataclass(frozen=True, slots=True)
class Change:
    """One step, as shown by ``tideline split plan`` and kept in the history."""

    kind: ChangeKind
    reason: str
    key: KeyPath | None = None
    index: int | None = None
    type: ColumnType | None = None
    """The type that the slot gets."""


@dataclass(frozen=True, slots=True)
class RetainedValues:
    """Which slots the retained partitions fill, according to the counts that were written with them."""

    partitions: int = 0
    unknown: int = 0
    """Number of partitions without counts. While there is one, no slot is known to be empty."""
    filled: frozenset[int] = frozenset()
    """Slots with a value in some partition."""

    @classmethod
    def of(cls, counts: Iterable[Mapping[int, int] | None]) -> RetainedValues:
        """Combine the numbers of non-NULL values by slot, one mapping for each partition; None for a partition without counts."""
        every = list(counts)
        filled = (index for each in every if each is not None for index, count in each.items() if count)
        return cls(len(every), every.count(None), frozenset(filled))

    def is_empty(self, index: int) -> bool:
        """Whether no retained partition holds a value in this slot."""
        return not self.unknown and index not in self.filled


@dataclass(frozen=True, slots=True)
class Evolution:
    """The next layout and every step that leads to it. ``changes`` also lists tasks and waits, which alter nothing."""

    layout: Layout
    changes: tuple[Change, ...]

    @property
    def alters(self) -> bool:
        """Whether the table must be altered."""
        return any(change.kind not in TASKS for change in self.changes)

    def of(self, *kinds: ChangeKind) -> tuple[Change, ...]:
        """Return the changes of these kinds, in order."""
        return tuple(change for change in self.changes if change.kind in kinds)


def decide_type_change(
    slot: Slot, window: KeyWindow, retained: RetainedValues, rules: FlatRules
) -> Change | None:
    """Decide from the observed values whether a live slot's type must change: WIDEN, PROMOTE, or WAIT with a reason.

    Returns None if the type fits.
    """
    assert slot.key is not None, slot
    needed = rules.type_of(slot.key, window.evidence)
    target = slot.type.join(needed)
    is_pinned = slot.key in rules.pins
    if (
        target is ColumnType.DOUBLE
        and slot.type is ColumnType.BIGINT
        and not _is_exact(slot, window, retained)
    ):
        target = ColumnType.STRING
    if is_pinned and target is not needed:
        reason = f"pinned to {needed.hive}, which would lose values of {slot.type.hive}"
        return Change(ChangeKind.WAIT, reason, slot.key, slot.index)
    if target is slot.type:
        return None
    if readers_accept(slot.type, target) or (
        not retained.partitions and metastore_accepts(slot.type, target)
    ):
        reason = f"{slot.type.hive} is too narrow: {_describe(window)}"
        return Change(ChangeKind.WIDEN, reason, slot.key, slot.index, target)
    return _promotion(slot, window, rules, is_pinned=is_pinned)


def _promotion(slot: Slot, window: KeyWindow, rules: FlatRules, *, is_pinned: bool) -> Change:
    share = window.misfit_share_max
    reason = f"{share:.4%} of an hour's values did not fit {slot.type.hive}"
    if is_pinned:
        reason = f"pinned to {ColumnType.STRING.hive}"
    elif share <= rules.misfit_share_max:
        return Change(ChangeKind.WAIT, f"{reason}: too few to justify a rewrite", slot.key, slot.index)
    return Change(ChangeKind.PROMOTE, reason, slot.key, slot.index, ColumnType.STRING)


def _is_exact(slot: Slot, window: KeyWindow, retained: RetainedValues) -> bool:
    """Whether DOUBLE is known to represent the 64-bit integers in old files exactly."""
    least, most = window.evidence.least, window.evidence.most
    if least is None or most is None:
        return retained.is_empty(slot.index)
    return least >= -DOUBLE_EXACT_MAX and most <= DOUBLE_EXACT_MAX


def _describe(window: KeyWindow) -> str:
    evidence = window.evidence
    parts = [] if evidence.least is None else [f"integers from {evidence.least} to {evidence.most}"]
    parts += ["fractions"] * evidence.has_floats + ["true or false"] * evidence.has_booleans
    return ", ".join(parts + ["text"] * evidence.has_text)
