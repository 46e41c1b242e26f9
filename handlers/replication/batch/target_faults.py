"""When internal errors of the target's metastore count as a failure of the event's table instead of the metastore's own.

A metastore whose database fails answers the same as one that cannot process a single request. Only repetition distinguishes them: the same
event fails again and again for a while, and the metastore accepts other writes (which the caller checks).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


FAULTS_MIN: Final = 5
FAULTS_S: Final = 120.0
"""So many errors in a row at the same event, for at least so many seconds, count as a failure of its table."""


@dataclass(slots=True)
class TargetFaults:
    """Consecutive internal errors of the target at one event, counted across restarts of the projection."""

    event_id: int = -1
    count: int = 0
    since_s: float = 0.0

    def record(self, event_id: int, now_s: float) -> bool:
        """Count an error at ``event_id``; return whether there were enough, over a long enough time."""
        if event_id != self.event_id:
            self.event_id, self.count, self.since_s = event_id, 0, now_s
        self.count += 1
        return self.count >= FAULTS_MIN and now_s - self.since_s >= FAULTS_S
