"""Measures one source: how far back its log, topic and change manager reach, and what its readers still need.

A measurement is a plain value, from which ``margins`` computes the time left at any later time. So the time
left keeps shrinking in the status while the source is unreachable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from handlers.structs.notifications import NotificationEvent
from state.errors import BadInput, Refused
from state.event_log.retention import (
    NEVER,
    Margin,
    TopicLimits,
    find_margin,
    log_kept_s,
    next_event_time_s,
    parse_duration,
)


PRESENT_S: Final = 60.0
"""A measurement counts as the current state for this time; there are several a minute."""
_CM_ENABLED: Final = "hive.repl.cm.enabled"
_CM_RETAIN: Final = "hive.repl.cm.retain"
_COMPACTOR_CHECK: Final = "hive.compactor.check.interval"
_INITIATOR: Final = "hive.compactor.initiator.on"
_LOG_TTL: Final = "metastore.event.db.listener.timetolive"
_LOG_TTL_WITH_CM: Final = "metastore.repl.event.db.listener.timetolive"


class SourceCalls(Protocol):
    """The calls of a metastore that a measurement needs."""

    def current_event_id(self) -> int:
        """Return the id of the newest event."""

    def next_events(self, after: int, limit: int) -> list[NotificationEvent]:
        """Return at most ``limit`` events with ids above ``after``."""

    def config_value(self, key: str, default: str = "") -> str:
        """Return one of the server's settings."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A relay or a projection of a source, with its position from the daemon's status."""

    name: str
    event_id: int
    """The last event that it has read completely."""
    lag_s: float | None = None
    reads_topic: bool = True
    """False for a relay, which reads only the notification log."""
    copies_files: bool = False
    """Whether it reads the files that events name."""
    lists_writes: bool = False
    """Whether it lists the directories of transactions, which a compaction replaces."""


@dataclass(frozen=True, slots=True)
class ReaderMeasurement:
    """A reader, and the time of the next event that it has to read (Unix time); None if it had read all
    events.
    """

    reader: Reader
    next_time_s: float | None
    in_topic: bool
    """Whether its next event is in the topic."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The content of a source at one time, and the next events that its readers need."""

    source: str
    time_s: float
    """Unix time."""
    current_event_id: int
    oldest_event_id: int | None
    oldest_time_s: float | None
    log_s: float
    topic: TopicLimits
    files_s: float
    """Retention of the change manager; ``NEVER`` if there is none or it is unknown."""
    directories_s: float
    """How often the source looks for tables to compact; ``NEVER`` if it does not, or no reader needs it."""
    readers: tuple[ReaderMeasurement, ...]


def measure(
    calls: SourceCalls,
    source: str,
    topic: TopicLimits,
    readers: Sequence[Reader],
    relayed_event_id: int | None,
    now_s: float,
) -> Measurement:
    """Measure the source; raise Transient.

    ``relayed_event_id`` is the last event in the topic; None if another daemon relays, because that daemon
    reports the relay's lag.
    """
    current = calls.current_event_id()
    oldest = _first_event(calls, 0)
    oldest_id, oldest_time_s = (None, None) if oldest is None else (oldest.eventId, float(oldest.eventTime))
    has_cm = _setting(calls, _CM_ENABLED).lower() == "true"
    ttl = _setting(calls, _LOG_TTL_WITH_CM) if has_cm else ""  # Hive 4
    ttl_s = parse_duration(ttl or _setting(calls, _LOG_TTL), "s")
    files_s = parse_duration(_setting(calls, _CM_RETAIN), "h") if has_cm else None
    times: dict[int, float] = {}
    for reader in readers:
        if reader.event_id < current and reader.event_id not in times:
            event_time_s = _event_time_s(calls, reader.event_id + 1)
            times[reader.event_id] = next_event_time_s(
                event_time_s, reader.lag_s, [oldest_time_s, topic.oldest_time_s], now_s
            )
    return Measurement(
        source,
        now_s,
        current,
        oldest_id,
        oldest_time_s,
        log_kept_s(ttl_s, oldest_id, oldest_time_s, now_s),
        topic,
        NEVER if files_s is None else files_s,
        _directories_s(calls) if any(reader.lists_writes for reader in readers) else NEVER,
        tuple(
            ReaderMeasurement(
                reader,
                times.get(reader.event_id),
                reader.reads_topic and (relayed_event_id is None or reader.event_id < relayed_event_id),
            )
            for reader in readers
        ),
    )


def _directories_s(calls: SourceCalls) -> float:
    if _setting(calls, _INITIATOR).lower() == "false":
        return NEVER
    interval_s = parse_duration(_setting(calls, _COMPACTOR_CHECK), "s")
    return NEVER if interval_s is None else interval_s


def _first_event(calls: SourceCalls, after: int) -> NotificationEvent | None:
    """Return the first event after an id; None if there is none, or if it is too large to read."""
    try:
        return next(iter(calls.next_events(after, 1)), None)
    except (BadInput, Refused):
        return None


def _event_time_s(calls: SourceCalls, event_id: int) -> float | None:
    """Return the time of an event, or None if the log does not have it."""
    event = _first_event(calls, event_id - 1)
    return float(event.eventTime) if event is not None and event.eventId == event_id else None


def _setting(calls: SourceCalls, key: str) -> str:
    """Return a setting; an empty text if the metastore does not reveal it."""
    try:
        return calls.config_value(key).strip()
    except (BadInput, Refused):
        return ""


def margins(measured: Measurement, now_s: float) -> Iterator[tuple[ReaderMeasurement, Margin, Margin]]:
    """Yield each reader with the time left for its next event, and for the files or listed directories of
    that event.

    If a measurement is old, a reader that had read all events may be behind by now.
    """
    may_have_more = now_s - measured.time_s > PRESENT_S
    for each in measured.readers:
        next_time_s = measured.time_s if each.next_time_s is None and may_have_more else each.next_time_s
        kept_s = [measured.log_s]
        if each.reader.reads_topic and (each.in_topic or each.next_time_s is None):
            kept_s.append(measured.topic.kept_s(now_s))
        files_s = [measured.files_s] if each.reader.copies_files else []
        if each.reader.lists_writes:
            files_s = [measured.directories_s]
        yield (
            each,
            find_margin(next_time_s, kept_s, now_s),
            find_margin(next_time_s, files_s, now_s),
        )
