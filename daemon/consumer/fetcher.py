"""Fetches records in a separate thread, into a bounded queue.

Applying one batch may take minutes (a large copy), but a Kafka client must poll all the time. The thread does
that. While the queue is full it pauses the partition, so that memory stays bounded however far the projection
is behind.

Only the caller sets offsets: ``assign`` instead of a group, and ``auto.offset.reset=error``. If the topic has
lost the requested offset, the result says so (``lost``); by default, librdkafka would silently jump to the
end.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from daemon.consumer.fetch_budget import BUDGET
from daemon.consumer.settings import ConsumerSettings
from daemon.kafka.broker import BrokerSettings, TopicRecord, translate_error, translate_errors
from daemon.kafka.topic import PARTITION
from handlers.unreadable_batches import READER_LIMITS, find_end, is_unreadable_batch
from state.errors import KafkaUnavailable, TidelineError


log = structlog.get_logger(__name__)

_END: Final = KafkaError._PARTITION_EOF  # noqa: SLF001 - librdkafka's local codes are spelled so
# SLF001: librdkafka's local codes are spelled so
_LOST: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})  # noqa: SLF001
_GONE: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - as above
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - as above
    }
)
_TEMPORARY: Final = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 - as above
        KafkaError._TRANSPORT,  # noqa: SLF001 - as above
        KafkaError._TIMED_OUT,  # noqa: SLF001 - as above
        KafkaError._RESOLVE,  # noqa: SLF001 - as above
    }
)
_POLL_S: Final = 0.2
_CONSUME: Final = 100
LIBRARY_QUEUE_KBYTES: Final = 1_024
"""The library's read-ahead; the queue of this module is the buffer."""


@dataclass(frozen=True, slots=True)
class FetchResult:
    """The result of one fetch."""

    records: tuple[TopicRecord, ...] = ()
    ended: bool = False
    """The end of the topic follows ``records``."""
    lost: str | None = None
    """The reason why reading cannot continue at this offset, so that the position must be searched again."""


class _Queue:
    """Records between the two threads. Above its limits, fetching pauses, but the queue still accepts
    records.
    """

    def __init__(self, records_max: int, bytes_max: Callable[[], int]) -> None:
        self._records_max, self._bytes_max = records_max, bytes_max
        self._records: deque[TopicRecord] = deque()
        self._bytes = 0
        self._ended = False
        self._lost: str | None = None
        self._failure: TidelineError | None = None
        self._changed = threading.Condition()

    def put(
        self, records: list[TopicRecord], *, ended: bool, lost: str | None, failure: TidelineError | None
    ) -> None:
        with self._changed:
            self._records.extend(records)
            self._bytes += sum(record.size_bytes for record in records)
            self._ended = ended or (self._ended and not records)
            self._lost = lost or self._lost
            self._failure = failure or self._failure
            self._changed.notify_all()

    def take(self, limit: int, timeout_s: float) -> FetchResult:
        """Return at most ``limit`` records, after waiting up to ``timeout_s`` for the first. Raises the
        failure that followed the last record.
        """
        with self._changed:
            if not self._has_result():
                self._changed.wait_for(self._has_result, timeout_s)
            records = tuple(self._records.popleft() for _ in range(min(limit, len(self._records))))
            self._bytes -= sum(record.size_bytes for record in records)
            self._changed.notify_all()
            if self._records or records:
                return FetchResult(records, ended=self._ended and not self._records)
            if self._failure is not None:
                raise self._failure
            return FetchResult(ended=self._ended, lost=self._lost)

    def wait_for_room(self, timeout_s: float) -> bool:
        """Wait until half of the queue is free if it is full; return whether it has free capacity."""
        with self._changed:
            if not self._over(1):
                return True
            return self._changed.wait_for(lambda: not self._over(2), timeout_s)

    def _over(self, share: int) -> bool:
        """Return whether the content exceeds the limits divided by ``share``."""
        return len(self._records) * share >= self._records_max or self._bytes * share >= self._bytes_max()

    def _has_result(self) -> bool:
        return bool(self._records) or self._lost is not None or self._failure is not None


