"""Positions: the events that a projection has durably applied, and the one that may come next.

A position is an event id of the source's notification log and a part of that event, not a Kafka offset. Event
ids are contiguous, because the metastore allocates them under a lock inside the transaction that makes the
change. A missing id therefore proves a loss, which a missing offset does not. A position also stays valid in
a truncated, recreated or mirrored topic.

Every store keeps its position under ``POSITION_KEY``, written in the same transaction as the effects that it
stands for.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from functools import total_ordering
from typing import Final

from state.errors import StateCorrupt


POSITION_KEY: Final = b"position"
"""Key of the position in the store of each projection."""

_FORMAT = 1
_BYTES = struct.Struct(">BQII")  # format, event id, part, parts: 17 bytes


class Step(Enum):
    """How an incoming (event id, part) relates to a position."""

    NEXT = "next"
    DUPLICATE = "duplicate"
    GAP = "gap"


@total_ordering
@dataclass(frozen=True, slots=True)
class Position:
    """The last applied part of the last applied event.

    ``part`` counts from 0. ``parts`` is the number of parts of this event; an event of one part has ``0, 1``.
    """

    event_id: int
    part: int = 0
    parts: int = 1

    def __post_init__(self) -> None:
        """Assert that an event can have these values."""
        assert self.event_id >= 0, self
        assert 0 <= self.part < self.parts, self

    @staticmethod
    def before(event_id: int) -> Position:
        """Return the position of a reader that has applied every event up to ``event_id - 1``."""
        return Position(event_id - 1)

    @property
    def complete(self) -> bool:
        """Whether the whole event is applied."""
        return self.part + 1 == self.parts

    @property
    def applied_event_id(self) -> int:
        """The last completely applied event."""
        return self.event_id if self.complete else self.event_id - 1

    def step(self, event_id: int, part: int) -> Step:
        """Return whether (``event_id``, ``part``) repeats an applied part, comes next, or leaves a gap."""
        if self.covers(event_id, part):
            return Step.DUPLICATE
        return Step.NEXT if (event_id, part) == self.expected() else Step.GAP

    def covers(self, event_id: int, part: int) -> bool:
        """Whether this position includes (``event_id``, ``part``).

        Every part of a complete event counts as applied. A position made from the metastore's current id does
        not know how many parts that event had.
        """
        if event_id == self.event_id:
            return self.complete or part <= self.part
        return event_id < self.event_id

    def expected(self) -> tuple[int, int]:
        """Return the (event id, part) that must come next."""
        return (self.event_id + 1, 0) if self.complete else (self.event_id, self.part + 1)

    def __lt__(self, other: Position) -> bool:
        """Order by event, then by part."""
        return (self.event_id, self.part) < (other.event_id, other.part)

    def __str__(self) -> str:
        """``12`` for a whole event, ``12.0/3`` for a part of one."""
        return str(self.event_id) if self.complete else f"{self.event_id}.{self.part}/{self.parts}"

    def to_bytes(self) -> bytes:
        """Return the stored form: a format byte, then event id, part and parts, big-endian."""
        return _BYTES.pack(_FORMAT, self.event_id, self.part, self.parts)

    @staticmethod
    def from_bytes(value: bytes) -> Position:
        """Read the output of ``to_bytes``; raise StateCorrupt for any other value."""
        if len(value) != _BYTES.size or value[0] != _FORMAT:
            raise StateCorrupt("the stored position cannot be read", value=value.hex()[:64])
        _, event_id, part, parts = _BYTES.unpack(value)
        if part >= parts:
            raise StateCorrupt(
                "the stored position names a part that its event does not have", value=value.hex()
            )
        return Position(event_id, part, parts)
