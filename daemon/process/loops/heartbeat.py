"""The interface between the supervisor and a loop: a ``Loop`` reports through its ``Heartbeat``.

They are protocols, so that loops do not depend on the supervisor and tests can replace it. ``LazyLoop``
builds a loop when it first runs, and not when the process starts: opening state can fail (a damaged file, an
invalid setting), and must then fail only this loop. After StateCorrupt, the next run closes the loop and
builds it again, so that it opens the state file that an operator has restored.

A batch or a copy may take longer than the age at which ``/livez`` fails. The components that do such work
(metastore clients, copy pools, projections) therefore report each step through a ``Pulse``. Work without
steps sends no heartbeat, so the loop counts as stuck.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, Generic, Protocol, TypeVar

from state.errors import StateCorrupt


_WAIT_S: Final = 1.0
"""Longest wait between two heartbeats."""


class Heartbeat(Protocol):
    """A loop's connection to its supervisor."""

    stopping: threading.Event

    def beat(self) -> None:
        """Report that the loop is alive."""

    def answered(self) -> None:
        """Report that a target has answered a call."""

    def wake(self) -> None:
        """End the loop's rest soon. Thread-safe."""

    def following(self) -> None:
        """Report that the loop has opened its state and follows its source."""

    def progress(self) -> None:
        """Report durable progress, and forget earlier failures."""


def wait(heartbeat: Heartbeat, wait_s: float) -> None:
    """Wait for a time or until a stop request, and send heartbeats meanwhile."""
    until_s = time.monotonic() + wait_s
    while (left_s := until_s - time.monotonic()) > 0:
        heartbeat.beat()
        if heartbeat.stopping.wait(min(left_s, _WAIT_S)):
            return


class Loop(Protocol):
    """A loop that the supervisor runs."""

    def run(self, heartbeat: Heartbeat) -> Iterator[float] | None:
        """Run until ``heartbeat.stopping`` is set.

        Raises the error that ended the loop. A loop that runs in turns returns an iterator over its rests
        (``daemon.process.loops.loop``).
        """

    def close(self) -> None:
        """Release the state and all connections."""


class Pulse:
    """Forwards the steps of long work to the heartbeat of the loop's current run. It exists before the loop
    runs.
    """

    def __init__(self) -> None:
        self._heartbeat: Heartbeat | None = None

    def connect(self, heartbeat: Heartbeat) -> None:
        """Send beats to ``heartbeat`` from now on."""
        self._heartbeat = heartbeat

    def is_stopping(self) -> bool:
        """Whether the loop's current run must end."""
        return self._heartbeat is not None and self._heartbeat.stopping.is_set()

    def beat(self) -> None:
        """Report a step; do nothing while no loop runs."""
        if self._heartbeat is not None:
            self._heartbeat.beat()

    def answered(self) -> None:
        """Report that a target has answered a call; do nothing while no loop runs."""
        if self._heartbeat is not None:
            self._heartbeat.answered()

    def wake(self) -> None:
        """End the loop's rest soon; do nothing before it runs. Thread-safe."""
        if self._heartbeat is not None:
            self._heartbeat.wake()


L = TypeVar("L", bound=Loop)
V = TypeVar("V")


class LazyLoop(Generic[L]):
    """Builds a loop at its first run. Later runs use the same loop, so that its counts continue."""

    def __init__(self, build: Callable[[], L]) -> None:
        self._build = build
        self.built: L | None = None
        """The loop once built; other threads use ``read``."""

    def read(self, read: Callable[[L], V], otherwise: V) -> V:
        """Return the result of ``read`` for the loop; ``otherwise`` before it is built. Thread-safe."""
        built = self.built
        return otherwise if built is None else read(built)

    def run(self, heartbeat: Heartbeat) -> Iterator[float]:
        """Run the loop, after building it if necessary; yield its rests if it runs in turns."""
        if self.built is None:
            self.built = self._build()
        try:
            yield from self.built.run(heartbeat) or ()
        except StateCorrupt:
            built, self.built = self.built, None
            built.close()
            raise
