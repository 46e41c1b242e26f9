"""Writer of dead letters: undecodable records, unchanged and with the reason.

All sources share one topic. A dead letter consists of the original key, value and headers, and of headers
``tideline.error.*`` with the error, the position of the record and the reader. The reader writes a dead
letter before it continues, so no record is lost. A restarted reader writes the same dead letter again;
``DeadLetterReader`` returns it once.
"""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka import KafkaError, Producer

from daemon.kafka.broker import BrokerSettings, TopicRecord, translate_error, translate_errors
from daemon.kafka.topic import PARTITION, Topic, TopicSettings
from state.errors import BadInput, KafkaUnavailable


PREFIX: Final = "tideline.error."
_RETENTION_S: Final = 30 * 24 * 3600
_HEADERS_BYTES: Final = 65_536
_TEXT_CHARS: Final = 2_000


class DeadLetterWriter:
    """Writes the dead letters of one reader of one topic. Connects when it writes the first one."""

    def __init__(self, broker: BrokerSettings, topic: TopicSettings, *, origin: str, reader: str) -> None:
        self._broker = broker
        self._settings = topic
        self._origin = origin
        self._reader = reader
        self._producer: Producer | None = None

    def put(self, record: TopicRecord, error: BadInput, event_id: int | None) -> None:
        """Store ``record`` durably. Raises KafkaUnavailable, ConfigError."""
        producer = self._connect()
        failures: list[KafkaError] = []
        value, cut = _truncate(record.value, self._settings.message_bytes_max - _HEADERS_BYTES)
        headers: Any = [*record.headers, *self._error_headers(record, error, event_id, cut)]
        with translate_errors("write a dead letter", topic=self._settings.name):
            producer.produce(
                self._settings.name,
                key=self._name(record, event_id),
                value=value,
                partition=PARTITION,
                headers=headers,
                on_delivery=lambda failure, _message: (
                    failures.append(failure) if failure is not None else None
                ),
            )
            left = producer.flush(self._broker.timeout_s)
        if failures:
            raise translate_error(failures[0], "write a dead letter", topic=self._settings.name)
        if left:
            raise KafkaUnavailable(
                "the broker did not acknowledge a dead letter in time", topic=self._settings.name
            )

    def close(self) -> None:
        """Close the connection. All dead letters are already durable."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def _connect(self) -> Producer:
        if self._producer is None:
            Topic(self._broker, self._settings).ensure()
            self._producer = Producer(
                self._broker.librdkafka(
                    enable_idempotence=True,
                    message_max_bytes=self._settings.message_bytes_max,
                    delivery_timeout_ms=int(self._broker.timeout_s * 1000),
                    linger_ms=0,
                )
            )
        return self._producer

    def _name(self, record: TopicRecord, event_id: int | None) -> str:
        """Return the key of a record's dead letter, the same at every repetition."""
        place = f"event-{event_id}" if record.offset is None else str(record.offset)
        return f"{self._origin}/{PARTITION}/{place}/{self._reader}"

    def _error_headers(
        self, record: TopicRecord, error: BadInput, event_id: int | None, cut: int | None
    ) -> list[tuple[str, bytes]]:
        values = {
            "code": error.code,
            "message": str(error)[:_TEXT_CHARS],
            "topic": self._origin,
            "partition": PARTITION,
            "offset": record.offset,
            "event_id": event_id,
            "reader": self._reader,
            "time": record.time_s,
            "cut": cut,
        }
        return [(PREFIX + name, str(value).encode()) for name, value in values.items() if value is not None]


def dead_letter_topic(name: str, *, message_bytes_max: int) -> TopicSettings:
    """Return the settings of the dead-letter topic.

    ``message_bytes_max`` is the largest record of the sources' topics.
    """
    return TopicSettings(
        name, retention_s=_RETENTION_S, message_bytes_max=message_bytes_max + 2 * _HEADERS_BYTES
    )


def _truncate(value: bytes | None, bytes_max: int) -> tuple[bytes | None, int | None]:
    """Return ``value``, truncated if necessary, and its full size if truncated."""
    if value is None or len(value) <= bytes_max:
        return value, None
    return value[:bytes_max], len(value)
