"""Reads the notification log as an outbox: every event once, in order, without omissions, and commits with their write events.

The metastore assigns event ids under a lock inside the transaction of the change, so ids are contiguous in commit order (reference:
NOTIFICATION_SEQUENCE). A gap therefore means that the log was cleaned before it was read, and is never skipped. A repeated or
unordered event cannot come from the log of one metastore.

Commits are completed with their write events (``write_events``), which their messages do not contain. The same code fills gaps of the
topic for consumers (``records``), so that both produce the same bytes.

No event stops the log for all others, and none needs unlimited memory (``event_batches``). A single event that is larger than the limit
becomes a record that names its database and table (``event_locator``), if they can be found, and the reason.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog

from daemon.sources.event_batches import EventBatches, check_contiguous
from daemon.sources.event_locator import locate_event
from daemon.sources.write_events import CommitWrites, WriteEventReader, parse_commit
from handlers.decoding.records.commit_parts import CommitParts
from handlers.decoding.records.encoder import encode_event, encode_unreadable
from handlers.decoding.records.record_writer import RecordWriter, to_printable
from handlers.failpoints import failpoint
from handlers.replication.transactions.same_table import select_same_partitions
from handlers.structs.notifications import NotificationEvent
from state.errors import (
    GapDetected,
    Inconsistent,
    LimitExceeded,
    TidelineError,
    Unsupported,
)


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from daemon.kafka.topic import Topic
    from daemon.sources.unlogged_partitions import UnloggedPartitions
    from daemon.sources.write_events import Commit, Connect
    from handlers.decoding.records.record_writer import Record
    from handlers.replication.transactions.same_table import LoggedWrite


log = structlog.get_logger(__name__)

_COMMITS_AT_ONCE: Final = 32
"""Commits whose write events are fetched before it is checked whether the batch is large enough."""
_LOOK_BACK_EVENTS: Final = 10_000
"""Events that are observed again after a restart if it is not known from which on that is necessary."""
_LOOK_BACK_EVENTS_MAX: Final = 200_000
"""Most events that are observed again; partitions of transactions that are open for longer are listed by replicas."""
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
    spool_dir: Path | None = None
    """Where the write events of a large transaction wait; the system's temporary directory by default."""
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

    unread: bool = False
    """Whether the metastore could not return the event, or a commit's write events."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all records' values."""
        known: int | None = getattr(
            self.records, "size_bytes", None
        )  # of a large transaction, without reading it
        return sum(len(record.value) for record in self.records) if known is None else known


