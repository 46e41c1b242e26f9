"""Turns events of a notification log into the records of a topic.

It adds to commits their write events (``write_events``), which their messages do not contain, and the files
of partitions that have no write event (``unlogged_partitions``).

No single event blocks the log. An event that is larger than the limit becomes a record with the reason and,
if they can be found (``locate_event``), its database and table. A commit whose write events the metastore
cannot return becomes such a record, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import structlog

from daemon.config.settings.clusters import RelayConfig
from daemon.sources.listing.listed_writes import MISSED, ListedWrites
from daemon.sources.log_connections import Connect, NotificationLog
from daemon.sources.unlogged_partitions import UnloggedPartitions
from daemon.sources.write_events import Commit, CommitWrites, WriteEventReader, parse_commit
from handlers.decoding.records.commit_parts import CommitParts
from handlers.decoding.records.encoder import encode_event, encode_unreadable
from handlers.decoding.records.record_writer import Record, RecordWriter, to_printable
from handlers.failpoints import failpoint
from handlers.replication.target.same_table import LoggedWrite, select_same_partitions
from handlers.structs.notifications import NotificationEvent
from state.errors import (
    BadInput,
    LimitExceeded,
    Refused,
    TidelineError,
    Transient,
    UnloggedFilesGone,
    Unsupported,
)
from state.transactions.open_candidates import CandidateWrite


log = structlog.get_logger(__name__)

_COMMITS_AT_ONCE: Final = 32
"""Commits to complete with write events between two checks of the batch's size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxSettings:
    """Settings for reading one source's notification log."""

    source: str
    """Name of the source, and key of every record."""
    section: RelayConfig = field(default_factory=RelayConfig)
    """The section of the configuration; consumers use it too, so that their records have the same bytes."""
    batch_bytes: int = 16 * 1024 * 1024
    """A batch with more bytes makes the next batches smaller."""
    spool_dir: Path | None = None
    """Directory for the write events of a large transaction; the system's temporary directory by default."""
    write_connections: int = 2
    """Additional connections to the metastore, which fetch the write events of commits in parallel."""
    fills_gaps: bool = False
    """Whether a consumer reads events that the topic has lost. Replicas handle partitions without a write
    event of a source that reports the others.
    """


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
        """The total length of the records' values."""
        size_bytes: int | None = getattr(
            self.records, "size_bytes", None
        )  # of a large transaction, without reading it
        return sum(len(record.value) for record in self.records) if size_bytes is None else size_bytes


