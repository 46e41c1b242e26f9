"""Freshness: whether an answer from a copy of the source is new enough for a request, and how long to wait for a newer one.

The source names its newest event id when it is asked. An answer that contains this event contains everything that was committed before
the question. So a copy at event V may answer a request if some question was sent late enough, and V is not below its answer:

========== ===================================== ==========================================================
mode       the question must be sent             the answer contains every change committed before
========== ===================================== ==========================================================
exact      after the request arrived             the request arrived
bounded    at most ``age_max_s`` before that     ``age_max_s`` before that
eventual   never                                 the copy's own position, however old that is
========== ===================================== ==========================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Observation:
    """The newest event id of the source, and the time just before it was asked for."""

    event_id: int
    asked_s: float


@dataclass(frozen=True, slots=True)
class Freshness:
    """The oldest observation that an answer may rely on: 0 for exact, None for eventual."""

    age_max_s: float | None = 0.0

    @property
    def asks(self) -> bool:
        """Whether the source is asked at all."""
        return self.age_max_s is not None

    def accepts(self, observation: Observation | None, arrived_s: float) -> bool:
        """Whether a request that arrived then may rely on this observation; otherwise the source must be asked again."""
        if self.age_max_s is None:
            return True
        return observation is not None and observation.asked_s >= arrived_s - self.age_max_s


@dataclass(frozen=True, slots=True)
class Patience:
    """Whether waiting for the copy is worth it.

    A request that has waited in vain shows that the copy is further behind than the longest wait, or does not advance at all. Until the
    copy reaches the event that was waited for, no other request waits: each would only be forwarded later.
    """

    vain_id: int | None = None

    def may_wait(self, position: int) -> bool:
        """Whether a request may wait for a copy at this position."""
        return self.vain_id is None or position >= self.vain_id

    def after_vain_wait(self, event_id: int) -> Patience:
        """Return the patience after a request has waited in vain for this event."""
        return replace(self, vain_id=event_id if self.vain_id is None else max(self.vain_id, event_id))
