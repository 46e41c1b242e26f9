"""Reads query events from the ``completed-event`` topics of Trino's event listener for Kafka.

The position consists of the offsets by partition. The key log stores it together with the keys, so no
consumer group is needed. A run reads up to the offset at which the topic ended when the run began.

If the topic was truncated beyond the position, or was created again, the source reads it from its first
record. It reports a dead input with the code ``gap``, because the queries in between are lost.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from handlers.structs.json_limits import check_size
from handlers.unreadable_batches import CONTENT_BYTES_MAX, find_end, is_unreadable_batch
from state.errors import BadInput, GapDetected, KafkaUnavailable, LimitExceeded, NotFound, StateCorrupt
from streaming.mining.model import Form, QueryText
from streaming.mining.sources.source import DeadInput, QueryBatch


RECORDS_PER_BATCH: Final = 1_000
BYTES_PER_BATCH: Final = 16 * 1024 * 1024
"""Of the records of a batch; the last one may exceed it."""
_LOG: Final = logging.getLogger("tideline.librdkafka")
_MILLISECONDS: Final = 100_000_000_000
"""A greater number is a time in milliseconds; seconds reach this value in the year 5138."""


@dataclass(slots=True)
class TrinoTopicSource:
    """A topic of query events."""

    name: str
    bootstrap: str
    topic: str
    client: Mapping[str, str] = field(default_factory=dict)
    """Settings of librdkafka, for example for security."""
    timeout_s: float = 10.0
    record_bytes: int = 8 * 1024 * 1024

    def batches(self, position: str | None) -> Iterator[QueryBatch]:
        """Yield the queries of new records.

        Raises KafkaUnavailable if no broker answers in time, and NotFound if the topic does not exist.
        """
        offsets = _parse_position(position, self.topic, self.name)
        with closing(self._consumer()) as consumer, _convert_errors(self.topic):
            ends, gaps = self._begin(consumer, offsets)
            yield from self._read(consumer, offsets, ends, gaps)

    def _consumer(self, *, reports_ends: bool = False) -> Consumer:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "group.id": "tideline-mining",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": reports_ends,
            "queued.max.messages.kbytes": 16 * 1024,
            "fetch.max.bytes": 16 * 1024 * 1024,
            "receive.message.max.bytes": CONTENT_BYTES_MAX,
            "logger": _LOG,
        }
        with _convert_errors(self.topic):
            return Consumer(settings | dict(self.client))

    def _begin(self, consumer: Consumer, offsets: dict[int, int]) -> tuple[dict[int, int], list[DeadInput]]:
        """Assign the consumer; return the end of each partition, and the gaps before the stored offsets."""
        metadata = consumer.list_topics(self.topic, timeout=self.timeout_s).topics[self.topic]
        if metadata.error is not None:
            raise KafkaException(metadata.error)
        ends, gaps = {}, []
        for number in sorted(metadata.partitions):
            low, high = consumer.get_watermark_offsets(
                TopicPartition(self.topic, number), timeout=self.timeout_s
            )
            expected = offsets.get(number)
            if expected is not None and not low <= expected <= high:
                gap = GapDetected(
                    "records of the query topic no longer exist",
                    partition=number,
                    expected=expected,
                    first=low,
                    end=high,
                )
                gaps.append(DeadInput.of(f"{self.topic}[{number}]", gap))
                expected = None
            offsets[number] = low if expected is None else expected
            ends[number] = high
        for number in offsets.keys() - ends:
            del offsets[number]
        consumer.assign([TopicPartition(self.topic, number, at) for number, at in offsets.items()])
        return ends, gaps

    def _read(
        self, consumer: Consumer, offsets: dict[int, int], ends: dict[int, int], dead: list[DeadInput]
    ) -> Iterator[QueryBatch]:
        received_s = time.monotonic()
        while any(offsets[number] < end for number, end in ends.items()):
            messages = _take(consumer)
            queries: list[QueryText] = []
            for message in messages:
                if (error := message.error()) is None:
                    query = self._query(message)
                elif is_unreadable_batch(error):
                    query = self._skip_batch(consumer, message, offsets)
                else:
                    raise KafkaException(error)
                queries.append(query) if isinstance(query, QueryText) else dead.append(query)
            for topic_partition in consumer.position([TopicPartition(self.topic, number) for number in ends]):
                # The position also advances over offsets without messages: transaction markers and compacted
                # records.
                offsets[topic_partition.partition] = max(
                    offsets[topic_partition.partition], topic_partition.offset
                )
            if queries or dead:
                yield QueryBatch(tuple(queries), _format_position(self.topic, offsets), tuple(dead))
                dead = []
            received_s = time.monotonic() if messages else received_s
            if time.monotonic() - received_s > self.timeout_s:
                raise KafkaUnavailable(
                    "the query topic delivers no records", topic=self.topic, offsets=dict(offsets)
                )
        yield QueryBatch((), _format_position(self.topic, offsets), tuple(dead))

    def _skip_batch(self, consumer: Consumer, message: Message, offsets: dict[int, int]) -> DeadInput:
        """Move ``consumer`` past a batch that it cannot decompress."""
        number: Any = message.partition()
        offset: Any = message.offset()
        first = TopicPartition(self.topic, number, offset)
        with closing(self._consumer(reports_ends=True)) as searching:
            end = find_end(searching, first, self.timeout_s)
        consumer.seek(TopicPartition(self.topic, number, end))
        offsets[number] = end
        too_large = LimitExceeded(
            "a batch of query events is too large", last=end - 1, limit_bytes=CONTENT_BYTES_MAX
        )
        return DeadInput.of(_format_origin(message), too_large)

    def _query(self, message: Message) -> QueryText | DeadInput:
        origin = _format_origin(message)
        value = message.value() or b""
        if len(value) > self.record_bytes:
            return DeadInput.of(
                origin, LimitExceeded("a query event is too large", limit_bytes=self.record_bytes)
            )
        try:
            check_size(value)
            return self._read_event(orjson.loads(value), origin)
        except LimitExceeded as error:
            return DeadInput.of(origin, error)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            return DeadInput.of(origin, BadInput("a record must be a query event", reason=repr(error)[:200]))

    def _read_event(self, event: dict[str, Any], origin: str) -> QueryText:
        payload = event.get("eventPayload", event)
        text, context = payload["metadata"]["query"], payload.get("context") or {}
        if not isinstance(text, str):
            raise TypeError("metadata.query must be a string")
        user, schema = context.get("user") or "", context.get("schema")
        return QueryText(
            text,
            str(user),
            _parse_time(payload["createTime"]),
            self.name,
            origin,
            Form.TRINO,
            str(schema) if schema else None,
        )


def _format_origin(message: Message) -> str:
    return f"{message.topic()}[{message.partition()}]@{message.offset()}"


def _take(consumer: Consumer) -> list[Message]:
    """Wait for the first record; return the records that have arrived, up to the limits of a batch."""
    messages: list[Message] = []
    size_bytes = 0
    while len(messages) < RECORDS_PER_BATCH and size_bytes < BYTES_PER_BATCH:
        message = consumer.poll(0.0 if messages else 1.0)
        if message is None:
            break
        messages.append(message)
        size_bytes += len(message.value() or b"")
    return messages


def _parse_position(position: str | None, topic: str, source: str) -> dict[int, int]:
    """Return the offsets of a position; none if it belongs to another topic."""
    if position is None:
        return {}
    try:
        read = json.loads(position)
        return (
            {int(number): int(at) for number, at in read["offsets"].items()} if read["topic"] == topic else {}
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateCorrupt("a query source's position cannot be read", source=source) from error


def _format_position(topic: str, offsets: dict[int, int]) -> str:
    return json.dumps(
        {"topic": topic, "offsets": {str(number): offsets[number] for number in sorted(offsets)}}
    )


def _parse_time(time_of: object) -> int:
    """Read a time: ISO 8601 (as Trino writes), or a number of seconds or milliseconds since 1970."""
    if isinstance(time_of, str):
        read = dt.datetime.fromisoformat(time_of)
        return int((read if read.tzinfo else read.replace(tzinfo=dt.UTC)).timestamp())
    if isinstance(time_of, (int, float)) and not isinstance(time_of, bool):
        return int(time_of / 1000 if time_of > _MILLISECONDS else time_of)
    raise TypeError("createTime must be a time")


@contextmanager
def _convert_errors(topic: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        cause = error.args[0]
        # SLF001: librdkafka's local code
        unknown = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)  # noqa: SLF001
        kind = NotFound if cause.code() in unknown else KafkaUnavailable
        raise kind(
            "cannot read a query topic", topic=topic, kafka=cause.name(), reason=cause.str()
        ) from error
