"""A loop that is built when it first runs, in its own thread.

Opening state can fail (a damaged file, a wrong setting), and then that one loop shall fail and be shown, not the process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar


if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.process.heartbeat import Lifeline


class Loop(Protocol):
    """What can be run by a supervisor."""

    def run(self, lifeline: Lifeline) -> None:
        """Turn until told to stop; raises what ended it."""


L = TypeVar("L", bound=Loop)


class Late(Generic[L]):
    """Builds the loop once; every later run is of the same loop, so that its counts go on."""

    def __init__(self, build: Callable[[], L]) -> None:
        self._build = build
        self.built: L | None = None
        """The loop, as soon as there is one; read by other threads."""

    def run(self, lifeline: Lifeline) -> None:
        """Build where needed, then run."""
        if self.built is None:
            self.built = self._build()
        self.built.run(lifeline)
