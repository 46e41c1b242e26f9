"""A source with a notification log of known times, for tests of the early warning."""

from __future__ import annotations

from collections.abc import Mapping

from daemon.retention.measurement import Measurement, Reader, measure
from handlers.structs.notifications import NotificationEvent
from state.errors import InvalidRequest
from state.event_log.retention import TopicLimits


SETTINGS = {
    "hive.repl.cm.enabled": "true",
    "hive.repl.cm.retain": "1h",
    "metastore.repl.event.db.listener.timetolive": "100s",
    "metastore.event.db.listener.timetolive": "50s",
}


class TimedLog:
    """A notification log whose event N has the time N; it still has the events from ``oldest`` to
    ``newest``."""

    def __init__(self, oldest: int, newest: int, settings: Mapping[str, str] | None = None) -> None:
        self._oldest, self._newest = oldest, newest
        self._settings = SETTINGS if settings is None else settings

    def current_event_id(self) -> int:
        return self._newest

    def next_events(self, after: int, limit: int) -> list[NotificationEvent]:
        first = max(after + 1, self._oldest)
        return [
            NotificationEvent(eventId=event_id, eventTime=event_id, eventType="X", message="")
            for event_id in range(first, min(self._newest, first + limit - 1) + 1)
        ]

    def config_value(self, key: str, default: str = "") -> str:
        if not self._settings:
            raise InvalidRequest("the metastore does not reveal it")
        return self._settings.get(key, default)


def measurement(
    *readers: Reader,
    log: TimedLog | None = None,
    topic: TopicLimits | None = None,
    relayed: int | None = 10,
    now_s: float = 20.0,
) -> Measurement:
    """Return a measurement of readers of source ``lake``, by default of a log with the events 5 to 10."""
    return measure(log or TimedLog(5, 10), "lake", topic or TopicLimits(200.0), readers, relayed, now_s)
