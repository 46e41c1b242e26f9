"""Reads the notification log as an outbox: every event once, in order, without omissions, and commits with their write events.

The metastore assigns event ids under a lock inside the transaction of the change, so ids are contiguous in commit order (reference:
NOTIFICATION_SEQUENCE). A gap therefore means that the log was cleaned before it was read, and is never skipped. A repeated or
unordered event cannot come from the log of one metastore.

Commits are completed with their write events (``commits``), which their messages do not contain. The same code fills gaps of the
topic for consumers (``records``), so that both produce the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from daemon.sources.write_events import WriteEventReader, parse_commit
from handlers.decoding.encoder import Record, encode
from handlers.failpoints import failpoint
from state.errors import GapDetected, Inconsistent, Unsupported


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from daemon.kafka.topic import Topic
    from daemon.sources.write_events import Commit, Connect, NotificationLog
    from handlers.structs.notifications import NotificationEvent, WriteEventInfo


log = structlog.get_logger(__name__)

_SMALLEST_BATCH: Final = 10
_OVERHEAD_BYTES: Final = 65_536
"""Difference between the largest record and the topic's limit: headers, key, and the overhead of compression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxSettings:
    """Settings for reading one source's notification log."""

    source: str
    """Name of the source, and key of every record."""
    record_bytes_max: int = 512 * 1024
    """Larger events are split into several records if possible."""
    batch_events: int = 1_000
    """Events requested at once. More is not faster, and each answer is in memory completely."""
    batch_bytes: int = 16 * 1024 * 1024
    """A batch with more bytes makes the next batches smaller."""
    write_connections: int = 2
    """Additional connections to the metastore, which fetch the write events of commits in parallel."""


@dataclass(frozen=True, slots=True)
class OutgoingEvent:
    """One event with its records."""

    event_id: int
    time_s: int
    records: Sequence[Record]
    wrote: bool | None = None
    """Whether the log contains the write events of a commit with write ids. None for all other events."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all records' values."""
        return sum(len(record.value) for record in self.records)


class Outbox:
    """Reads one source's notification log. Connects on first use; used by one thread."""

    def __init__(self, connect: Connect, settings: OutboxSettings, *, hard_bytes_max: int) -> None:
        self._connect = connect
        self._settings = settings
        self._hard_bytes_max = hard_bytes_max
        self._log: NotificationLog | None = None
        self._writes = WriteEventReader(connect, settings.write_connections)
        self._limit = settings.batch_events
        self._supports_write_events = True

    def current_event_id(self) -> int:
        """Return the id of the newest event; raise Transient."""
        return self._connection().current_event_id()

    def require_not_behind(self, event_id: int) -> int:
        """Return the newest event id; raise Inconsistent if it is smaller than ``event_id``, which was read before."""
        current = self.current_event_id()
        if current < event_id:
            raise Inconsistent(
                "the metastore's newest event is older than the last relayed event",
                hint="It was restored from a backup, or it is another metastore: configure another topic, and bootstrap again.",
                source=self._settings.source,
                relayed=event_id,
                current=current,
            )
        return current

    def first_event_id(self) -> int | None:
        """Return the id of the oldest event in the log; None if it is empty."""
        events = self._connection().next_events(0, 1)
        return events[0].eventId if events else None

    def read(self, after: int, *, limit: int | None = None) -> list[OutgoingEvent]:
        """Return the next events with ids ``after + 1``, ``after + 2``, …, at most a batch; [] if there are none yet.

        Raises GapDetected, Inconsistent (the log's order is broken), Transient.
        """
        events = self._connection().next_events(after, min(limit or self._limit, self._limit))
        _check_contiguous(after, events)
        failpoint("relay.read")
        batch = self._encode(events)
        self._adapt(sum(item.size_bytes for item in batch))
        return batch

    def records(self, first: int, last: int) -> Iterator[Record]:
        """Yield the records of the events ``first`` to ``last``, both included; raise GapDetected, Inconsistent, Transient."""
        after = first - 1
        while after < last:
            batch = self.read(after, limit=last - after)
            if not batch:
                raise GapDetected(
                    "events were removed from the notification log", expected=after + 1, last=last, found=None
                )
            for item in batch:
                yield from item.records
            after = batch[-1].event_id

    def close(self) -> None:
        """Close all connections; they are opened again on the next use."""
        self._writes.close()
        if self._log is not None:
            self._log.close()
            self._log = None

    def _connection(self) -> NotificationLog:
        if self._log is None:
            self._log = self._connect()
        return self._log

    def _encode(self, events: Sequence[NotificationEvent]) -> list[OutgoingEvent]:
        commits = {event.eventId: found for event in events if (found := parse_commit(event)) is not None}
        writing = [
            (event_id, commit.txn_id) for event_id, commit in commits.items() if commit.wrote is not False
        ]
        writes = self._write_events(writing)
        failpoint("relay.enriched")
        return [self._outgoing(event, commits.get(event.eventId), writes) for event in events]

    def _write_events(self, writing: Sequence[tuple[int, int]]) -> dict[int, list[WriteEventInfo]] | None:
        """Return the write events by event id; None if the metastore (before Hive 4) has no call for them."""
        if not self._supports_write_events:
            return None
        try:
            return self._writes.fetch(writing, self._connection())
        except Unsupported:
            self._supports_write_events = False
            log.warning(
                "the metastore does not report write events of commits; ACID tables cannot be replicated"
            )
            return None

    def _outgoing(
        self,
        event: NotificationEvent,
        commit: Commit | None,
        writes: dict[int, list[WriteEventInfo]] | None,
    ) -> OutgoingEvent:
        found = None if commit is None or writes is None else writes.get(event.eventId, [])
        records = encode(
            self._settings.source,
            event,
            found,
            record_bytes_max=self._settings.record_bytes_max,
            hard_bytes_max=self._hard_bytes_max,
        )
        wrote = bool(found) if commit is not None and commit.wrote and found is not None else None
        return OutgoingEvent(event.eventId, event.eventTime, records, wrote)

    def _adapt(self, size_bytes: int) -> None:
        """Keep batches of large events small, because each answer is in memory completely."""
        if size_bytes > self._settings.batch_bytes:
            self._limit = max(_SMALLEST_BATCH, self._limit // 2)
        else:
            self._limit = min(self._settings.batch_events, self._limit * 2)


def _check_contiguous(after: int, events: Sequence[NotificationEvent]) -> None:
    """Raise GapDetected for a gap, and Inconsistent for ids that do not increase."""
    expected = after + 1
    for event in events:
        if event.eventId > expected:
            raise GapDetected(
                "events were removed from the notification log before they were relayed",
                expected=expected,
                found=event.eventId,
            )
        if event.eventId < expected:
            raise Inconsistent(
                "the notification log returned an event id twice or out of order",
                hint="Check that all addresses of the source belong to one metastore.",
                expected=expected,
                found=event.eventId,
            )
        expected += 1


def build_outbox(connect: Connect, settings: OutboxSettings, topic: Topic) -> Outbox:
    """Return an outbox, for a relay or for a consumer that fills gaps; both produce the same bytes."""
    return Outbox(connect, settings, hard_bytes_max=topic.settings.message_bytes_max - _OVERHEAD_BYTES)