class EventEncoder:
    """Encodes the events of one source. Use it from the thread that reads them."""

    def __init__(
        self,
        settings: OutboxSettings,
        *,
        hard_bytes_max: int,
        connection: Callable[[], NotificationLog],
        connect: Connect,
        writes: WriteEventReader,
        beat: Callable[[], None],
        unlogged: UnloggedPartitions | None,
    ) -> None:
        """No record is larger than ``hard_bytes_max``.

        ``connection`` returns the open connection to the metastore. Calls ``beat`` from time to time during
        long work.
        """
        self._settings = settings
        self._hard_bytes_max = hard_bytes_max
        self._connection = connection
        self._writes = writes
        self._beat = beat
        self._connect = connect
        self._lister = unlogged
        self._unlogged = None if settings.fills_gaps else unlogged
        self._listed: ListedWrites | None = None
        """Replaces ``_unlogged`` if the source does not report write events."""
        self._is_asked = False
        self._supports_write_events = True

    @property
    def unlogged(self) -> UnloggedPartitions | ListedWrites | None:
        """Lists the files of the source's commits; None if that is switched off."""
        return self._listed or self._unlogged

    def learn(self) -> None:
        """If listings can replace write events, test once per connection whether the metastore reports them.
        Raises Transient. The Hive version does not show this, because vendors have added the call to Hive 3
        (reference: hive-3.1-source.md §1).
        """
        if self._lister is None or self._is_asked:
            return
        try:
            self._connection().receive_write_events(0, _Nothing())
        except Unsupported:
            log.info("the metastore does not report write events; the relay lists directories instead")
            self._listed = self._lister.to_listed_writes(self._connect, self._beat)
        except (BadInput, Refused):
            pass  # it has the call
        self._is_asked = True

    def close(self) -> None:
        """End the listings; the next use tests the metastore again, because it may be another version."""
        if self.unlogged is not None:
            self.unlogged.close()
        self._listed, self._is_asked = None, False

    def encode(self, events: Sequence[NotificationEvent]) -> list[OutgoingEvent]:
        """Encode ``events``, or only the first of them if their commits have many write events."""
        batch: list[OutgoingEvent] = []
        size_bytes = 0
        for window in _windows(events):
            writes = self._write_events(window)
            failpoint("relay.enriched")
            batch += [self._outgoing(event, writes.get(event.eventId)) for event in window]
            size_bytes += sum(item.size_bytes for item in batch[-len(window) :])
            if size_bytes > self._settings.batch_bytes:
                break
        return batch

    def encode_unreadable(self, event_id: int, error: LimitExceeded) -> OutgoingEvent:
        """Return an event that the metastore cannot return, with a record that names the reason."""
        db, table = locate_event(self._connection(), event_id)
        log.error(
            "an event is too large for the metastore's answer; the relay publishes it without its content",
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

    def _write_events(self, events: Sequence[NotificationEvent]) -> dict[int, CommitWrites | None]:
        """Return the write events of the commits by event id.

        None if the metastore has no call for them (before Hive 4).
        """
        commits = {event.eventId: (event, commit) for event in events if (commit := parse_commit(event))}
        if self._listed is not None:
            return self._list_writes(events, commits, self._listed)
        if not self._supports_write_events:
            return dict.fromkeys(commits)
        writes_by_event = {event_id: self._collect(*pair) for event_id, pair in commits.items()}
        try:
            self._writes.fetch(
                [writes for writes in writes_by_event.values() if writes.commit.wrote is not False],
                self._connection(),
            )
        except Unsupported:
            self._supports_write_events = False
            log.warning(
                "the metastore does not report write events; writes into ACID tables cannot be replicated"
            )
            return self._write_events(events)
        return dict(writes_by_event)

    def _list_writes(
        self,
        events: Sequence[NotificationEvent],
        commits: Mapping[int, tuple[NotificationEvent, Commit]],
        listed: ListedWrites,
    ) -> dict[int, CommitWrites | None]:
        """Return the write events of the commits, found by listing directories."""
        writes_by_event: dict[int, CommitWrites | None] = {}
        known: list[tuple[CommitWrites, Sequence[CandidateWrite]]] = []
        for event in events:
            listed.observe(event)
            if event.eventId not in commits:
                continue
            writes = writes_by_event[event.eventId] = self._collect(*commits[event.eventId])
            candidates = listed.end(writes.commit.txn_id)
            if candidates is None:
                writes.give_up(UnloggedFilesGone(MISSED))
            else:
                known.append((writes, candidates))
        listed.complete(known)
        failpoint("relay.listed")
        return writes_by_event

    def _collect(self, event: NotificationEvent, commit: Commit) -> CommitWrites:
        parts = CommitParts(self._writer(event), directory=self._settings.spool_dir, beat=self._beat)
        return CommitWrites(commit, parts)

    def _writer(self, event: NotificationEvent) -> RecordWriter:
        return RecordWriter(
            self._settings.source,
            event,
            record_bytes_max=self._settings.section.record_bytes_max,
            hard_bytes_max=self._hard_bytes_max,
        )

    def _outgoing(self, event: NotificationEvent, writes: CommitWrites | None) -> OutgoingEvent:
        extra = self._list_unlogged(event, writes)
        if writes is None:
            return OutgoingEvent(event.eventId, event.eventTime, encode_event(self._writer(event)))
        if writes.problem is not None and self._listed is not None:
            records = encode_event(self._writer(event), extra={"incomplete": writes.problem.message})
            return OutgoingEvent(event.eventId, event.eventTime, records)
        if writes.problem is not None:
            return self._bare(event, writes.problem)
        wrote = len(writes.parts) > 0 if writes.commit.wrote else None
        return OutgoingEvent(event.eventId, event.eventTime, writes.parts.records(extra), wrote)

    def _list_unlogged(self, event: NotificationEvent, writes: CommitWrites | None) -> dict[str, Any]:
        """Add the files of partitions without a write event.

        Returns the mark for a commit that has the files of all partitions.
        """
        if self._listed is not None:
            return {"listed": True, "unreported": True}
        if self._unlogged is None:
            return {}
        if writes is None or writes.problem is not None:
            self._unlogged.pass_over(event)
            return {}
        self._unlogged.observe(event)
        return (
            {"listed": True}
            if self._unlogged.complete(writes, self._select_same) and len(writes.parts)
            else {}
        )

    def _select_same(self, write: LoggedWrite, partitions: Iterable[str]) -> set[str]:
        """Return the partitions that still have the same names; none if the metastore does not answer."""
        try:
            return select_same_partitions(write, partitions, self._connection())
        except TidelineError:
            return set()

    def _bare(self, event: NotificationEvent, problem: TidelineError) -> OutgoingEvent:
        """Return a commit without its write events, with the reason."""
        log.error(
            "the relay publishes a commit without its write events; the policies concerned read them from "
            "the metastore",
            event_id=event.eventId,
            problem=str(problem),
        )
        reason = to_printable(f"[{problem.code}] {problem.message}")
        records = encode_event(self._writer(event), extra={"writeEventsProblem": reason})
        return OutgoingEvent(event.eventId, event.eventTime, records, unread=True)


class _Nothing:
    """A receiver that discards write events."""

    def restart(self) -> None:
        """Do nothing."""

    def receive(self, element: object) -> None:
        """Do nothing."""


def _windows(events: Sequence[NotificationEvent]) -> Iterator[Sequence[NotificationEvent]]:
    """Split ``events`` after every ``_COMMITS_AT_ONCE`` commits."""
    start = commits = 0
    for index, event in enumerate(events, 1):
        commits += event.eventType == "COMMIT_TXN"
        if commits == _COMMITS_AT_ONCE:
            yield events[start:index]
            start, commits = index, 0
    if start < len(events):
        yield events[start:]


def locate_event(log: NotificationLog, event_id: int) -> tuple[str | None, str | None]:
    """Return the names of the database and table of an event too large to read.

    They are None if they remain unknown. The metastore can count events by database and table without reading
    their messages. The search counts the event in each database, then bisects the tables of the database that
    has it. It does not find an event of a database that no longer exists.

    Raises Transient.
    """
    try:
        for db in log.database_names():
            if log.has_event(event_id, db):
                return db, _find_table(log, event_id, db, log.table_names(db))
    except Transient:
        raise
    except TidelineError:
        pass  # this Hive version cannot count
    return None, None


def _find_table(log: NotificationLog, event_id: int, db: str, tables: Sequence[str]) -> str | None:
    """Return the table among ``tables`` that the event concerns; None if there is none."""
    if not tables or not log.has_event(event_id, db, tables):
        return None
    while len(tables) > 1:
        half = tables[: len(tables) // 2]
        tables = half if log.has_event(event_id, db, half) else tables[len(half) :]
    return tables[0]
