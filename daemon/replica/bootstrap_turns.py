"""The bootstraps of a daemon's policies: a few at a time, the others wait for their turn.

A pattern may cover hundreds of databases. Bootstrapped all at once, they would compete for the metastores,
and none would be followed until nearly all are loaded. A policy waits before its snapshot is taken, so that
the time in which it waits is not replayed afterwards. A bootstrap that fails leaves its turn to the next one,
and waits again behind the others.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from state.errors import Interrupted


if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon.process.heartbeat import Pulse


_BEAT_S: Final = 1.0
"""How often a policy that waits sends a heartbeat."""


class BootstrapTurns:
    """The policies of one daemon that are being bootstrapped, or wait for that; thread-safe."""

    def __init__(self, policies_at_once: int) -> None:
        self._at_once = policies_at_once
        self._policies: list[str] = []
        """In the order in which they asked; the first ``policies_at_once`` have their turn."""
        self._changed = threading.Condition()

    @contextmanager
    def take(self, policy: str, pulse: Pulse) -> Iterator[None]:
        """Wait for the turn of ``policy``, and keep it for the block;
        raise Interrupted if a stop is requested meanwhile.
        """
        with self._changed:
            self._policies.append(policy)
        try:
            with self._changed:
                while self.find_place(policy) is not None:
                    if pulse.is_stopping():
                        raise Interrupted("the policy was waiting for its bootstrap", policy=policy)
                    pulse.beat()
                    self._changed.wait(_BEAT_S)
            yield
        finally:
            with self._changed:
                self._policies.remove(policy)
                self._changed.notify_all()

    def find_place(self, policy: str) -> int | None:
        """Return the place of ``policy`` among those that wait, from 1; None if it does not wait."""
        with self._changed:
            waiting = self._policies[self._at_once :]
            return waiting.index(policy) + 1 if policy in waiting else None

    def list_waiting(self, policy: str) -> tuple[str, ...]:
        """Return what the status says about ``policy``: its place if it waits, otherwise nothing."""
        place = self.find_place(policy)
        return () if place is None else (f"waiting for its turn to be bootstrapped, as number {place}",)
