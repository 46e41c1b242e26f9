"""Slots: the columns of a flat table by position.

Hive reads ORC columns by position and Spark reads them by name. Both are right only if the columns of every
file are a prefix of the table's columns, in the table's order (flat-tables-hive4.md §0). Slots are therefore
only appended. Only the key of a slot may change, and its type within the limits of the readers. Slot 0 is
``_rescued``: the raw text of rows with a value that did not fit; nothing is lost.

Layouts are immutable values: a changed layout is a new one with a higher version. The metastore compares
types by position and otherwise accepts changes after which readers return wrong values, for example two
swapped columns of the same type or a dropped last column (flat-tables-hive4.md §2, §3). ``check_successor``
prevents that:

* A slot never moves and never goes away.
* A slot may take another key only if no retained file holds a value in it; otherwise Hive returns the old
  key's values under the new name.
* Numeric types widen freely. A type becomes STRING only after the rewrite of the retained files, because
  Spark's reader fails on pushed-down filters. A BOOLEAN never changes, because the metastore refuses it. This
  also holds for a slot that is proven empty.
* A type narrows only from STRING to a number, and only on request: every value fits, and every file holds
  text that readers convert.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from state.columns.names import fold_case
from state.columns.paths import KeyPath
from state.columns.types import ColumnType, metastore_accepts, readers_accept
from state.errors import InvalidRequest


RESCUED: Final = "_rescued"
SLOTS_MAX: Final = 1_500
HOUR_S: Final = 3_600


class SlotState(StrEnum):
    """The current use of a slot."""

    LIVE = "live"
    """The slot holds its key."""
    EMPTY = "empty"
    """The slot's key is no longer requested or has no values. The column contains NULL, and the slot becomes
    free when no file holds a value.
    """
    RESERVED = "reserved"
    """The slot ``_rescued``, which holds no key."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One column. Hours are seconds since 1970, multiples of 3,600; None before the first value."""

    index: int
    name: str
    key: KeyPath | None
    """None for a reserved slot."""
    type: ColumnType
    first_seen_hour: int | None = None
    last_seen_hour: int | None = None
    state: SlotState = SlotState.LIVE
    former_name: str | None = None
    """The name before the slot's last reuse. Retained files may still use it, so no other slot may take
    it."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The slots of a table in order, with a version that grows with every change."""

    version: int
    slots: tuple[Slot, ...]

    @classmethod
    def new(cls) -> Layout:
        """Return the initial layout of a table: ``_rescued`` alone."""
        return cls(1, (Slot(0, RESCUED, None, ColumnType.STRING, state=SlotState.RESERVED),))

    @property
    def live(self) -> tuple[Slot, ...]:
        """The slots that hold a key, in order."""
        return tuple(slot for slot in self.slots if slot.state is SlotState.LIVE)

    @property
    def by_key(self) -> Mapping[KeyPath, Slot]:
        """The live slots by their keys."""
        return {slot.key: slot for slot in self.live if slot.key is not None}

    @property
    def names(self) -> frozenset[str]:
        """Every column name that files of this table may use."""
        former = (slot.former_name for slot in self.slots if slot.former_name is not None)
        return frozenset(former).union(slot.name for slot in self.slots)

    def with_slot(self, slot: Slot) -> Layout:
        """Return the layout with ``slot`` replaced or appended. The caller raises the version."""
        assert slot.index <= len(self.slots), (slot, len(self.slots))
        slots = [*self.slots[: slot.index], slot, *self.slots[slot.index + 1 :]]
        return replace(self, slots=tuple(slots))

    def check(self) -> None:
        """Assert correct positions, distinct names, one slot for each key,
        a type for each slot, and ``_rescued`` first.
        """
        assert self.version >= 1, self.version
        assert self.slots, "a table must have a first column"
        assert self.slots[0] == Slot(0, RESCUED, None, ColumnType.STRING, state=SlotState.RESERVED), (
            self.slots[0]
        )
        assert [slot.index for slot in self.slots] == list(range(len(self.slots)))
        assert len(self.slots) <= SLOTS_MAX, len(self.slots)
        names = [slot.name for slot in self.slots]
        assert len(set(map(fold_case, names))) == len(names), "two slots have the same name"
        keys = [slot.key for slot in self.slots]
        assert len(set(keys)) == len(keys), "two slots have the same key"
        for slot in self.slots[1:]:
            assert slot.key is not None, slot
            assert slot.type is not ColumnType.NULL, slot
            assert slot.state is not SlotState.RESERVED, slot
            assert (slot.first_seen_hour is None) == (slot.last_seen_hour is None), slot


def check_successor(
    old: Layout, new: Layout, proven: Collection[int], narrowed: Collection[int] = ()
) -> None:
    """Raise InvalidRequest unless ``new`` may replace ``old``.

    ``proven`` holds the indexes of slots with inspected retained files: these files hold no value in the
    slot, or have the new type. ``narrowed`` holds the indexes of STRING slots whose values all fit a number.
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
        _refuse("a narrowed slot must keep its key", before, after)


def _check_slot(before: Slot, after: Slot, *, proven: bool) -> None:
    if not metastore_accepts(before.type, after.type):
        _refuse("the metastore does not allow this change of a column's type", before, after)
    if not proven and not readers_accept(before.type, after.type):
        _refuse("a type may become STRING only after the retained files are rewritten", before, after)
    if not proven and (before.key, before.name) != (after.key, after.name):
        _refuse("a slot may take another key only if no retained file contains a value in it", before, after)


def _refuse(reason: str, before: Slot, after: Slot) -> None:
    raise InvalidRequest(
        reason,
        slot=before.index,
        column=before.name,
        type=before.type.name,
        new_column=after.name,
        new_type=after.type.name,
    )
