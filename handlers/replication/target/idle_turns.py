"""Decides when a policy does its periodic tasks in quiet times. For one policy, these tasks are cheap: a
check of the target, a write of its position. For hundreds of policies, the daemon would do nothing else. So
the policies of a target take turns, at most ``per_s`` a second over all of them. After a turn, a policy waits
until all others could have had theirs, so none is left out. A late turn does no harm: applying events, and
checking the claim before every write, need no turn.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


class IdleTurns:
    """The turns for one kind of work; thread-safe. Times are those of the policies' clock."""

    def __init__(self, per_s: float) -> None:
        assert per_s > 0, per_s
        self._pause_s = 1 / per_s
        self._lock = threading.Lock()
        self._policies = 0
        self._free_s = float("-inf")
        """When the next turn may be taken."""

    def join(self) -> None:
        """Add a policy."""
        with self._lock:
            self._policies += 1

    def leave(self) -> None:
        """Remove a policy."""
        with self._lock:
            self._policies -= 1

    def may_take(self, now_s: float, done_s: float, *, interval_s: float) -> bool:
        """Whether a policy that did this work at ``done_s`` may do it now; it is due every ``interval_s``."""
        with self._lock:
            return now_s >= self._free_s and now_s - done_s >= max(interval_s, self._policies * self._pause_s)

    def take(self, now_s: float) -> None:
        """Note that a policy does the work now. A policy that does the work without a turn, because
        something happened, delays the next turn by one pause at most.
        """
        with self._lock:
            self._free_s = max(self._free_s, now_s + self._pause_s)


@dataclass(frozen=True, slots=True)
class IdleWork:
    """The turns of a target's policies."""

    raises: IdleTurns = field(default_factory=lambda: IdleTurns(2.0))
    """Writing ``repl.last.id`` after events that took effect: two calls, and a commit of the state. Counts
    only the policies that have work, so that a single busy one does not wait for hundreds of idle ones."""
    positions: IdleTurns = field(default_factory=lambda: IdleTurns(1.0))
    """Writing ``repl.last.id`` for a policy that no event concerns: two calls, and a commit of the state."""
    checks: IdleTurns = field(default_factory=lambda: IdleTurns(1.0))
    """Checking the target database: one call."""
    reconciliations: IdleTurns = field(default_factory=lambda: IdleTurns(1.0))
    """Comparing the open transactions: one call, and two more of the source if there are some."""
    records: IdleTurns = field(default_factory=lambda: IdleTurns(4.0))
    """Recording a position that passed only events without effect: a commit of the state."""

    def join(self) -> None:
        """Add a policy."""
        for turns in (self.positions, self.checks, self.reconciliations, self.records):
            turns.join()

    def leave(self) -> None:
        """Remove a policy."""
        for turns in (self.positions, self.checks, self.reconciliations, self.records):
            turns.leave()
