"""Finding a place in a topic by reading single records of it.

A position names an event, not an offset, because offsets lose their meaning when a topic is truncated, recreated or mirrored.
The topic is ordered by (event id, part), so the offset is found by bisection: about 17 single reads for 100,000 records.

What a real topic has and a textbook's does not: offsets without a record (transaction markers, expired ones), records that
are no events (stepped over), and short disorder where two writers overlapped for a moment (a relay that was thought dead).
Bisection then still ends at a record that is above the position after one that is not; if it is not the very next one, a
bounded stretch in front is read record by record.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from daemon.kafka.broker import BrokerSettings, kafka_failure, translated
from daemon.kafka.topic import PARTITION, Watermarks
from handlers.decoding.decoder import decode
from handlers.decoding.header import peek_position
from state.errors import BadInput, KafkaUnavailable
from state.positions import Position


if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType


_OVERLAP: Final = 2_000
"""Records in front of the bisected offset that are searched where the next event is not right there: several times what a
producer has in flight."""


@dataclass(frozen=True, slots=True)
class Located:
    """A record that names its event, and where it lies."""

    offset: int
    position: Position
    value: bytes


class Records(Protocol):
    """Random access to a topic; what the searches need of ``Probe``, so that they are tested on a list."""

    def watermarks(self) -> Watermarks:
        """Return the offsets that can be read."""

    def first_from(self, offset: int, end: int) -> Located | None:
        """Return the first record at ``offset`` or after it, before ``end``, that names its event."""


def last_record(records: Records) -> Located | None:
    """Return the last record that names its event; None where the topic holds none.

    Looks back in growing strides, since markers and foreign records may stand at the end.
    """
    marks = records.watermarks()
    end, stride = marks.high, 1
    while end > marks.low:
        start = max(marks.low, end - stride)
        found = _last_within(records, start, end)
        if found is not None:
            return found
        end, stride = start, stride * 2
    return None


def _last_within(records: Records, start: int, end: int) -> Located | None:
    last, at = None, start
    while (found := records.first_from(at, end)) is not None:
        last, at = found, found.offset + 1
    return last


def find(records: Records, position: Position) -> int:
    """Return the offset to read on from after ``position``.

    Everything in front of it was applied; the record there, if there is one, is the next event, or a later one where the
    next has left the topic (or never came). Raises KafkaUnavailable.
    """
    marks = records.watermarks()
    low, high = marks.low, marks.high
    above: Located | None = None
    while low < high:
        middle = (low + high) // 2
        found = records.first_from(middle, high)
        if found is None:
            high = middle
        elif position.covers(found.position.event_id, found.position.part):
            low = found.offset + 1
        else:
            high, above = middle, found
    if above is None or _is_next(position, above) or low == marks.low:
        return low
    return _next_before(records, position, low)


def _is_next(position: Position, record: Located) -> bool:
    return (record.position.event_id, record.position.part) == position.expected()


def _next_before(records: Records, position: Position, offset: int) -> int:
    """Return the offset of the very next event in the stretch before ``offset``, or ``offset`` where it is not there."""
    at = max(records.watermarks().low, offset - _OVERLAP)
    while (found := records.first_from(at, offset)) is not None:
        if _is_next(position, found):
            return found.offset
        at = found.offset + 1
    return offset


def is_at(records: Records, position: Position, offset: int) -> bool:
    """Tell whether the record at ``offset`` is still ``position``: then reading goes on behind it, and nothing is searched."""
    marks = records.watermarks()
    if not marks.low <= offset < marks.high:
        return False
    found = records.first_from(offset, offset + 1)
    return found is not None and found.position == position


def next_record(records: Records, position: Position) -> int | None:
    """Return the offset of the very next event after ``position``; None where the topic does not hold it."""
    offset = find(records, position)
    found = records.first_from(offset, records.watermarks().high)
    return offset if found is not None and _is_next(position, found) else None


class Probe:
    """A consumer that reads single records at chosen offsets; used in one thread, for a moment."""

    def __init__(self, broker: BrokerSettings, topic: str) -> None:
        self._topic = topic
        self._timeout_s = broker.timeout_s
        self._next: int | None = None
        self._consumer = Consumer(
            broker.librdkafka(
                group_id="tideline-probe",  # the library wants one; nothing is ever committed
                enable_auto_commit=False,
                enable_partition_eof=True,
                isolation_level="read_committed",
                auto_offset_reset="error",
                check_crcs=True,
                fetch_wait_max_ms=50,
                fetch_message_max_bytes=65536,  # a single record is wanted; the broker still sends a larger one whole
                queued_min_messages=1,
                fetch_queue_backoff_ms=5,  # default 1 s: what a full queue waits before it fetches from a new place
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def watermarks(self) -> Watermarks:
        """Return the offsets that can be read; raise NotFound, KafkaUnavailable."""
        with translated("ask for the topic's offsets", topic=self._topic):
            low, high = self._consumer.get_watermark_offsets(
                TopicPartition(self._topic, PARTITION), timeout=self._timeout_s
            )
        return Watermarks(low, high)

    def first_from(self, offset: int, end: int) -> Located | None:
        """Return the first record in ``offset`` to ``end`` that names its event; raise KafkaUnavailable."""
        return next(
            (found for at, value in self.values(offset, end) if (found := _located(at, value)) is not None),
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
            self._next = offset = at + 1  # also of a record that is not wanted: the library stands behind it
            if at >= end:
                return
            value: Any = message.value()
            yield at, value or b""

    def _seek(self, offset: int) -> None:
        """Stand at ``offset``; nothing to do where the last read ended there."""
        if offset == self._next:
            return
        with translated("read the topic", topic=self._topic):
            self._consumer.assign([TopicPartition(self._topic, PARTITION, offset)])
        self._next = offset

    def _read(self) -> Message | None:
        """Return the next record, or None at the end of what can be read."""
        deadline = time.monotonic() + self._timeout_s
        while time.monotonic() < deadline:
            message = self._consumer.poll(0.2)
            error = None if message is None else message.error()
            if message is not None and error is None:
                return message
            self._next = None  # an end or an error leaves the library's own place unclear: assign again
            if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's local codes are spelled so
                return None
            if error is not None and not error.retriable() and not _passing(error):
                raise kafka_failure(error, "read the topic", topic=self._topic)
        raise KafkaUnavailable("the topic could not be read in time", topic=self._topic)


def _passing(error: KafkaError) -> bool:
    """Whether the library goes on by itself: connections come and go."""
    return error.code() in {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT}  # noqa: SLF001 - as above


def _located(offset: int, value: bytes) -> Located | None:
    """Read where a record stands; None for one that does not say it."""
    try:
        return Located(offset, Position(*_place(value)), value)
    except BadInput:
        return None


def _place(value: bytes) -> tuple[int, int, int]:
    """Return event id, part and parts, of our own records from their first bytes; raise BadInput."""
    try:
        return peek_position(value)
    except BadInput:
        event = decode(value)
        return event.event_id, event.part, event.parts
