"""Whether a column's type has to become wider, and how: at once, after a rewrite, or not by itself.

* *Soft*: between numbers the metastore alters the table and readers take old files as they are. A BIGINT becomes a DOUBLE only where
  every retained integer is one exactly (2^53), else text.
* *Hard*: into text, files of the old type have to be rewritten first, or Spark's reader fails on filters over them
  (flat-tables-hive4.md §0-§2). That costs, so it takes more than a few values that do not fit, or a decision of people; it is a task.
* A pin is never widened past: where the column is wider already, people have to know that the pin would lose values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.columns.changes import Change, ChangeKind
from state.columns.types import DOUBLE_EXACT_MAX, ColumnType, is_soft, metastore_takes


if TYPE_CHECKING:
    from state.columns.changes import Retained
    from state.columns.observations import KeyWindow
    from state.columns.rules import FlatRules
    from state.columns.slots import Slot


def widening(slot: Slot, window: KeyWindow, retained: Retained, rules: FlatRules) -> Change | None:
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
    if is_soft(slot.type, target) or (not retained.partitions and metastore_takes(slot.type, target)):
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
    return Change(ChangeKind.HARDEN, reason, slot.key, slot.index, ColumnType.STRING)


def _is_exact(slot: Slot, window: KeyWindow, retained: Retained) -> bool:
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