class Outbox:
    """Reads one source's notification log. Connects on first use; used by one thread."""

    def __init__(
        self,
        connect: Connect,
        settings: OutboxSettings,
        *,
        hard_bytes_max: int,
        beat: Callable[[], None] = lambda: None,
        unlogged: UnloggedPartitions | None = None,
    ) -> None:
        """``beat`` is called from time to time during long work. Without ``unlogged``, no partition is listed."""
        self._settings = settings
        self._hard_bytes_max = hard_bytes_max
        self._beat = beat
        self.unlogged = unlogged
        self._log = EventBatches(
            connect, batch_events=settings.batch_events, batch_bytes=settings.batch_bytes
        )
        self._writes = WriteEventReader(connect, settings.write_connections)
        self._supports_write_events = True
        self.observed_from: int | None = None
        """After a restart: the event from which on the log is observed again (``look_back`` before it); None if unknown."""

    def current_event_id(self) -> int:
        """Return the id of the newest event; raise Transient."""
        return self._log.current_event_id()

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
        return self._log.first_event_id()

    def read(self, after: int, *, limit: int | None = None) -> list[OutgoingEvent]:
        """Return the next events with ids ``after + 1``, ``after + 2``, …, at most a batch; [] if there are none yet.

        Raises GapDetected, Inconsistent (the log's order is broken), Transient.
        """
        if self.unlogged is not None and self.unlogged.event_id != after:
            self._observe_again(self.unlogged, after)
        try:
            events = self._log.read(after, limit=limit)
        except LimitExceeded as error:
            if self.unlogged is not None:
                self.unlogged.event_id = after + 1
            return [self._unreadable(after + 1, error)]
        check_contiguous(after, events)
        failpoint("relay.read")
        batch = self._encode(events)
        self._log.adapt(sum(item.size_bytes for item in batch))
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

    def look_back(self, event_id: int) -> int:
        """Return the event from which on the log must be observed again for a restart after ``event_id``, the last event read."""
        if self.unlogged is None:
            return event_id + 1
        if self.unlogged.event_id != event_id:
            return self._start_of_observation(event_id)
        first = self.unlogged.first_event_id
        return event_id + 1 if first is None else first

    def _start_of_observation(self, after: int) -> int:
        """Return the first event to observe before the one after ``after`` is read."""
        first = after + 1 - _LOOK_BACK_EVENTS if self.observed_from is None else self.observed_from
        return min(after + 1, max(1, first, after - _LOOK_BACK_EVENTS_MAX))

    def _observe_again(self, unlogged: UnloggedPartitions, after: int) -> None:
        """Observe the events of transactions that are open after event ``after``, as far as the log still has them."""
        if unlogged.event_id is None or unlogged.event_id > after:
            unlogged.start_after(self._start_of_observation(after) - 1)
        while (start := unlogged.event_id or 0) < after:
            self._beat()
            try:
                events = self._log.read(start, limit=after - start)
            except LimitExceeded:
                events = []
            if not events or events[0].eventId > after:
                unlogged.event_id = start + 1 if not events else after
            for event in events:
                if event.eventId <= after:
                    self._observe(unlogged, event)

    def _observe(self, unlogged: UnloggedPartitions, event: NotificationEvent) -> None:
        unlogged.observe(event)
        if (commit := parse_commit(event)) is not None:
            unlogged.skip(commit.txn_id)

    def find_lost(self, after: int) -> range:
        """Return the ids after ``after`` that the log does not contain any more; empty if the next event can be read or does not exist.

        Raises Inconsistent if the metastore is behind, Transient, and LimitExceeded if the next event is too large to tell.
        """
        current = self.require_not_behind(after)  # read first, so that no later event can count as lost
        events = self._log.read(after, limit=1)
        last = events[0].eventId - 1 if events else current
        return range(after + 1, last + 1)

    def skip_to(self, event_id: int) -> None:
        """Observe nothing of the events up to ``event_id``, because some of them are lost."""
        self.observed_from = event_id + 1
        if self.unlogged is not None:
            self.unlogged.start_after(event_id)

    def close(self) -> None:
        """Close all connections; they are opened again on the next use."""
        if self.unlogged is not None:
            self.unlogged.close()
        self._writes.close()
        self._log.close()

    def _unreadable(self, event_id: int, error: LimitExceeded) -> OutgoingEvent:
        """Return the event that the metastore cannot return, with a record that says so."""
        db, table = locate_event(self._log.connection(), event_id)
        log.error(
            "an event is too large for the metastore's answer; it is relayed without its content",
            event_id=event_id,
            db=db,
            table=table,
            problem=str(error),
        )
        event = NotificationEvent(
            eventId=event_id, eventTime=int(time.time()), eventType="", dbName=db, tableName=table, message=""
        )
        records = encode_unreadable(self._writer(event), error)
        return OutgoingEvent(event_id, event.eventTime, records, unread=True)

    def _encode(self, events: Sequence[NotificationEvent]) -> list[OutgoingEvent]:
        """Encode ``events``, or only the first of them if the write events of their commits are many."""
        batch: list[OutgoingEvent] = []
        size_bytes = 0
        for window in _windows(events):
            found = self._write_events(window)
            failpoint("relay.enriched")
            batch += [self._outgoing(event, found.get(event.eventId)) for event in window]
            size_bytes += sum(item.size_bytes for item in batch[-len(window) :])
            if size_bytes > self._settings.batch_bytes:
                break
        return batch

    def _write_events(self, events: Sequence[NotificationEvent]) -> dict[int, CommitWrites | None]:
        """Return the write events of the commits by event id; None for one if the metastore (before Hive 4) has no call for them."""
        commits = {event.eventId: (event, commit) for event in events if (commit := parse_commit(event))}
        if not self._supports_write_events:
            return dict.fromkeys(commits)
        found = {event_id: self._collect(*pair) for event_id, pair in commits.items()}
        try:
            self._writes.fetch(
                [writes for writes in found.values() if writes.commit.wrote is not False],
                self._log.connection(),
            )
        except Unsupported:
            self._supports_write_events = False
            log.warning(
                "the metastore does not report write events of commits; ACID tables cannot be replicated"
            )
            return self._write_events(events)
        return dict(found)

    def _collect(self, event: NotificationEvent, commit: Commit) -> CommitWrites:
        parts = CommitParts(self._writer(event), directory=self._settings.spool_dir, beat=self._beat)
        return CommitWrites(commit, parts)

    def _writer(self, event: NotificationEvent) -> RecordWriter:
        return RecordWriter(
            self._settings.source,
            event,
            record_bytes_max=self._settings.record_bytes_max,
            hard_bytes_max=self._hard_bytes_max,
        )

    def _outgoing(self, event: NotificationEvent, writes: CommitWrites | None) -> OutgoingEvent:
        extra = self._list_unlogged(event, writes)
        if writes is None:
            return OutgoingEvent(event.eventId, event.eventTime, encode_event(self._writer(event)))
        if writes.problem is not None:
            return self._bare(event, writes.problem)
        wrote = len(writes.parts) > 0 if writes.commit.wrote else None
        return OutgoingEvent(event.eventId, event.eventTime, writes.parts.records(extra), wrote)

    def _list_unlogged(self, event: NotificationEvent, writes: CommitWrites | None) -> dict[str, Any]:
        """Add the files of partitions without write event to ``writes``; return the mark of a commit that has all of them."""
        if self.unlogged is None:
            return {}
        if writes is None or writes.problem is not None:
            self._observe(self.unlogged, event)
            return {}
        self.unlogged.observe(event)
        return (
            {"listed": True}
            if self.unlogged.complete(writes, self._select_same) and len(writes.parts)
            else {}
        )

    def _select_same(self, write: LoggedWrite, partitions: Iterable[str]) -> set[str]:
        """Return the partitions that still have their names at the source; none if the metastore does not answer."""
        try:
            return select_same_partitions(write, partitions, self._log.connection())
        except TidelineError:
            return set()

    def _bare(self, event: NotificationEvent, problem: TidelineError) -> OutgoingEvent:
        """Return a commit without its write events, which says why."""
        log.error(
            "a commit is relayed without its write events; policies that it concerns read them for themselves",
            event_id=event.eventId,
            problem=str(problem),
        )
        reason = to_printable(f"[{problem.code}] {problem.message}")
        records = encode_event(self._writer(event), extra={"writeEventsProblem": reason})
        return OutgoingEvent(event.eventId, event.eventTime, records, unread=True)


def _windows(events: Sequence[NotificationEvent]) -> Iterator[Sequence[NotificationEvent]]:
    """Cut ``events`` after every ``_COMMITS_AT_ONCE`` commits."""
    start = commits = 0
    for index, event in enumerate(events, 1):
        commits += event.eventType == "COMMIT_TXN"
        if commits == _COMMITS_AT_ONCE:
            yield events[start:index]
            start, commits = index, 0
    if start < len(events):
        yield events[start:]


def build_outbox(
    connect: Connect,
    settings: OutboxSettings,
    topic: Topic,
    *,
    beat: Callable[[], None] = lambda: None,
    unlogged: UnloggedPartitions | None = None,
) -> Outbox:
    """Return an outbox, for a relay or for a consumer that fills gaps; both produce the same bytes.

    Only a relay adds the parts of partitions that it lists (``unlogged``).
    """
    hard_bytes_max = topic.settings.message_bytes_max - _OVERHEAD_BYTES
    return Outbox(connect, settings, hard_bytes_max=hard_bytes_max, beat=beat, unlogged=unlogged)
