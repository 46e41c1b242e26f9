"""Changes of a table, as values: what ``evolution`` decides from, and what it returns."""

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
    """Only the hours in comments change."""
    PROMOTE = "harden"
    """A task: retained partitions have to be rewritten before the slot can become text."""
    WAIT = "wait"
    """The key gets no column yet, or its column not the type."""


TASKS: Final = frozenset({ChangeKind.PROMOTE, ChangeKind.WAIT})


@dataclass(frozen=True, slots=True)
class Change:
    """One step, as ``plan`` shows it and the history keeps it."""

    kind: ChangeKind
    reason: str
    key: KeyPath | None = None
    index: int | None = None
    type: ColumnType | None = None
    """The type that the slot gets."""


@dataclass(frozen=True, slots=True)
class RetainedValues:
    """What the kept partitions hold, by the counts that were written with them."""

    partitions: int = 0
    unknown: int = 0
    """Partitions without counts: no slot is known to be empty while there is one."""
    filled: frozenset[int] = frozenset()
    """Slots with a value in some partition."""

    @classmethod
    def of(cls, counts: Iterable[Mapping[int, int] | None]) -> RetainedValues:
        """Fold each partition's non-NULL values by slot, slots without left out; None where a partition has no counts."""
        every = list(counts)
        filled = (index for each in every if each is not None for index, count in each.items() if count)
        return cls(len(every), every.count(None), frozenset(filled))

    def is_empty(self, index: int) -> bool:
        """Whether no kept partition holds a value in this slot."""
        return not self.unknown and index not in self.filled


@dataclass(frozen=True, slots=True)
class Evolution:
    """The layout that follows, and every step to it; tasks and waits are in ``changes`` too but alter nothing."""

    layout: Layout
    changes: tuple[Change, ...]

    @property
    def alters(self) -> bool:
        """Whether the table has to be altered."""
        return any(change.kind not in TASKS for change in self.changes)

    def of(self, *kinds: ChangeKind) -> tuple[Change, ...]:
        """The changes of these kinds, in order."""
        return tuple(change for change in self.changes if change.kind in kinds)


def decide_type_change(
    slot: Slot, window: KeyWindow, retained: RetainedValues, rules: FlatRules
) -> Change | None:
    """Return what becomes of a live slot's type, by what was seen: WIDEN, HARDEN, WAIT with a reason; None where it fits."""
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
        reason = f"{slot.type.hive} is too narrow: {_shown(window)}"
        return Change(ChangeKind.WIDEN, reason, slot.key, slot.index, target)
    return _hard(slot, window, rules, is_pinned=is_pinned)


def _hard(slot: Slot, window: KeyWindow, rules: FlatRules, *, is_pinned: bool) -> Change:
    share = window.misfit_share_max
    reason = f"{share:.4%} of an hour's values did not fit {slot.type.hive}"
    if is_pinned:
        reason = f"pinned to {ColumnType.STRING.hive}"
    elif share <= rules.misfit_share_max:
        return Change(ChangeKind.WAIT, f"{reason}: too few to rewrite for", slot.key, slot.index)
    return Change(ChangeKind.PROMOTE, reason, slot.key, slot.index, ColumnType.STRING)


def _is_exact(slot: Slot, window: KeyWindow, retained: RetainedValues) -> bool:
    """Whether the 64-bit integers in old files are known to be DOUBLEs too."""
    least, most = window.evidence.least, window.evidence.most
    if least is None or most is None:
        return retained.is_empty(slot.index)
    return least >= -DOUBLE_EXACT_MAX and most <= DOUBLE_EXACT_MAX


def _shown(window: KeyWindow) -> str:
    evidence = window.evidence
    parts = [] if evidence.least is None else [f"integers from {evidence.least} to {evidence.most}"]
    parts += ["fractions"] * evidence.has_floats + ["true or false"] * evidence.has_booleans
    return ", ".join(parts + ["text"] * evidence.has_text)
