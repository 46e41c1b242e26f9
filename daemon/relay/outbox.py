"""Reading the notification log as an outbox: every event once, in order, none missing, commits with what they wrote.

The metastore draws event ids under a lock inside the transaction that makes the change, so ids are contiguous in commit order
(reference: NOTIFICATION_SEQUENCE). A hole therefore means that the log's cleaner was faster than its reader, and is never
skipped. An event that occurs twice or out of order cannot come from one metastore's log.

COMMIT_TXN does not name the files; they are asked for by transaction (``get_all_write_event_info``). Commits that say that
they wrote nothing (Hive 4.1: ``writeIds`` is empty) are not asked about. The others' questions of one batch run side by side
on connections of their own, since a round trip for each in turn would be the relay's slowest part.

The same code fills holes of the topic for a consumer (``records``), so that both write the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

import structlog

from daemon.relay.settings import NotificationLog, RelaySettings
from handlers.decoding import Record, encode
from handlers.decoding.messages import unpack
from handlers.failpoints import failpoint
from state.errors import BadInput, GapDetected, Inconsistent, Unsupported


if TYPE_CHECKING:
    from handlers.structs import NotificationEvent, WriteEventInfo


log = structlog.get_logger(__name__)

_COMMIT: Final = "COMMIT_TXN"
_SMALLEST_BATCH: Final = 10

Connect = Callable[[], NotificationLog]


@dataclass(frozen=True, slots=True)
class Outgoing:
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


@dataclass(frozen=True, slots=True)
class _Commit:
    """What a COMMIT_TXN message says about itself; ``wrote`` is None where this generation of Hive does not tell."""

    txn_id: int
    wrote: bool | None


class Outbox:
    """Reads one source's notification log. Connects when first asked; used by one thread."""

    def __init__(self, connect: Connect, settings: RelaySettings, *, hard_bytes_max: int) -> None:
        self._connect = connect
        self._settings = settings
        self._hard_bytes_max = hard_bytes_max
        self._log: NotificationLog | None = None
        self._writes = _WriteEvents(connect, settings.write_connections)
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

    def read(self, after: int, *, limit: int | None = None) -> list[Outgoing]:
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

    def _encode(self, events: Sequence[NotificationEvent]) -> list[Outgoing]:
        commits = {event.eventId: found for event in events if (found := _commit_of(event)) is not None}
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
        commit: _Commit | None,
        writes: dict[int, list[WriteEventInfo]] | None,
    ) -> Outgoing:
        found = None if commit is None or writes is None else writes.get(event.eventId, [])
        records = encode(
            self._settings.source,
            event,
            found,
            record_bytes_max=self._settings.record_bytes_max,
            hard_bytes_max=self._hard_bytes_max,
        )
        wrote = bool(found) if commit is not None and commit.wrote and found is not None else None
        return Outgoing(event.eventId, event.eventTime, records, wrote)

    def _adapt(self, size_bytes: int) -> None:
        """Keep batches of large events small: an answer is in memory as a whole."""
        if size_bytes > self._settings.batch_bytes:
            self._limit = max(_SMALLEST_BATCH, self._limit // 2)
        else:
            self._limit = min(self._settings.batch_events, self._limit * 2)


class _WriteEvents:
    """Asks for the write events of many transactions side by side."""

    def __init__(self, connect: Connect, connections: int) -> None:
        self._connect = connect
        self._size = connections
        self._idle: SimpleQueue[NotificationLog | None] = SimpleQueue()
        self._pool: ThreadPoolExecutor | None = None

    def of(self, asked: Sequence[tuple[int, int]], log: NotificationLog) -> dict[int, list[WriteEventInfo]]:
        """Return the write events by event id; ``asked`` holds (event id, transaction id), ``log`` is free meanwhile."""
        if len(asked) < 2 or self._size < 1:
            return {event_id: _ordered(log.write_events(txn_id)) for event_id, txn_id in asked}
        answers = self._workers().map(self._ask, [txn_id for _, txn_id in asked])
        return {event_id: writes for (event_id, _), writes in zip(asked, answers, strict=True)}

    def close(self) -> None:
        """Close the connections and end the threads."""
        if self._pool is None:
            return
        self._pool.shutdown(cancel_futures=True)
        self._pool = None
        with ExitStack() as closing_all:
            while not self._idle.empty():
                log = self._idle.get()
                if log is not None:
                    closing_all.enter_context(closing(log))

    def _workers(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._size, thread_name_prefix="relay-writes")
            for _ in range(self._size):
                self._idle.put(None)
        return self._pool

    def _ask(self, txn_id: int) -> list[WriteEventInfo]:
        log = self._idle.get()
        try:
            log = log or self._connect()
            return _ordered(log.write_events(txn_id))
        finally:
            self._idle.put(log)


def _ordered(writes: list[WriteEventInfo]) -> list[WriteEventInfo]:
    """Order what the metastore returns in no promised order: a torn event has to be completed with the very same parts."""
    return sorted(
        writes, key=lambda write: (write.writeId, write.database, write.table, write.partition or "")
    )


def _commit_of(event: NotificationEvent) -> _Commit | None:
    """Read a COMMIT_TXN; None for other events, and for one that cannot be read (its record will say so)."""
    if event.eventType != _COMMIT:
        return None
    try:
        message = unpack(event.message, event.messageFormat)
    except BadInput:
        return None
    txn_id: Any = message.get("txnid")
    write_ids = message.get("writeIds")
    if type(txn_id) is not int:
        return None
    return _Commit(txn_id, bool(write_ids) if isinstance(write_ids, list) else None)


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
