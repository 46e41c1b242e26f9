"""Publishes records to the topic in the order of the log.

An idempotent producer preserves order and drops its own duplicates across retries during its lifetime. After
a failure that leaves open which records arrived, the relay discards the producer with all pending records. A
new producer continues at the current end of the topic, and readers drop duplicates. Acknowledgements
therefore arrive in order, and the last one covers all records before it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from daemon.kafka.broker import BrokerSettings, translate_error
from daemon.kafka.signatures import Signatures
from daemon.kafka.topic import CODEC, PARTITION, TopicSettings
from daemon.sources.outgoing_events import OutboxSettings, OutgoingEvent
from handlers.failpoints import failpoint
from state.errors import KafkaUnavailable, LimitExceeded, TidelineError
from state.event_log.positions import Position


_QUEUE_RECORDS: Final = 20_000
_QUEUE_KBYTES: Final = 65_536
_RAISE: Final = "Raise the topic's max.message.bytes; the relay continues on its own."
_SETTLE_S: Final = 10.0
"""How long a stopping relay waits for acknowledgements; shorter than the time that a stop may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings(OutboxSettings):
    """One source's relay: the section of the configuration, and the values that only tests vary."""

    signatures: Signatures | None = None
    """If given, it signs all records."""
    check_s: float = 1.0
    """How often the relay compares its position with the metastore's current id."""
    linger_ms: int = 5
    compression: str = CODEC
    delivery_timeout_s: float = 60.0
    """How long the producer retries on its own; then the relay restarts from the end of the topic."""
    store_s: float = 5.0
    """How often to store the position. It matters only if the topic is empty, and may lag."""


class Publisher:
    """Publishes through one producer. Use it from one thread only. After an error, only ``close`` may be
    called.
    """

    def __init__(
        self, broker: BrokerSettings, topic: TopicSettings, settings: RelaySettings, *, after: Position
    ) -> None:
        self.acknowledged = after
        """The last record that Kafka acknowledged."""
        self.records = 0
        self.size_bytes = 0
        self._after = after
        self._topic = topic.name
        self._signatures = settings.signatures
        self._pending: deque[Position] = deque()
        self._failure: KafkaError | None = None
        self._producer = Producer(
            broker.librdkafka(
                enable_idempotence=True,
                acks="all",
                linger_ms=settings.linger_ms,
                compression_type=settings.compression,
                message_max_bytes=topic.message_bytes_max,
                delivery_timeout_ms=int(settings.delivery_timeout_s * 1000),
                queue_buffering_max_messages=_QUEUE_RECORDS,
                queue_buffering_max_kbytes=_QUEUE_KBYTES,
            )
        )

    @property
    def pending(self) -> int:
        """The number of records without acknowledgement."""
        return len(self._pending)

    def publish(self, batch: Sequence[OutgoingEvent]) -> None:
        """Enqueue the records of ``batch`` that the topic does not have; wait only if the queue is full.

        Raises KafkaUnavailable, even for a record that the topic refuses because of its size.
        """
        for item in batch:
            parts = len(item.records)
            for part, record in enumerate(item.records):
                position = Position(item.event_id, part, parts)
                if position > self._after:
                    headers = list(record.headers)
                    if self._signatures is not None:
                        headers.append(self._signatures.sign(record.value))
                    self._produce(record.key, record.value, headers, position)
                    failpoint("relay.produced")
        self.poll(0)

    def poll(self, timeout_s: float) -> None:
        """Wait up to ``timeout_s`` for acknowledgements and process them; raise the first failure."""
        self._producer.poll(timeout_s)
        self._raise_failure()

    def settle(self) -> None:
        """Wait until all records are acknowledged; raise KafkaUnavailable or the first failure."""
        deadline = time.monotonic() + _SETTLE_S
        while self._pending:
            if time.monotonic() > deadline:
                raise KafkaUnavailable(
                    "the broker did not acknowledge records in time", topic=self._topic, pending=self.pending
                )
            self.poll(0.1)
        failpoint("relay.acknowledged")

    def close(self) -> None:
        """Discard unacknowledged records without sending them."""
        self._producer.purge()
        if self._producer.flush(1.0) == 0:
            self._producer.close()  # with records left, this would wait indefinitely

    def _produce(self, key: bytes, value: bytes, headers: Any, position: Position) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    key=key,
                    value=value,
                    partition=PARTITION,
                    headers=headers,
                    on_delivery=self._delivered,
                )
            except BufferError:
                self.poll(0.1)
            except KafkaException as error:  # the producer as a whole has failed
                raise self._error(error.args[0]) from error
            else:
                break
        self._pending.append(position)
        self.records += 1
        self.size_bytes += len(value)

    def _delivered(self, error: KafkaError | None, _message: object) -> None:
        """Process one acknowledgement; they arrive in the order of the records."""
        position = self._pending.popleft()
        if error is not None:
            self._failure = self._failure or error
        elif self._failure is None:
            self.acknowledged = position

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._error(self._failure)

    def _error(self, error: KafkaError) -> TidelineError:
        context = {"topic": self._topic, "acknowledged": str(self.acknowledged)}
        tideline_error = translate_error(error, "write to the topic", **context)
        if isinstance(
            tideline_error, LimitExceeded
        ):  # an operator lowered the topic's limit while the relay ran, and may raise it again
            return KafkaUnavailable("the topic refuses a record because of its size", hint=_RAISE, **context)
        return tideline_error
