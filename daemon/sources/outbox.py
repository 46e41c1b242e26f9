"""Reading the notification log as an outbox: every event once, in order, none missing, commits with what they wrote.

The metastore draws event ids under a lock inside the transaction that makes the change, so ids are contiguous in commit order
(reference: NOTIFICATION_SEQUENCE). A hole therefore means that the log's cleaner was faster than its reader, and is never
skipped. An event that occurs twice or out of order cannot come from one metastore's log.

Commits are completed with what they wrote (``commits``), which their own messages do not tell. The same code fills holes of
the topic for a consumer (``records``), so that both write the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from daemon.sources.commits import WriteEventReader, parse_commit
from handlers.decoding.encoder import Record, encode
from handlers.failpoints import failpoint
from state.errors import GapDetected, Inconsistent, Unsupported


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from daemon.kafka.topic import Topic
    from daemon.sources.commits import Commit, Connect, NotificationLog
    from handlers.structs.notifications import NotificationEvent, WriteEventInfo


log = structlog.get_logger(__name__)

_SMALLEST_BATCH: Final = 10
_OVERHEAD_BYTES: Final = 65_536
"""Between the largest record and the topic's limit: headers, key, and what compression adds to what it cannot pack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxSettings:
    """How one source's notification log is read."""

    source: str
    """The source's name: key of every record."""
    record_bytes_max: int = 512 * 1024
    """Events above it are cut into several records where that is possible."""
    batch_events: int = 1_000
    """Events asked for at once. More brings no more speed, and an answer is held in memory as a whole."""
    batch_bytes: int = 16 * 1024 * 1024
    """Records of one batch above it make the next batches smaller."""
    write_connections: int = 2
    """Further connections to the metastore for the write events of commits; they are asked for side by side."""


@dataclass(frozen=True, slots=True)
class OutgoingEvent:
    """One event as it goes to the topic."""

    event_id: int
    time_s: int
    records: Sequence[Record]
    wrote: bool | None = None
    """Of a commit with write ids: whether the log knows what it wrote. None for all other events."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all records' values."""
        return sum(len(record.value) for record in self.records)


class Outbox:
    """Reads one source's notification log. Connects when first asked; used by one thread."""

    def __init__(self, connect: Connect, settings: OutboxSettings, *, hard_bytes_max: int) -> None:
        self._connect = connect
        self._settings = settings
        self._hard_bytes_max = hard_bytes_max
        self._log: NotificationLog | None = None
        self._writes = WriteEventReader(connect, settings.write_connections)
        self._limit = settings.batch_events
        self._tells_writes = True

    def current_event_id(self) -> int:
        """Return the id of the newest event; raise Transient."""
        return self._connection().current_event_id()

    def require_not_behind(self, event_id: int) -> int:
        """Return the newest event's id; raise Inconsistent where it is older than ``event_id``, which was read before."""
        current = self.current_event_id()
        if current < event_id:
            raise Inconsistent(
                "the metastore's newest event is older than what was relayed already",
                hint="It was restored from a backup, or it is another metastore: name another topic, and bootstrap anew.",
                source=self._settings.source,
                relayed=event_id,
                current=current,
            )
        return current

    def first_event_id(self) -> int | None:
        """Return the id of the oldest event that the log still holds; None where it holds none."""
        events = self._connection().next_events(0, 1)
        return events[0].eventId if events else None

    def read(self, after: int, *, limit: int | None = None) -> list[OutgoingEvent]:
        """Return the next events with ids ``after + 1``, ``after + 2``, …, at most a batch; [] where there are none yet.

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
                    "events have left the notification log", expected=after + 1, last=last, found=None
                )
            for item in batch:
                yield from item.records
            after = batch[-1].event_id

    def close(self) -> None:
        """Close all connections; they are made anew when something is asked."""
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
        asked = [
            (event_id, commit.txn_id) for event_id, commit in commits.items() if commit.wrote is not False
        ]
        writes = self._write_events(asked)
        failpoint("relay.enriched")
        return [self._outgoing(event, commits.get(event.eventId), writes) for event in events]

    def _write_events(self, asked: Sequence[tuple[int, int]]) -> dict[int, list[WriteEventInfo]] | None:
        """Return the write events by event id; None where the metastore (before Hive 4) has no call for them."""
        if not self._tells_writes:
            return None
        try:
            return self._writes.of(asked, self._connection())
        except Unsupported:
            self._tells_writes = False
            log.warning("the metastore does not tell what a commit wrote; ACID tables cannot be replicated")
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
        """Keep batches of large events small: an answer is in memory as a whole."""
        if size_bytes > self._settings.batch_bytes:
            self._limit = max(_SMALLEST_BATCH, self._limit // 2)
        else:
            self._limit = min(self._settings.batch_events, self._limit * 2)


def _check_contiguous(after: int, events: Sequence[NotificationEvent]) -> None:
    """Raise GapDetected for a hole and Inconsistent for ids that do not grow."""
    expected = after + 1
    for event in events:
        if event.eventId > expected:
            raise GapDetected(
                "events have left the notification log before they were relayed",
                expected=expected,
                found=event.eventId,
            )
        if event.eventId < expected:
            raise Inconsistent(
                "the notification log returned an event id twice or out of order",
                hint="Do all addresses of the source belong to one metastore?",
                expected=expected,
                found=event.eventId,
            )
        expected += 1


def build_outbox(connect: Connect, settings: OutboxSettings, topic: Topic) -> Outbox:
    """Return the outbox of a relay; a consumer that fills holes makes its own in the same way, for the same bytes."""
    return Outbox(connect, settings, hard_bytes_max=topic.settings.message_bytes_max - _OVERHEAD_BYTES)
