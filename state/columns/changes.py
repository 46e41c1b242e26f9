"""Changes of a flat table as values, and the rules for changes of a column's type.

``evolution`` decides from these values and returns them. A type changes in one of two ways:

* *Widening* between numeric types: the metastore alters the table, and readers accept old files as they are.
  A BIGINT becomes DOUBLE only if DOUBLE represents every retained integer exactly (2^53); otherwise it
  becomes STRING.
* *Promotion to STRING*: files of the old type need rewriting first, because Spark's reader fails on filters
  over them (flat-tables-hive4.md §0, §2). A rewrite is expensive, and types narrow only on request. A
  promotion therefore needs a pin, or at least ``misfits_min`` values that no numeric type holds and a share
  above ``misfit_share_max`` of all values of the retained window. Every value of the window counts equally,
  however few values its hour has. Integers that outgrew their width do not count. The promotion is a task for
  the caller, which delays it (``promotion_delay``).

A *new* column has the type that most of its values need. By the same rule as a promotion, it becomes STRING
only if enough values do not fit; until then, they are misfits. A type that is too narrow is cheap to correct
while there are few files.

A pin limits the widening of a column. If the column is already wider than the pin, the change waits with a
reason that says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from state.columns.counts.promotion import NO_MISFITS, MisfitCounts
from state.columns.slot_codec import format_hour
from state.columns.types import ColumnType, metastore_accepts, readers_accept
from state.value_text import count_text


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from state.columns.counts.observations import KeyWindow
    from state.columns.paths import KeyPath
    from state.columns.rules import FlatRules
    from state.columns.slots import Layout, Slot
    from state.columns.types import Evidence


class ChangeKind(StrEnum):
    """The kind of a change to a slot, or to a key without a slot."""

    APPEND = "append"
    REUSE = "reuse"
    REVIVE = "revive"
    WIDEN = "widen"
    RETIRE = "retire"
    REFRESH = "refresh"
    """Only the hours in the column comments change."""
    PROMOTE = "harden"
    """A task: rewrite the retained partitions before the slot becomes STRING. The history stores the
    value."""
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
    """Slots filled in the retained partitions, according to the counts written with them."""

    partitions: int = 0
    unknown: int = 0
    """Number of partitions without counts. Unless it is 0, any slot may hold values."""
    filled: frozenset[int] = frozenset()
    """Slots with a value in some partition."""

    @classmethod
    def of(cls, counts: Iterable[Mapping[int, int] | None]) -> RetainedValues:
        """Combine the numbers of non-NULL values by slot, one mapping for each partition;
        None for a partition without counts.
        """
        every = list(counts)
        filled = (index for each in every if each is not None for index, count in each.items() if count)
        return cls(len(every), every.count(None), frozenset(filled))

    def is_empty(self, index: int) -> bool:
        """Whether no retained partition holds a value in this slot."""
        return not self.unknown and index not in self.filled


@dataclass(frozen=True, slots=True)
class Evolution:
    """The next layout and every step that leads to it.
    ``changes`` also lists tasks and waits, which alter nothing.
    """

    layout: Layout
    changes: tuple[Change, ...]

    @property
    def alters(self) -> bool:
        """Whether to alter the table."""
        return any(change.kind not in TASKS for change in self.changes)

    def of(self, *kinds: ChangeKind) -> tuple[Change, ...]:
        """Return the changes of these kinds, in order."""
        return tuple(change for change in self.changes if change.kind in kinds)


def choose_new_type(key: KeyPath, window: KeyWindow, rules: FlatRules) -> ColumnType:
    """Return the type of a new column. If most values are numbers, the type is STRING only if the other
    values would also promote an existing numeric column.
    """
    numeric, misfits = _find_numeric_type(key, window, rules)
    if key in rules.pins or numeric is None or _justifies_string(misfits, window, rules):
        return rules.type_of(key, window.evidence)
    return numeric


def is_mostly_numbers(key: KeyPath, window: KeyWindow, rules: FlatRules) -> bool:
    """Whether a numeric column would hold most values of a key without a column."""
    return _find_numeric_type(key, window, rules)[0] is not None


def decide_type_change(
    slot: Slot, window: KeyWindow, retained: RetainedValues, rules: FlatRules
) -> Change | None:
    """Decide from the observed values whether a live slot's type must change:
    WIDEN, PROMOTE, or WAIT with a reason.

    Returns None if the type fits.
    """
    assert slot.key is not None, slot
    pinned = rules.pins.get(slot.key)
    if pinned is not None:
        return _apply_pin(slot, pinned, window, retained)
    wider = _find_wider_type(slot, window, retained, rules)
    if wider is not slot.type:
        reason = f"{slot.type.hive} is too narrow: {_describe(window.evidence.numbers)}"
        return Change(ChangeKind.WIDEN, reason, slot.key, slot.index, wider)
    return _decide_promotion(slot, window, retained, rules)


def _find_numeric_type(
    key: KeyPath, window: KeyWindow, rules: FlatRules
) -> tuple[ColumnType | None, MisfitCounts]:
    """Return the numeric type that holds most values, with the values that it cannot hold; None as the type
    if no numeric type holds most.

    No type holds fractions together with integers beyond 2^53: DOUBLE is for the former, BIGINT for the
    latter.
    """
    evidence, most = window.evidence, window.kinds_max
    others = MisfitCounts(others=most.others)
    choices = [
        (evidence.numbers, others),
        (evidence.doubles, replace(others, wide_integers=most.wide_integers)),
        (replace(evidence.numbers, has_floats=False), replace(others, fractions=most.fractions)),
    ]
    numeric = [(rules.type_of(key, each), misfits) for each, misfits in choices]
    fitting = [
        (column_type, misfits)
        for column_type, misfits in numeric
        if column_type.is_numeric and 2 * misfits.total < window.total.values
    ]
    return min(fitting, key=lambda each: each[1].total, default=(None, NO_MISFITS))


def _justifies_string(misfits: MisfitCounts, window: KeyWindow, rules: FlatRules) -> bool:
    """Whether so many values do not fit that the column is STRING."""
    return misfits.total >= rules.misfits_min and misfits.total / window.total.values > rules.misfit_share_max


def _apply_pin(slot: Slot, pinned: ColumnType, window: KeyWindow, retained: RetainedValues) -> Change | None:
    target = slot.type.join(pinned)
    is_double = slot.type is ColumnType.BIGINT and target is ColumnType.DOUBLE
    if target is not pinned or (is_double and not _is_exact(slot, window, retained)):
        reason = f"pinned to {pinned.hive}, which would lose values of {slot.type.hive}"
        return Change(ChangeKind.WAIT, reason, slot.key, slot.index)
    if target is slot.type:
        return None
    kind = ChangeKind.WIDEN if _is_immediate(slot, target, retained) else ChangeKind.PROMOTE
    warning = _warn_of_lost_text(slot) if target is ColumnType.STRING else ""
    return Change(kind, f"pinned to {pinned.hive}{warning}", slot.key, slot.index, target)


def _find_wider_type(slot: Slot, window: KeyWindow, retained: RetainedValues, rules: FlatRules) -> ColumnType:
    """Return the numeric type that holds the numbers, or at least the integers;
    the slot's own type if there is none.
    """
    assert slot.key is not None, slot
    numbers = window.evidence.numbers
    for evidence in (numbers, replace(numbers, has_floats=False)):
        target = slot.type.join(rules.type_of(slot.key, evidence))
        is_double = slot.type is ColumnType.BIGINT and target is ColumnType.DOUBLE
        if is_double and not _is_exact(slot, window, retained):
            continue
        if target.is_numeric and readers_accept(slot.type, target):
            return target
    return slot.type


def _decide_promotion(
    slot: Slot, window: KeyWindow, retained: RetainedValues, rules: FlatRules
) -> Change | None:
    """Weigh the values of the whole window that no numeric type holds against all values, by their counts."""
    misfits, hours = window.misfits_beyond(slot.type)
    if not hours:
        return None
    share = misfits.total / window.total.values
    place = f"from {format_hour(hours[0])} to {format_hour(hours[-1])}"
    reason = (
        f"{misfits.total:,} of {window.total.values:,} values ({share:.4%}) do not fit {slot.type.hive}: "
        f"{misfits.describe()}, in at least {count_text(len(hours), 'hour')} {place}"
    )
    if not _justifies_string(misfits, window, rules):
        return Change(ChangeKind.WAIT, f"{reason}: too few to justify a rewrite", slot.key, slot.index)
    is_immediate = _is_immediate(slot, ColumnType.STRING, retained)
    kind = ChangeKind.WIDEN if is_immediate else ChangeKind.PROMOTE
    return Change(kind, reason + _warn_of_lost_text(slot), slot.key, slot.index, ColumnType.STRING)


def _warn_of_lost_text(slot: Slot) -> str:
    """Return a warning for a DOUBLE slot: DOUBLE does not store whether the text of a number was 7 or 7.0, so
    only the raw table still has it.
    """
    if slot.type is not ColumnType.DOUBLE:
        return ""
    return "; in hours written before the promotion, 7 reads as 7.0 until they are backfilled"


def _is_immediate(slot: Slot, target: ColumnType, retained: RetainedValues) -> bool:
    """Whether the type can change without rewriting files."""
    without_files = not retained.partitions and metastore_accepts(slot.type, target)
    return readers_accept(slot.type, target) or without_files


def _is_exact(slot: Slot, window: KeyWindow, retained: RetainedValues) -> bool:
    """Whether DOUBLE represents the 64-bit integers in old files exactly."""
    if window.evidence.least is None:
        return retained.is_empty(slot.index)
    return window.evidence.is_exact_as_double


def _describe(evidence: Evidence) -> str:
    parts = [] if evidence.least is None else [f"integers from {evidence.least} to {evidence.most}"]
    return ", ".join(parts + ["fractions"] * evidence.has_floats)
