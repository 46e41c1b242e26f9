"""A Kafka broker in this process: librdkafka's own mock cluster, which speaks Kafka's protocol to any client.

It starts within milliseconds, and reads and writes records with offsets, headers and timestamps. It knows no
administration of topics: the first record creates one, with partition 0 among others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from daemon.kafka.broker import BrokerSettings, TopicRecord


@contextmanager
def mock_broker(timeout_s: float = 5.0) -> Iterator[BrokerSettings]:
    cluster = AdminClient({"test.mock.num.brokers": 1, "bootstrap.servers": "replaced:1", "log_level": 3})
    (node,) = cluster.list_topics(timeout=10).brokers.values()
    yield BrokerSettings(f"{node.host}:{node.port}", client={"log_level": "0"}, timeout_s=timeout_s)
    del cluster


def write_records(broker: BrokerSettings, topic: str, *records: bytes | TopicRecord) -> None:
    """Append records, the bytes as values without key and headers."""
    producer = Producer(broker.librdkafka(enable_idempotence=True))
    for record in records:
        if isinstance(record, bytes):
            producer.produce(topic, value=record, partition=0)
        else:
            headers: Any = list(record.headers)
            producer.produce(topic, value=record.value, key=record.key, partition=0, headers=headers)
    assert producer.flush(10) == 0
