"""Finds the offset of a position in a topic by bisection.

A position names an event, not an offset, because offsets lose their meaning when a topic changes (truncated,
recreated, mirrored). The topic is in the order of (event id, part), so bisection finds the offset: about 17
single reads for 100,000 records.

A real topic also contains offsets without a record (transaction markers, expired records), records that are
not events (skipped), and short disorder if two relays overlapped. Bisection still ends at a record after the
position whose predecessor is not. If that record is not the next event, the search also reads a limited
number of records before it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from daemon.kafka.broker import BrokerSettings, translate_error, translate_errors
from daemon.kafka.signatures import Signatures
from daemon.kafka.topic import PARTITION, Watermarks
from handlers.decoding.decoder import decode
from handlers.decoding.header import peek_position
from handlers.unreadable_batches import READER_LIMITS, find_end, is_unreadable_batch
from state.errors import BadInput, KafkaUnavailable
from state.event_log.positions import Position


_OVERLAP: Final = 2_000
"""Number of records to search before the bisected offset if the next event is not there: several times the
number that a producer has in flight.
"""
_SIGNED_LOOK_BACK: Final = 10_000
"""Offsets at the end of the topic among which signed records are searched."""


@dataclass(frozen=True, slots=True)
class LocatedRecord:
    """A record that contains its event id, and its offset."""

    offset: int
    position: Position
    value: bytes


class Records(Protocol):
    """Random access to a topic: the part of ``OffsetReader`` that the searches need."""

    def watermarks(self) -> Watermarks:
        """Return the readable offsets."""

    def first_from(self, offset: int, end: int) -> LocatedRecord | None:
        """Return the first record from ``offset`` up to, but not including, ``end`` that contains its event
        id.
        """


def find_last(records: Records, *, upto: int = 2**63) -> LocatedRecord | None:
    """Return the last record with an event id of at most ``upto``; None if there is none.

    Searches backwards in growing strides, because the topic may end with markers and foreign records.
    """
    marks = records.watermarks()
    end, stride = marks.high, 1
    while end > marks.low:
        start = max(marks.low, end - stride)
        record = _last_within(records, start, end, upto)
        if record is not None:
            return record
        end, stride = start, stride * 2
    return None


def _last_within(records: Records, start: int, end: int, upto: int) -> LocatedRecord | None:
    last, at = None, start
    while (record := records.first_from(at, end)) is not None:
        last, at = record if record.position.event_id <= upto else last, record.offset + 1
    return last


def find_offset(records: Records, position: Position) -> int:
    """Return the offset at which to continue after ``position``.

    The reader has applied all records before it. The record at the offset, if there is one, is the next
    event, or a later one if the topic does not contain the next. Raises KafkaUnavailable.
    """
    marks = records.watermarks()
    low, high = marks.low, marks.high
    above: LocatedRecord | None = None
    while low < high:
        middle = (low + high) // 2
        record = records.first_from(middle, high)
        if record is None:
            high = middle
        elif position.covers(record.position.event_id, record.position.part):
            low = record.offset + 1
        else:
            high, above = middle, record
    if above is None or _is_next(position, above) or low == marks.low:
        return low
    return _next_before(records, position, low)


def _is_next(position: Position, record: LocatedRecord) -> bool:
    return (record.position.event_id, record.position.part) == position.expected()


def _next_before(records: Records, position: Position, offset: int) -> int:
    """Return the offset of the next event if it is among the records before ``offset``, otherwise
    ``offset``.
    """
    at = max(records.watermarks().low, offset - _OVERLAP)
    while (record := records.first_from(at, offset)) is not None:
        if _is_next(position, record):
            return record.offset
        at = record.offset + 1
    return offset


def is_at(records: Records, position: Position, offset: int) -> bool:
    """Return whether the record at ``offset`` still has ``position``, so that no search is necessary."""
    marks = records.watermarks()
    if not marks.low <= offset < marks.high:
        return False
    record = records.first_from(offset, offset + 1)
    return record is not None and record.position == position


def find_next(records: Records, position: Position) -> int | None:
    """Return the offset of the next event after ``position``; None if the topic does not contain it."""
    offset = find_offset(records, position)
    record = records.first_from(offset, records.watermarks().high)
    return offset if record is not None and _is_next(position, record) else None


class OffsetReader:
    """A short-lived consumer that reads single records at given offsets. Use it from one thread only."""

    def __init__(self, broker: BrokerSettings, topic: str, signatures: Signatures | None = None) -> None:
        """With ``signatures``, the reader skips unsigned records, and reads only the end of the topic,
        because the topic may have millions of unsigned records.
        """
        self._signatures = signatures
        self._topic = topic
        self._timeout_s = broker.timeout_s
        self._next: int | None = None
        self._consumer = Consumer(
            broker.librdkafka(
                group_id="tideline-probe",  # required by the library; nothing is ever committed
                enable_auto_commit=False,
                enable_partition_eof=True,
                isolation_level="read_committed",
                auto_offset_reset="error",
                check_crcs=True,
                fetch_wait_max_ms=50,
                # One record is enough; the broker sends a record completely even if it is larger than this.
                fetch_message_max_bytes=65536,
                **READER_LIMITS,
                queued_min_messages=1,
                # By default, a client with a full queue waits 1 s before it fetches from a new offset.
                fetch_queue_backoff_ms=5,
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def watermarks(self) -> Watermarks:
        """Return the readable offsets; raise NotFound, KafkaUnavailable."""
        with translate_errors("read the topic's offsets", topic=self._topic):
            low, high = self._consumer.get_watermark_offsets(
                TopicPartition(self._topic, PARTITION), timeout=self._timeout_s
            )
        return Watermarks(low if self._signatures is None else max(low, high - _SIGNED_LOOK_BACK), high)

    def first_from(self, offset: int, end: int) -> LocatedRecord | None:
        """Return the first record in ``offset`` to ``end`` that contains its event id.

        Raises KafkaUnavailable.
        """
        return next(
            (found for at, value in self.values(offset, end) if (found := _locate(at, value)) is not None),
            None,
        )

    def values(self, offset: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield (offset, value) of the records in ``offset`` to ``end``; raise KafkaUnavailable."""
        self._seek(offset)
        while offset < end:
            message = self._read()
            if message is None:
                return
            at: Any = message.offset()
            self._next = offset = at + 1  # even for a record beyond the range: the library has read it
            if at >= end:
                return
            value: Any = message.value()
            headers: Any = message.headers() or ()
            if self._signatures is None or self._signatures.are_valid(value, headers):
                yield at, value or b""

    def _seek(self, offset: int) -> None:
        """Move to ``offset``, unless the last read ended there."""
        if offset == self._next:
            return
        with translate_errors("read the topic", topic=self._topic):
            self._consumer.assign([TopicPartition(self._topic, PARTITION, offset)])
        self._next = offset

    def _read(self) -> Message | None:
        """Return the next record, or None at the end of the topic."""
        deadline = time.monotonic() + self._timeout_s
        while time.monotonic() < deadline:
            message = self._consumer.poll(0.2)
            error = None if message is None else message.error()
            if message is not None and error is None:
                return message
            if error is not None and is_unreadable_batch(error):
                assert message is not None
                first: Any = message.offset()
                with translate_errors("read the topic", topic=self._topic):
                    find_end(self._consumer, TopicPartition(self._topic, PARTITION, first), self._timeout_s)
                continue
            self._next = None  # after an end or an error the library's position is undefined: assign again
            # SLF001: librdkafka's local codes are spelled so
            if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                return None
            if error is not None and not error.retriable() and not _is_temporary(error):
                raise translate_error(error, "read the topic", topic=self._topic)
        raise KafkaUnavailable("the topic could not be read in time", topic=self._topic)


def _is_temporary(error: KafkaError) -> bool:
    """Return whether librdkafka recovers from the error on its own, for example from a lost connection."""
    return error.code() in {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT}  # noqa: SLF001 - as above


def _locate(offset: int, value: bytes) -> LocatedRecord | None:
    """Return the record with its position; None if it does not contain one."""
    try:
        return LocatedRecord(offset, Position(*_read_position(value)), value)
    except BadInput:
        return None


def _read_position(value: bytes) -> tuple[int, int, int]:
    """Return event id, part and parts; those of a ``tideline-1`` record are in its first bytes. Raises
    BadInput.
    """
    try:
        return peek_position(value)
    except BadInput:
        event = decode(value)
        return event.event_id, event.part, event.parts
