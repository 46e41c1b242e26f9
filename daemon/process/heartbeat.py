"""What the supervisor and a loop know of each other: ``Heartbeat``, through which a loop reports, and ``Loop``, which can be run.

They are protocols, so that loops do not depend on the supervisor and tests can replace it. ``LazyLoop`` builds a loop in its own
thread when it first runs: opening state can fail (a damaged file, an invalid setting), and must then fail this loop and not the process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar


if TYPE_CHECKING:
    import threading
    from collections.abc import Callable


class Heartbeat(Protocol):
    """The supervisor, as a loop sees it."""

    stopping: threading.Event

    def beat(self) -> None:
        """Say that the loop turns."""

    def following(self) -> None:
        """Say that the loop has opened its state and reads."""

    def progress(self) -> None:
        """Say that something was durably done: earlier failures are forgotten."""


class Loop(Protocol):
    """What can be run by a supervisor."""

    def run(self, heartbeat: Heartbeat) -> None:
        """Turn until told to stop; raises what ended it."""


L = TypeVar("L", bound=Loop)


class LazyLoop(Generic[L]):
    """Builds the loop once; every later run is of the same loop, so that its counts go on."""

    def __init__(self, build: Callable[[], L]) -> None:
        self._build = build
        self.built: L | None = None
        """The loop, as soon as there is one; read by other threads."""

    def run(self, heartbeat: Heartbeat) -> None:
        """Build where needed, then run."""
        if self.built is None:
            self.built = self._build()
        self.built.run(heartbeat)
