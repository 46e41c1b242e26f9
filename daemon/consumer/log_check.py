"""Checks a record that does not continue the topic against the notification log of its source.

A program that may write to the topic can publish any event id, and a record of another source may arrive by
mistake. So such an id has no effect before the notification log has confirmed it:

- An event above the log's newest one does not exist.
- The source has not lost events that the log still contains, whatever a record of type ``EVENTS_LOST`` says.

The reader queries the log only if ids jump, which costs one call. It does not compare records that continue
the topic with the log: only the access rights on the topic protect against those.
"""

from __future__ import annotations

from daemon.consumer.settings import GapFiller
from handlers.events import Event, EventsLost
from state.errors import ForeignRecord, GapDetected
from state.event_log.positions import Position


class LogCheck:
    """Compares records with one notification log. Use it from one thread only."""

    def __init__(self, log: GapFiller) -> None:
        self._log = log
        self._newest = 0

    def find_contradiction(self, event: Event, position: Position) -> ForeignRecord | None:
        """Return why the source cannot have published ``event``; None if the event may be genuine.

        The event does not continue ``position``. Raises Transient.
        """
        if event.event_id > self._newest:
            self._newest = self._log.current_event_id()
        if event.event_id > self._newest:
            return ForeignRecord(
                "the record's event id is above the newest one of its source",
                event_id=event.event_id,
                newest=self._newest,
            )
        expected, _ = position.expected()
        if isinstance(event, EventsLost) and event.first_event_id <= expected and self._has(expected):
            return ForeignRecord(
                "the record reports lost events that the notification log still contains",
                first=event.first_event_id,
                last=event.event_id,
            )
        return None

    def _has(self, event_id: int) -> bool:
        """Return whether the log contains the event."""
        try:
            return next(iter(self._log.records(event_id, event_id)), None) is not None
        except GapDetected:
            return False