class Fetcher:
    """Reads the topic from one offset on. To read from another offset, create another fetcher."""

    def __init__(self, broker: BrokerSettings, topic: str, offset: int, settings: ConsumerSettings) -> None:
        self._timeout_s = broker.timeout_s
        self._partition = TopicPartition(topic, PARTITION, offset)
        self._queue = _Queue(settings.queue_records, partial(BUDGET.share, settings.queue_bytes))
        self._closing = threading.Event()
        self._paused = False
        self._to_commit: int | None = None
        self._consumer = Consumer(
            broker.librdkafka(
                group_id=settings.group,
                enable_auto_commit=False,
                enable_auto_offset_store=False,
                auto_offset_reset="error",
                isolation_level="read_committed",
                check_crcs=True,
                enable_partition_eof=True,
                allow_auto_create_topics=False,
                queued_min_messages=1_000,
                queued_max_messages_kbytes=LIBRARY_QUEUE_KBYTES,
                fetch_queue_backoff_ms=20,
                **READER_LIMITS,
            ),
        )
        self._consumer.assign([self._partition])
        BUDGET.join(self)
        self._thread = threading.Thread(target=self._main, name=f"fetch-{settings.group}", daemon=True)
        self._thread.start()

    def take(self, limit: int, timeout_s: float) -> FetchResult:
        """Return at most ``limit`` fetched records; raise KafkaUnavailable, ConfigError (access denied)."""
        return self._queue.take(limit, timeout_s)

    def commit(self, offset: int) -> None:
        """Commit ``offset`` to the group, for monitoring only. Returns at once; a failure is only logged."""
        self._to_commit = offset

    def close(self) -> None:
        """Stop fetching, and wait until the thread ends, which takes at most one poll."""
        self._closing.set()
        self._thread.join()
        self._consumer.close()
        BUDGET.leave(self)

    def _main(self) -> None:
        try:
            while not self._closing.is_set():
                self._turn()
        except KafkaException as error:
            self._fail(translate_error(error.args[0], "read the topic", topic=self._partition.topic))
        except TidelineError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - last handler of the thread: the reader raises the error in its own
            self._fail(KafkaUnavailable("fetching ended unexpectedly", reason=repr(error)))

    def _turn(self) -> None:
        self._commit()
        if self._queue.wait_for_room(_POLL_S):
            self._resume()
            self._fetch()
        else:
            self._pause()

    def _fetch(self) -> None:
        first = self._consumer.poll(_POLL_S)
        if first is not None:
            # Take the rest without waiting: consume() with a timeout would wait for a full batch.
            self._deliver([first, *self._consumer.consume(_CONSUME, 0)])

    def _pause(self) -> None:
        """Stop fetching while the projection is busy, but keep polling the broker."""
        if not self._paused:
            self._consumer.pause([self._partition])
            self._paused = True
        message = self._consumer.poll(0)
        if message is not None:
            self._deliver([message])

    def _resume(self) -> None:
        if self._paused:
            self._consumer.resume([self._partition])
            self._paused = False

    def _commit(self) -> None:
        """Commit from the polling thread: from another one, the library's commit can block indefinitely."""
        offset, self._to_commit = self._to_commit, None
        if offset is None:
            return
        try:
            committed = TopicPartition(self._partition.topic, PARTITION, offset)
            self._consumer.commit(offsets=[committed], asynchronous=True)
        except KafkaException as error:
            log.debug("offset not committed; it is for information only", reason=str(error))

    def _deliver(self, messages: list[Message]) -> None:
        records: list[TopicRecord] = []
        ended, lost, failure = False, None, None
        for message in messages:
            error = message.error()
            if error is None:
                records.append(_convert(message))
                ended = False
            elif is_unreadable_batch(error):
                records.append(self._skip_batch(message))
                break  # the others are older
            elif error.code() == _END:
                ended = True
            elif error.code() in _LOST or error.code() in _GONE:
                lost = lost or error.str()
            elif error.code() not in _TEMPORARY and not error.retriable():
                failure = failure or translate_error(error, "read the topic", topic=self._partition.topic)
        self._queue.put(records, ended=ended, lost=lost, failure=failure)

    def _skip_batch(self, message: Message) -> TopicRecord:
        """Skip a batch that cannot be decompressed; return a record without content in its place."""
        first: Any = message.offset()
        topic = self._partition.topic
        with translate_errors("read the topic", topic=topic):
            end = find_end(self._consumer, TopicPartition(topic, PARTITION, first), self._timeout_s)
        log.warning("a batch cannot be decompressed", topic=topic, first=first, last=end - 1)
        return TopicRecord(first, None)

    def _fail(self, error: TidelineError) -> None:
        self._queue.put([], ended=False, lost=None, failure=error)


def _convert(message: Message) -> TopicRecord:
    _, timestamp_ms = message.timestamp()
    headers: Any = message.headers() or []
    value: Any = message.value()  # bytes, without a deserializer
    key: Any = message.key()
    return TopicRecord(message.offset(), value, tuple(headers), key, max(0, timestamp_ms))
