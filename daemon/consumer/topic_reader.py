"""Turns the records of a topic into contiguous events.

Offsets do not prove that a record is the next one: some have no record (markers, expiry), and a topic can be
truncated or recreated while the reader reads it. Event ids are contiguous, so the reader compares each event
with the last one delivered:

- It delivers the next event.
- It drops and counts an event delivered before.
- A later event shows a gap in the topic, repaired in up to three steps:

  1. search the topic for the next event, because it may have changed;
  2. read the missing events from the notification log, encoded as by the relay;
  3. if the log does not contain them either, raise GapDetected.

A relay that lost events itself writes one record that says which (``EventsLost``). It is a gap for every
position before its end.

An undecodable record goes to the dead letters first (``record_decoder``). If the record contains its event
id, the reader then delivers it as Undecodable, so that the projection can quarantine its table. If the record
does not name a database, it could concern every table; the reader then reads the event from the notification
log, and delivers it as Undecodable only if that fails too. The reader skips a record without an event id. If
it was an event, the ids then show a gap.

A record that the notification log contradicts is not of this source (``log_check``). It goes to the dead
letters. The reader queries the log before it repairs a gap, so a forged id has no effect. If a source signs
its records, the reader skips those without a valid signature in the same way, and they cannot fill a gap.

If reading fails, the call returns the events before the failure, and the next call raises the error.

Formats without event ids have only offsets. Then the id is offset + 1, missing offsets are normal, and lost
events go unnoticed.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import structlog

from daemon.consumer.event_reader import Batch, Passage, missing_event_ids
from daemon.consumer.fetcher import Fetcher
from daemon.consumer.log_check import LogCheck
from daemon.consumer.record_decoder import RecordDecoder
from daemon.consumer.seeker import Seeker
from daemon.consumer.settings import ConsumerSettings, DeadLetterSink, GapFiller, ReaderStatus
from daemon.kafka.broker import BrokerSettings, TopicRecord
from daemon.kafka.topic import Topic
from handlers.events import Event, EventsLost, Undecodable
from state.errors import BadInput, GapDetected, Inconsistent, KafkaUnavailable, TidelineError
from state.event_log.positions import Position, Step


log = structlog.get_logger(__name__)

_REMEDY: Final = (
    "The event can be read neither from the topic nor from the notification log, and does not name its "
    "table: see 'tideline dlq show'. Policies load the tables that it may have changed."
)


class TopicReader:
    """Reads one topic for one projection. Use it from one thread only; ``status`` is thread-safe.

    Call ``seek`` first. After an error call ``close``, then ``seek`` again.
    """

    def __init__(
        self,
        broker: BrokerSettings,
        topic: Topic,
        settings: ConsumerSettings,
        sink: DeadLetterSink,
        filler: GapFiller | None = None,
    ) -> None:
        self._broker = broker
        self._settings = settings
        self._filler = filler
        self._log_check = None if filler is None else LogCheck(filler)
        self._seeker = Seeker(broker, topic, settings.format, settings.signatures)
        self._decoder = RecordDecoder(settings, sink)
        self._fetcher: Fetcher | None = None
        self._ahead: deque[TopicRecord] = deque()
        self._filling: Iterator[TopicRecord] | None = None
        self._ended = False
        self._filled_before: int | None = None
        self._last_ms = 0
        """Timestamp of the record of the last event."""
        self._lost_in_a_row = 0
        self._position = Position(0)
        self._failure: TidelineError | None = None
        self._offset = 0
        self._committed_at_s = 0.0
        self.status = ReaderStatus(topic.name)

    @property
    def wakes(self) -> bool:
        """Always False: ``read`` waits for events instead."""
        return False

    def find_passed(self) -> None:
        """Return None: the projection receives every event."""

    @property
    def has_event_ids(self) -> bool:
        """Whether the topic's records have event ids; known after ``seek``."""
        return not self._seeker.offsets_are_ids

    def look_back(self, position: Position, records: int) -> Position:
        """Return an earlier position, by about ``records``; raise the errors of ``seek``."""
        return self._seeker.look_back(position, records)

    def seek(self, position: Position) -> None:
        """Continue after ``position``.

        Raises ConfigError, KafkaUnavailable, GapDetected (formats without event ids).
        """
        try:
            start = self._seeker.seek(position)
        finally:
            self._require_event_ids()
        self._decoder.offsets_are_ids = self._seeker.offsets_are_ids
        self._position = position
        self._filling, self._filled_before = None, None
        self._failure = None
        self._fetch_from(start.offset)
        if start.empty and not self._seeker.offsets_are_ids:
            self._fill_empty_topic()
        self.status = replace(self.status, position=position, offset=start.offset, caught_up=False)

    def _require_event_ids(self) -> None:
        """Raise ConfigError if the reader needs event ids and the topic's format (configured or detected) has
        none.
        """
        if self._settings.needs_event_ids and not self.has_event_ids:
            raise missing_event_ids(self.status.topic)

    def read(self, timeout_s: float) -> Batch:
        """Return the next events, at most ``batch_events`` and about ``batch_bytes``.

        Waits up to ``timeout_s`` for the first. Raises GapDetected with both ids, ConfigError and Transient.
        """
        if self._failure is not None:
            raise self._failure
        self._ended = self._take(timeout_s)
        events: list[Event] = []
        sizes_bytes: list[int] = []
        try:
            duplicates, filled = self._read(events, sizes_bytes)
        except TidelineError as error:
            if not events:
                raise
            self._failure, duplicates, filled = error, 0, 0
        caught_up = self._ended and not self._ahead and self._filling is None and self._failure is None
        self._update_status(len(events), duplicates, filled, caught_up=caught_up)
        time_s = events[-1].time_s if events else None
        passage = Passage(self._last_ms / 1000, time.time()) if events and self._last_ms else None
        return Batch(tuple(events), self._position, caught_up, time_s, tuple(sizes_bytes), passage)

    def _read(self, events: list[Event], sizes_bytes: list[int]) -> tuple[int, int]:
        """Append the next events and their lengths.

        Returns how many were duplicates, and how many filled a gap.
        """
        duplicates = filled = size_bytes = 0
        while (
            len(events) < self._settings.batch_events
            and size_bytes < self._settings.batch_bytes
            and (record := self._next()) is not None
        ):
            event = self._decoder.decode(record)
            size_bytes += record.size_bytes + (0 if event is None else event.unpacked_bytes)
            if (
                isinstance(event, Undecodable)
                and event.db is None
                and self._position.step(event.event_id, event.part) is Step.NEXT
            ):
                record, event = self._read_again(record, event)
            step = None if event is None else self._step(record, event)
            if event is None or step is Step.DUPLICATE:
                duplicates += event is not None and record.offset is not None
            elif self._is_foreign(record, event, step):
                continue
            elif step is Step.GAP:
                self._repair_gap(record, event)
            elif isinstance(event, EventsLost):
                raise self._gap(event)
            else:
                self._accept(record, event)
                events.append(event)
                sizes_bytes.append(record.size_bytes + event.unpacked_bytes)
                filled += record.offset is None
        return duplicates, filled

    def acknowledge(self, position: Position) -> None:
        """Record that the projection has applied all events up to ``position``. Commits the offset from time
        to time, for monitoring tools.
        """
        due = time.monotonic() - self._committed_at_s >= self._settings.commit_s
        if due and self._fetcher is not None and position == self._position:
            self._fetcher.commit(self._offset)
            self._committed_at_s = time.monotonic()

    def close(self) -> None:
        """Stop fetching and release connections; ``seek`` may follow."""
        if self._fetcher is not None:
            self._fetcher.close()
            self._fetcher = None
        if self._filler is not None:
            self._filler.close()

    def _take(self, timeout_s: float) -> bool:
        """Fetch more records if the buffer is empty.

        Returns whether the topic ends after the buffered records.
        """
        assert self._fetcher is not None, "seek first"
        if self._ahead or self._filling is not None:
            return False
        batch = self._fetcher.take(self._settings.batch_events, timeout_s)
        if batch.lost is not None:
            self._search_again(batch.lost)
            return False
        if batch.records or batch.ended:
            self._lost_in_a_row = 0
        if batch.records and self._seeker.undecided:  # now a record exists from which to detect the format
            self.seek(self._position)
            return False
        self._ahead.extend(batch.records)
        return batch.ended

    def _next(self) -> TopicRecord | None:
        """Return the next record: first those that fill a gap, then fetched ones."""
        if self._filling is not None:
            record = next(self._filling, None)
            if record is not None:
                return record
            self._filling = None
        if not self._ahead:
            return None
        record = self._ahead.popleft()
        assert record.offset is not None, "fetched records have an offset"
        self._offset = record.offset + 1
        return record

    def _read_again(self, record: TopicRecord, event: Undecodable) -> tuple[TopicRecord, Event]:
        """Replace a record that could concern every table by the same event from the notification log.

        Returns the given record and event, with a hint, if the log does not have the event or it is as
        unreadable there. Raises Transient.
        """
        if record.offset is None or self._filler is None or self._decoder.offsets_are_ids:
            return record, event
        try:
            for found in self._fill(event.event_id, event.event_id):
                again = self._decoder.decode(found)
                if again is not None and again.part == event.part and not isinstance(again, Undecodable):
                    self._decoder.reject(record, event)
                    return found, again
        except Inconsistent:
            pass  # a gap, or another metastore: there is no better information
        return record, replace(event, error=_with_remedy(event.error))

    def _is_foreign(self, record: TopicRecord, event: Event, step: Step | None) -> bool:
        """Check a record that does not simply continue the topic. If the log contradicts it, write a dead
        letter and return True.
        """
        if step is Step.NEXT and not isinstance(event, EventsLost):
            return False
        if self._log_check is None or record.offset is None or self._decoder.offsets_are_ids:
            return False
        error = self._log_check.find_contradiction(event, self._position)
        if error is not None:
            self._decoder.refuse_foreign(record, error, event.event_id)
        return error is not None

    def _step(self, record: TopicRecord, event: Event) -> Step:
        step = self._position.step(event.event_id, event.part)
        if step is Step.DUPLICATE and self._ends_partial_event(record, event):
            return Step.NEXT
        return Step.NEXT if step is Step.GAP and self._decoder.offsets_are_ids else step

    def _ends_partial_event(self, record: TopicRecord, event: Event) -> bool:
        """Return whether this record is the last part, from the notification log, of an event whose first
        parts were read.

        The relay may have added parts read from files (``handlers.decoding.records.commit_parts``); the log
        has fewer then, or only the last one (``daemon.sources.partial_commits``).
        """
        position = self._position
        return (
            record.offset is None
            and not position.complete
            and event.event_id == position.event_id
            and event.parts < position.parts
            and event.part + 1 == event.parts
        )

    def _accept(self, record: TopicRecord, event: Event) -> None:
        self._decoder.accept(record, event)
        self._position = Position(event.event_id, event.part, event.parts)
        self._last_ms = record.time_ms
        if record.offset is not None:
            self._seeker.remember(self._position, record.offset)
            self._filled_before = None

    def _repair_gap(self, record: TopicRecord, event: Event) -> None:
        """Find the events that are missing before ``event`` (the steps are in the module docstring). Raises
        GapDetected.
        """
        expected = self._position.expected()
        are_lost = isinstance(event, EventsLost) and event.first_event_id <= expected[0]
        if record.offset is None or record.offset == self._filled_before or are_lost:
            raise self._gap(event)  # 3. The log has the gap, too.
        # 1.
        offset = self._seeker.next_offset(self._position)
        if offset is not None:
            self._search(offset)
            return
        if self._filler is None:
            raise self._gap(event)
        # 2.
        log.warning(
            "events are missing in the topic; reading them from the notification log",
            expected=expected[0],
            found=event.event_id,
        )
        self._filled_before = record.offset
        self._ahead.appendleft(record)
        self._offset = record.offset
        self._filling = self._fill(expected[0], event.event_id if event.part else event.event_id - 1)

    def _search(self, offset: int) -> None:
        self._fetch_from(offset)
        self.status = replace(self.status, searches=self.status.searches + 1)

    def _fill(self, first: int, last: int) -> Iterator[TopicRecord]:
        assert self._filler is not None
        is_partly_read = not self._position.complete and self._position.event_id == first
        return (
            TopicRecord(None, record.value, record.headers, record.key)
            for record in self._filler.records(first, last, is_partly_read=is_partly_read)
        )

    def _fill_empty_topic(self) -> None:
        """Read events after the position from the notification log: an empty topic cannot show a gap."""
        if self._filler is None:
            return
        current = self._filler.current_event_id()
        if current > self._position.applied_event_id:
            self._filling = self._fill(self._position.expected()[0], current)

    def _search_again(self, reason: str) -> None:
        """Search the offset of the position again, because the topic no longer has the old one."""
        self._lost_in_a_row += 1
        if self._lost_in_a_row > 1:
            raise KafkaUnavailable(
                "the topic changes while it is read", topic=self.status.topic, reason=reason
            )
        log.warning(
            "the topic was truncated or recreated; searching for the position",
            topic=self.status.topic,
            reason=reason,
        )
        self.status = replace(self.status, searches=self.status.searches + 1)
        self.seek(self._position)

    def _fetch_from(self, offset: int) -> None:
        self._ahead.clear()
        self._ended = False
        self._offset = offset
        if self._fetcher is not None:
            self._fetcher.close()
        self._fetcher = Fetcher(self._broker, self.status.topic, offset, self._settings)

    def _gap(self, event: Event) -> GapDetected:
        return GapDetected(
            "events are missing in the topic and in the notification log",
            topic=self.status.topic,
            expected=self._position.expected()[0],
            found=event.event_id,
        )

    def _update_status(self, events: int, duplicates: int, filled: int, *, caught_up: bool) -> None:
        status = self.status
        self.status = replace(
            status,
            position=self._position,
            offset=self._offset,
            caught_up=caught_up,
            events=status.events + events,
            duplicates=status.duplicates + duplicates,
            filled=status.filled + filled,
            dead_letters=self._decoder.dead_letters,
            unknown=self._decoder.unknown,
            foreign=self._decoder.foreign,
        )


def _with_remedy(error: BadInput) -> BadInput:
    """Return ``error`` with a hint: the command that helps if an unreadable event does not name its table."""
    return type(error)(error.message, hint=_REMEDY, **error.context)
