"""What a loop holds to whoever runs it: when to stop, and the ways to say that all is well.

A port, so that the loops know nothing of the supervisor and a test can stand in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol


if TYPE_CHECKING:
    import threading


class Lifeline(Protocol):
    """The supervisor, as a loop sees it."""

    stopping: threading.Event

    def beat(self) -> None:
        """Say that the loop turns."""

    def following(self) -> None:
        """Say that the loop has opened its state and reads."""

    def progress(self) -> None:
        """Say that something was durably done: earlier failures are forgotten."""
