"""Which layouts may follow which.

The metastore checks types by position and otherwise accepts changes after which readers return wrong values: swapped columns of
one type, a dropped last column (reference: flat-tables-hive4.md §2, §3). So the rules stand here:

* slots are only ever appended; none moves, none goes;
* a slot takes another key only where no retained file holds a value in it, since Hive gives the old key's values under
  the new name;
* a type grows by itself among numbers; into STRING only once the retained files are rewritten, since Spark's reader fails on
  pushed filters; never back, and never out of BOOLEAN, which the metastore refuses. A slot that is proven empty
  still takes only what the metastore lets its type become.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.columns.types import metastore_accepts, readers_accept
from state.errors import InvalidRequest


if TYPE_CHECKING:
    from collections.abc import Collection

    from state.columns.slots import Layout, Slot


def check_successor(old: Layout, new: Layout, proven: Collection[int]) -> None:
    """Raise InvalidRequest unless ``new`` may replace ``old``.

    ``proven`` holds the indexes of slots whose retained files were looked at: they hold no value there, or were rewritten in
    the new type.
    """
    new.check()
    if new.version <= old.version:
        raise InvalidRequest("a changed layout needs a higher version", old=old.version, new=new.version)
    if len(new.slots) < len(old.slots):
        raise InvalidRequest("slots are never dropped", old=len(old.slots), new=len(new.slots))
    for before, after in zip(old.slots, new.slots, strict=False):
        _check_slot(before, after, proven=before.index in proven)


def _check_slot(before: Slot, after: Slot, *, proven: bool) -> None:
    if not metastore_accepts(before.type, after.type):
        _refuse("the metastore does not let a column's type change so", before, after)
    if not proven and not readers_accept(before.type, after.type):
        _refuse("a type may become STRING only when the retained files are rewritten", before, after)
    if not proven and (before.key, before.name) != (after.key, after.name):
        _refuse("a slot may take another key only when no retained file holds a value in it", before, after)


def _refuse(reason: str, before: Slot, after: Slot) -> None:
    raise InvalidRequest(
        reason,
        slot=before.index,
        column=before.name,
        type=before.type.name,
        new_column=after.name,
        new_type=after.type.name,
    )
