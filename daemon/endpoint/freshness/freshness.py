"""Freshness: whether an answer from a copy of the source is new enough for a request, and how long to wait for a newer one.

The source reports its newest event id on request. A copy that contains this event contains everything that was committed before the
query was sent. So a copy at event V may answer a request if some query was sent late enough, and V is not below its result:

========== ===================================== ==========================================================
mode       the query must be sent                the answer contains every change committed before
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
    """The newest event id of the source, and the time just before the query for it was sent."""

    event_id: int
    sent_s: float


@dataclass(frozen=True, slots=True)
class Freshness:
    """How much older than the request the observation of an answer may be: 0 for exact, None for eventual."""

    age_max_s: float | None = 0.0

    @property
    def observes(self) -> bool:
        """Whether the source is queried at all."""
        return self.age_max_s is not None

    def accepts(self, observation: Observation | None, arrived_s: float) -> bool:
        """Whether a request that arrived then may rely on this observation; otherwise the source must be queried again."""
        if self.age_max_s is None:
            return True
        return observation is not None and observation.sent_s > arrived_s - self.age_max_s


@dataclass(frozen=True, slots=True)
class Patience:
    """Whether waiting for the copy is worth it.

    A request that waited until its time-out shows that the copy is further behind than the longest wait, or does not advance at all.
    Until the copy reaches the event that this request needed, no other request waits: each would only be forwarded later.
    """

    unreached_id: int | None = None

    def may_wait(self, position: int) -> bool:
        """Whether a request may wait for a copy at this position."""
        return self.unreached_id is None or position >= self.unreached_id

    def after_timeout(self, event_id: int) -> Patience:
        """Return the patience after a request has waited for this event until its time-out."""
        known = event_id if self.unreached_id is None else max(self.unreached_id, event_id)
        return replace(self, unreached_id=known)
