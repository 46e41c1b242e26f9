"""Limits the bootstraps of a daemon: a few policies at a time, the others wait for their turn.

A pattern may cover hundreds of databases. Bootstrapped all at once, they would compete for the metastores,
and the daemon would follow none until nearly all have their tables. A policy waits before its snapshot, so it
need not replay events from the time of waiting. It needs no thread meanwhile. A failed bootstrap passes its
turn to the next one, and waits again behind the others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class BootstrapTurns:
    """The policies of one daemon that are being bootstrapped, or wait for it. Thread-safe."""

    def __init__(self, policies_at_once: int) -> None:
        self._at_once = policies_at_once
        self._policies: dict[str, Callable[[], None]] = {}
        """In the order of their requests, with the functions that wake them; the first ``policies_at_once``
        have their turn."""
        self._lock = threading.Lock()

    def ask(self, policy: str, wake: Callable[[], None] = lambda: None) -> None:
        """Queue ``policy`` behind the others; call ``wake`` when its turn has come."""
        with self._lock:
            self._policies[policy] = wake

    def leave(self, policy: str) -> None:
        """End the turn of ``policy`` or remove it from the queue; do nothing if it has no turn and does not
        wait.
        """
        with self._lock:
            if self._policies.pop(policy, None) is None:
                return
            having_turn = list(self._policies.values())[: self._at_once]
        for wake in having_turn[self._at_once - 1 :]:
            wake()

    def find_place(self, policy: str) -> int | None:
        """Return the position of ``policy`` in the queue, from 1; None if it does not wait."""
        with self._lock:
            waiting = list(self._policies)[self._at_once :]
            return waiting.index(policy) + 1 if policy in waiting else None

    def list_waiting(self, policy: str) -> tuple[str, ...]:
        """Return a status line with the position of ``policy`` in the queue; nothing if it does not wait."""
        place = self.find_place(policy)
        return () if place is None else (f"waiting for its bootstrap; position in the queue: {place}",)
