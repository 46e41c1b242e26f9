"""Reads the notification log as an outbox: every event once and in order, commits with their write events.

The metastore assigns event ids under a lock inside the transaction of the change, so ids are contiguous in
commit order (reference: hive-replication.md §1.5). A gap therefore means that the log lost events before the
relay read them, and the relay never skips it. A repeated or unordered event cannot come from the log of one
metastore.

Events become records in ``outgoing_events``. The same code fills gaps of the topic for consumers
(``records``), so that both produce the same bytes. None of it needs unlimited memory (``EventBatches``).

The relay lists partitions that transactions wrote without a write event (``unlogged_partitions``). For that
it needs all events since the beginning of each open transaction, so after a restart it reads some relayed
events again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from daemon.kafka.topic import Topic
from daemon.sources.listing.listed_writes import ListedWrites
from daemon.sources.log_connections import Connect, NotificationLog
from daemon.sources.outgoing_events import EventEncoder, OutboxSettings, OutgoingEvent
from daemon.sources.partial_commits import end_commit
from daemon.sources.unlogged_partitions import UnloggedPartitions
from daemon.sources.write_events import WriteEventReader
from handlers.decoding.records.record_writer import Record
from handlers.failpoints import failpoint
from handlers.structs.notifications import NotificationEvent
from state.errors import GapDetected, Inconsistent, LimitExceeded, MetastoreUnavailable, Refused, Transient


_LOOK_BACK_EVENTS: Final = 10_000
"""Events to observe again after a restart, if the necessary number is unknown."""
_LOOK_BACK_EVENTS_MAX: Final = 200_000
"""Maximum number of events to observe again; replicas list partitions of transactions open for longer."""
_OVERHEAD_BYTES: Final = 65_536
"""Difference between the largest record and the topic's limit: headers, key, and the overhead of
compression."""


class Outbox:
    """Reads one source's notification log. Connects on first use. Use it from one thread only."""

    def __init__(
        self,
        connect: Connect,
        settings: OutboxSettings,
        *,
        hard_bytes_max: int,
        beat: Callable[[], None] = lambda: None,
        unlogged: UnloggedPartitions | None,
    ) -> None:
        """Calls ``beat`` from time to time during long work.

        Without ``unlogged``, no partition is listed.
        """
        self._settings = settings
        self._beat = beat
        self._log = EventBatches(
            connect, batch_events=settings.section.batch_events, batch_bytes=settings.batch_bytes
        )
        self._writes = WriteEventReader(connect, settings.write_connections)
        self._encoder = EventEncoder(
            settings,
            hard_bytes_max=hard_bytes_max,
            connection=self._log.connection,
            connect=connect,
            writes=self._writes,
            beat=beat,
            unlogged=unlogged,
        )
        self.observed_from: int | None = None
        """After a restart: the first event to observe again (``look_back`` before it); None if unknown."""

    @property
    def unlogged(self) -> UnloggedPartitions | ListedWrites | None:
        """Lists the files of the source's commits; None if that is switched off."""
        return self._encoder.unlogged

    def current_event_id(self) -> int:
        """Return the id of the newest event; raise Transient."""
        return self._log.current_event_id()

    def require_not_behind(self, event_id: int) -> int:
        """Return the newest event id.

        Raises Inconsistent if it is below ``event_id``, an id read earlier.
        """
        current = self.current_event_id()
        if current < event_id:
            raise Inconsistent(
                "the metastore's newest event is older than the last relayed event",
                hint="The metastore was restored from a backup, or is another one: see "
                "docs/runbooks/relay.md#the-source-was-restored-from-a-backup.",
                source=self._settings.source,
                relayed=event_id,
                current=current,
            )
        return current

    def first_event_id(self) -> int | None:
        """Return the id of the oldest event in the log; None if it is empty."""
        return self._log.first_event_id()

    def read(self, after: int, *, limit: int | None = None) -> list[OutgoingEvent]:
        """Return the next events, with the ids ``after + 1``, ``after + 2`` and so on, at most a batch.

        The list is empty if there are none yet. Raises GapDetected, Inconsistent (wrong order of the log),
        Transient.
        """
        self._encoder.learn()
        if self.unlogged is not None and self.unlogged.event_id != after:
            self._observe_again(self.unlogged, after)
        try:
            events = self._log.read(after, limit=limit)
        except LimitExceeded as error:
            if self.unlogged is not None:
                self.unlogged.miss(after + 1)
            return [self._encoder.encode_unreadable(after + 1, error)]
        check_contiguous(after, events)
        failpoint("relay.read")
        batch = self._encoder.encode(events)
        self._log.adapt(sum(item.size_bytes for item in batch))
        return batch

    def records(self, first: int, last: int, *, is_partly_read: bool = False) -> Iterator[Record]:
        """Yield the records of the events ``first`` to ``last``, both included.

        ``is_partly_read`` says that the reader has parts of the first one (``partial_commits``).

        Raises GapDetected, Inconsistent, Transient.
        """
        after = first - 1
        while after < last:
            batch = self.read(after, limit=last - after)
            if not batch:
                raise GapDetected(
                    "events were removed from the notification log", expected=after + 1, last=last, found=None
                )
            for item in batch:
                ends = is_partly_read and item.event_id == first
                yield from end_commit(item) if ends else item.records
            after = batch[-1].event_id

    def look_back(self, event_id: int) -> int:
        """Return the id of the first event to read again after a restart at ``event_id``, the last event
        read; 0 if allocations of open transactions may be unknown.
        """
        if self.unlogged is None:
            return event_id + 1
        if not self.unlogged.knows_all:
            return 0
        if self.unlogged.event_id != event_id:
            return self._start_of_observation(event_id)
        first = self.unlogged.first_event_id
        return event_id + 1 if first is None else first

    def _start_of_observation(self, after: int) -> int:
        """Return the id of the first event to observe before reading the events after ``after``."""
        first = after + 1 - _LOOK_BACK_EVENTS if self.observed_from is None else self.observed_from
        return min(after + 1, max(1, first, after - _LOOK_BACK_EVENTS_MAX))

    def _observe_again(self, unlogged: UnloggedPartitions | ListedWrites, after: int) -> None:
        """Observe the events of transactions that are open after ``after``, if the log still has them."""
        known = unlogged.event_id
        if known is None or not after - _LOOK_BACK_EVENTS_MAX - 1 <= known <= after:
            first = self._start_of_observation(after)
            unlogged.start_after(first - 1, knows_all=first in {1, self.observed_from})
        while (start := unlogged.event_id or 0) < after:
            self._beat()
            try:
                events = self._log.read(start, limit=after - start)
            except LimitExceeded:
                events = []
            if not events:
                unlogged.miss(start + 1)
            elif events[0].eventId > start + 1:
                unlogged.start_after(min(after, events[0].eventId - 1))
            for event in events:
                if event.eventId <= after:
                    unlogged.pass_over(event)

    def find_lost(self, after: int) -> range:
        """Return the ids after ``after`` that the log no longer contains.

        The range is empty if the next event is readable or does not exist.

        Raises Inconsistent if the metastore is behind ``after``, Transient, and LimitExceeded if the next
        event is too large to read.
        """
        current = self.require_not_behind(after)  # read first, so that no later event can count as lost
        events = self._log.read(after, limit=1)
        last = events[0].eventId - 1 if events else current
        return range(after + 1, last + 1)

    def skip_to(self, event_id: int) -> None:
        """Forget all facts and continue after ``event_id``, because events before it are missing."""
        self.observed_from = event_id + 1
        if self.unlogged is not None:
            self.unlogged.start_after(event_id)

    def close(self) -> None:
        """Close all connections; the next use opens them again."""
        self._encoder.close()
        self._writes.close()
        self._log.close()


