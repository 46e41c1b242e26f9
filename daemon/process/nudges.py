"""Nudges: a part of the daemon asks the relay of a source to read its log at once, instead of after its pause.

A nudge is remembered until the relay takes it, so none is lost between two pauses.
"""

from __future__ import annotations

import threading


class Nudges:
    """One event for each source; thread-safe."""

    def __init__(self) -> None:
        self._events: dict[str, threading.Event] = {}

    def of(self, source: str) -> threading.Event:
        """Return the event that is set if the relay of this source should read at once."""
        return self._events.setdefault(source, threading.Event())
