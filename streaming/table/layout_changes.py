"""Rules for changing a layout: which layout may replace which.

The metastore compares types by position and otherwise accepts changes after which readers return wrong values, for example two
swapped columns of the same type or a dropped last column (reference: flat-tables-hive4.md §2, §3). These rules prevent that:

* Slots are only appended. A slot never moves and is never removed.
* A slot may take another key only if no retained file holds a value in it; otherwise Hive returns the old key's values under the
  new name.
* Numeric types widen freely. A type becomes STRING only after the retained files are rewritten, because Spark's reader fails on
  pushed-down filters. A BOOLEAN never changes, because the metastore refuses it. This also holds for a slot that is proven empty.
* A type narrows only from STRING to a number, and only on request (``streaming.upkeep.narrowing``): every value was found to fit, and
  every file holds text that readers convert.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.columns.types import ColumnType, metastore_accepts, readers_accept
from state.errors import InvalidRequest


if TYPE_CHECKING:
    from collections.abc import Collection

    from state.columns.slots.slots import Layout, Slot


def check_successor(
    old: Layout, new: Layout, proven: Collection[int], narrowed: Collection[int] = ()
) -> None:
    """Raise InvalidRequest unless ``new`` may replace ``old``.

    ``proven`` holds the indexes of slots whose retained files were inspected: these files hold no value in the slot, or were
    rewritten with the new type. ``narrowed`` holds the indexes of STRING slots whose values all fit a number.
    """
    new.check()
    if new.version <= old.version:
        raise InvalidRequest("a changed layout must have a higher version", old=old.version, new=new.version)
    if len(new.slots) < len(old.slots):
        raise InvalidRequest("slots must not be dropped", old=len(old.slots), new=len(new.slots))
    for before, after in zip(old.slots, new.slots, strict=False):
        if before.index in narrowed:
            _check_narrowed(before, after)
        else:
            _check_slot(before, after, proven=before.index in proven)


def _check_narrowed(before: Slot, after: Slot) -> None:
    if before.type is not ColumnType.STRING or not after.type.is_numeric:
        _refuse("only a STRING column may be narrowed, and only to a number", before, after)
    if (before.key, before.name) != (after.key, after.name):
        _refuse("a slot that is narrowed must keep its key", before, after)


def _check_slot(before: Slot, after: Slot, *, proven: bool) -> None:
    if not metastore_accepts(before.type, after.type):
        _refuse("the metastore does not allow this change of a column's type", before, after)
    if not proven and not readers_accept(before.type, after.type):
        _refuse("a type may become STRING only after the retained files are rewritten", before, after)
    if not proven and (before.key, before.name) != (after.key, after.name):
        _refuse("a slot may take another key only if no retained file holds a value in it", before, after)


def _refuse(reason: str, before: Slot, after: Slot) -> None:
    raise InvalidRequest(
        reason,
        slot=before.index,
        column=before.name,
        type=before.type.name,
        new_column=after.name,
        new_type=after.type.name,
    )
