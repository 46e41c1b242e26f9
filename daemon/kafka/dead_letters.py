"""Dead letters: records that cannot be used, kept as they came with the reason beside them.

One topic for all sources. A letter is the original key, value and headers, plus headers ``tideline.error.*`` that say what
was wrong, where the record lay and who could not use it. It is written before the reader goes on, so nothing is dropped that
is not kept here; a reader that starts over writes the same letter again, and ``letters`` shows it once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, Producer

from daemon.kafka.broker import BrokerSettings, kafka_failure, translated
from daemon.kafka.topic import PARTITION, Topic, TopicSettings
from state.errors import KafkaUnavailable


if TYPE_CHECKING:
    from daemon.kafka.broker import Fetched
    from state.errors import BadInput


PREFIX: Final = "tideline.error."
_RETENTION_S: Final = 30 * 24 * 3600
_HEADERS_BYTES: Final = 65_536
_TEXT_CHARS: Final = 2_000


class DeadLetters:
    """The writing end, for one reader of one topic. Connects when the first letter is put."""

    def __init__(self, broker: BrokerSettings, topic: TopicSettings, *, origin: str, reader: str) -> None:
        self._broker = broker
        self._settings = topic
        self._origin = origin
        self._reader = reader
        self._producer: Producer | None = None

    def put(self, record: Fetched, error: BadInput, event_id: int | None) -> None:
        """Keep ``record``; it is safe when this returns. Raises KafkaUnavailable, ConfigError."""
        producer = self._connected()
        failures: list[KafkaError] = []
        value, cut = _fitting(record.value, self._settings.message_bytes_max - _HEADERS_BYTES)
        headers: Any = [*record.headers, *self._explanation(record, error, event_id, cut)]
        with translated("write a dead letter", topic=self._settings.name):
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
            raise kafka_failure(failures[0], "write a dead letter", topic=self._settings.name)
        if left:
            raise KafkaUnavailable("a dead letter was not acknowledged in time", topic=self._settings.name)

    def close(self) -> None:
        """Close the connection; what was put is safe already."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def _connected(self) -> Producer:
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

    def _name(self, record: Fetched, event_id: int | None) -> str:
        """The same for the same record whenever it is met, so that repetitions are recognised."""
        place = f"event-{event_id}" if record.offset is None else str(record.offset)
        return f"{self._origin}/{PARTITION}/{place}/{self._reader}"

    def _explanation(
        self, record: Fetched, error: BadInput, event_id: int | None, cut: int | None
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
    """Return the settings of the dead-letter topic; ``message_bytes_max`` is the largest record of the sources' topics."""
    return TopicSettings(
        name, retention_s=_RETENTION_S, message_bytes_max=message_bytes_max + 2 * _HEADERS_BYTES
    )


def _fitting(value: bytes | None, bytes_max: int) -> tuple[bytes | None, int | None]:
    """Return what fits of ``value``, and its whole size where it had to be cut."""
    if value is None or len(value) <= bytes_max:
        return value, None
    return value[:bytes_max], len(value)
