"""Changes of a table, as values: what ``evolution`` decides from, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from state.columns.paths import KeyPath
    from state.columns.slots import Layout
    from state.columns.types import ColumnType


class ChangeKind(StrEnum):
    """What happens to a slot, or to a key without one."""

    APPEND = "append"
    REUSE = "reuse"
    REVIVE = "revive"
    WIDEN = "widen"
    RETIRE = "retire"
    REFRESH = "refresh"
    """Only the hours in comments change."""
    HARDEN = "harden"
    """A task: retained partitions have to be rewritten before the slot can become text."""
    WAIT = "wait"
    """The key gets no column yet, or its column not the type."""


TASKS: Final = frozenset({ChangeKind.HARDEN, ChangeKind.WAIT})


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
class Retained:
    """What the kept partitions hold, by the counts that were written with them."""

    partitions: int = 0
    unknown: int = 0
    """Partitions without counts: no slot is known to be empty while there is one."""
    filled: frozenset[int] = frozenset()
    """Slots with a value in some partition."""

    @classmethod
    def of(cls, counts: Iterable[Mapping[int, int] | None]) -> Retained:
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
