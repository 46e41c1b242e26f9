"""Batches whose content is a thousand times as long as they are, on a topic of a real broker."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import Producer

from daemon.consumer.fetcher import Fetcher
from daemon.consumer.settings import ConsumerSettings
from daemon.kafka.broker import BrokerSettings
from daemon.kafka.topic import Topic, TopicSettings
from handlers.unreadable_batches import CONTENT_BYTES_MAX


def write(broker: BrokerSettings, topic: str, codec: str, value: bytes) -> None:
    settings = broker.librdkafka(compression_type=codec, message_max_bytes=10**9, batch_size=10**9)
    producer = Producer(settings)
    failures: list[object] = []
    producer.produce(topic, value=value, partition=0, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(60) == 0
    assert failures == [None]


@pytest.mark.parametrize("codec", ["gzip", "zstd", "lz4"])
def test_a_batch_with_too_much_content_is_passed_whatever_its_writer_compressed_it_with(
    kafka: str, topic: str, codec: str
) -> None:
    broker = BrokerSettings(kafka)
    created = Topic(broker, TopicSettings(topic))
    created.ensure()
    assert created.limits_content()
    write(broker, topic, "zstd", b"before")
    write(broker, topic, codec, b" " * (CONTENT_BYTES_MAX + 1_000_000))
    write(broker, topic, codec, b"after")
    with closing(Fetcher(broker, topic, 0, ConsumerSettings(group="g", format="auto"))) as fetching:
        values: list[bytes | None] = []
        while len(values) < 3:
            values += [record.value for record in fetching.take(10, 1.0).records]
    assert values == [b"before", None, b"after"]
