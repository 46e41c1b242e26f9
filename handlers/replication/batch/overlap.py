"""Counts of one batch: what was done beside replay, or ahead of its turn. They are reported once, when the batch ends."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class LaneCounts:
    """What the lanes did (``work_ahead``)."""

    applied: int = 0
    """Events that a lane applied ahead of their turn."""
    returned: int = 0
    """Events that replay applied itself at their turn, because no lane had begun them, or because the lane failed."""
    busy_s: float = 0.0
    """Time for which lanes applied events, all lanes together."""
    queued_s: float = 0.0
    """Time that events waited for a free lane."""
    waited_s: float = 0.0
    """Time that replay waited for a lane at the turn of its event."""


@dataclass(slots=True)
class LookaheadCounts:
    """What was opened and allocated ahead (``transactions.lookahead``)."""

    transactions: int = 0
    """Transactions that were opened ahead, with the first one of each batch, whose turn it was."""
    write_ids: int = 0
    """Write ids that were allocated together with others."""
    calls: int = 0
    """Calls that allocated them."""


@dataclass(frozen=True, slots=True)
class BatchOverlap:
    """The counts of one batch."""

    events: int
    """Events of the batch that may concern the policy."""
    lanes: LaneCounts
    lookahead: LookaheadCounts