def build_outbox(
    connect: Connect,
    settings: OutboxSettings,
    topic: Topic,
    *,
    beat: Callable[[], None] = lambda: None,
    unlogged: UnloggedPartitions | None = None,
) -> Outbox:
    """Return an outbox for a relay, or for a consumer that fills gaps; both produce the same bytes.

    ``unlogged`` lists writes that the source does not report. For a relay, these are partitions without a
    write event; for both, all write events if the source reports none.
    """
    hard_bytes_max = topic.settings.message_bytes_max - _OVERHEAD_BYTES
    return Outbox(connect, settings, hard_bytes_max=hard_bytes_max, beat=beat, unlogged=unlogged)


_SMALLEST_BATCH: Final = 10


class EventBatches:
    """Requests events of the notification log, in batches that the metastore is able to return.

    Both sides hold a complete answer in memory. If it is too large, or does not arrive, the next request is
    for half as many events; batches grow again while answers are small. Connects on first use. Use it from
    one thread only.
    """

    def __init__(self, connect: Connect, *, batch_events: int, batch_bytes: int) -> None:
        """Requests at most ``batch_events`` events; an answer above ``batch_bytes`` makes the next batches
        smaller.
        """
        self._connect = connect
        self._batch_events = batch_events
        self._batch_bytes = batch_bytes
        self._limit = batch_events
        self._log: NotificationLog | None = None

    def connection(self) -> NotificationLog:
        """Return the open connection; raise Transient."""
        if self._log is None:
            self._log = self._connect()
        return self._log

    def current_event_id(self) -> int:
        """Return the id of the newest event; raise Transient."""
        with _refusal_may_pass():
            return self.connection().current_event_id()

    def first_event_id(self) -> int | None:
        """Return the id of the oldest event in the log; None if it is empty."""
        events = self.connection().next_events(0, 1)
        return events[0].eventId if events else None

    def read(self, after: int, *, limit: int | None) -> list[NotificationEvent]:
        """Return the next events, at most a batch.

        Raises Transient, and LimitExceeded if a single event is too large.
        """
        limit = min(limit or self._limit, self._limit)
        while True:
            try:
                with _refusal_may_pass():
                    return self.connection().next_events(after, limit)
            except LimitExceeded:
                if limit <= 1:
                    raise
                limit = self._limit = limit // 2
            except Transient:  # perhaps the answer is too much work for the metastore
                self._limit = max(1, self._limit // 2)
                raise

    def adapt(self, size_bytes: int) -> None:
        """Adapt the next batches to the last one, whose records have ``size_bytes``."""
        if size_bytes > self._batch_bytes:
            self._limit = max(_SMALLEST_BATCH, self._limit // 2)
        else:
            self._limit = min(self._batch_events, self._limit * 2)

    def close(self) -> None:
        """Close the connection; the next use opens it again."""
        if self._log is not None:
            self._log.close()
            self._log = None


def check_contiguous(after: int, events: Sequence[NotificationEvent]) -> None:
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


@contextmanager
def _refusal_may_pass() -> Iterator[None]:
    """Convert a refusal to serve the log into a transient error, because the cause may be an access rule or
    an upgrade in progress.
    """
    try:
        yield
    except Refused as error:
        raise MetastoreUnavailable(
            "the metastore refuses to serve its notification log",
            hint="Check the access rules of its notification API; the relay tries again.",
            reason=str(error),
        ) from error
