"""Slots: the columns of a flat table by position.

Hive reads ORC columns by position and Spark reads them by name. Both are right only if the columns of every file are a prefix of the
table's columns, in the table's order (flat-tables-hive4.md §0). Slots are therefore only appended. What may change is the key that a slot
holds, and its type within what readers accept. Slot 0 is ``_rescued``: the raw text of rows with a value that did not fit, so that
nothing is lost.

Layouts are immutable values: a changed layout is a new one with a higher version.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from state.columns.names import fold_case
from state.columns.types import ColumnType


if TYPE_CHECKING:
    from collections.abc import Mapping

    from state.columns.paths import KeyPath


RESCUED: Final = "_rescued"
SLOTS_MAX: Final = 1_500
HOUR_S: Final = 3_600


class SlotState(StrEnum):
    """The current use of a slot."""

    LIVE = "live"
    """It holds its key."""
    EMPTY = "empty"
    """Its key is no longer requested or has no values. It is written as NULL, and becomes free when no file holds a value."""
    RESERVED = "reserved"
    """It holds no key: ``_rescued``."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One column. Hours are seconds since 1970, multiples of 3,600; None if no value was seen yet."""

    index: int
    name: str
    key: KeyPath | None
    """None for a reserved slot."""
    type: ColumnType
    first_seen_hour: int | None = None
    last_seen_hour: int | None = None
    state: SlotState = SlotState.LIVE
    former_name: str | None = None
    """The name before the slot's last reuse. Retained files may still use it, so no other slot may take it."""


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
        """Assert correct positions, distinct names, one slot for each key, a type for each slot, and ``_rescued`` first."""
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
