"""From a topic of a real broker to a flat table, in batches of limited size; then another topic of the same
name."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from state.errors import ConfigError, KafkaUnavailable, TopicReplaced
from streaming.driver.progress import ignore_progress
from streaming.driver.run import Driver
from streaming.settings import KafkaSource
from streaming.source.raw_events import open_source
from streaming.source.topic_identity import SparkTopicReader
from tests.builders.flat.streams import Stream, rules


HOUR_S = 3_600
FIRST = int(time.time()) // HOUR_S * HOUR_S - 5 * HOUR_S


def send(kafka: str, topic: str, numbers: range) -> None:
    produce(Producer({"bootstrap.servers": kafka}), topic, numbers)


def begin(kafka: str, identity: str) -> Producer:
    """Return a producer within a transaction."""
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": identity})
    producer.init_transactions(30)
    producer.begin_transaction()
    return producer


def produce(producer: Producer, topic: str, numbers: range) -> None:
    for n in numbers:
        event = {"epoch": FIRST + n * 30, "uuid": str(n)}
        producer.produce(topic, json.dumps(event), partition=n % 2)
    assert producer.flush(30) == 0


def numbers(stream: Stream, spark: Any) -> list[int]:
    return sorted(int(row["uuid"]) for row in stream.rows(spark))


def make(kafka: str, topic: str) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(20)
    return admin


@pytest.fixture
def stream(tmp_path: Path, spark: Any, database: str, kafka: str, topic: str) -> Stream:
    spark.sql(f"CREATE DATABASE {database}")
    made = Stream.of_directory(tmp_path / "flat", database, rules("epoch", "uuid"))
    made.settings = replace(made.settings, source=KafkaSource(kafka, topic, records_per_batch=100))
    return made


def test_records_are_in_the_table_once_and_another_topic_of_the_name_is_refused(
    stream: Stream, spark: Any, kafka: str, topic: str
) -> None:
    admin = make(kafka, topic)
    send(kafka, topic, range(180))
    told = stream.run(spark)
    assert [each["rows"] for each in told] == [100, 80]
    assert told[0]["lag"] == {"0": 40, "1": 40}
    assert told[-1]["lag"] == {"0": 0, "1": 0}
    send(kafka, topic, range(180, 190))
    stream.run(spark)
    assert sorted(int(row["uuid"]) for row in stream.rows(spark)) == list(range(190))

    admin.delete_topics([topic])[topic].result(20)
    deadline = time.monotonic() + 30
    while topic in admin.list_topics(timeout=10).topics and time.monotonic() < deadline:
        pass
    make(kafka, topic)
    send(kafka, topic, range(1_000))
    with pytest.raises(TopicReplaced):
        stream.run(spark)
    assert len(stream.rows(spark)) == 190


@pytest.mark.long
def test_only_records_of_committed_transactions_become_rows_unless_the_options_say_otherwise(
    stream: Stream, spark: Any, kafka: str, topic: str
) -> None:
    make(kafka, topic)
    send(kafka, topic, range(4))
    committed, aborted, unfinished = (begin(kafka, f"{topic}-{n}") for n in range(3))
    produce(committed, topic, range(4, 8))
    produce(aborted, topic, range(8, 12))
    committed.commit_transaction(30)
    aborted.abort_transaction(30)
    told = stream.run(spark)
    assert [each["rows"] for each in told] == [8]
    assert told[0]["lag"] == {"0": 0, "1": 0}, "the markers of the transactions are no records"

    produce(unfinished, topic, range(12, 14))
    send(kafka, topic, range(14, 16))
    assert stream.run(spark) == [], "records behind the beginning of an open transaction wait for its end"
    assert numbers(stream, spark) == list(range(8))
    assert Driver(stream.parts(spark), ignore_progress)._read_lag() == {0: 2, 1: 2}
    unfinished.commit_transaction(30)
    assert [each["rows"] for each in stream.run(spark)] == [4]
    assert numbers(stream, spark) == [*range(8), *range(12, 16)]

    everything = KafkaSource(kafka, topic, options={"isolation.level": "read_uncommitted"})
    stream.settings = replace(
        stream.settings,
        source=everything,
        table="everything",
        location=f"{stream.settings.location}2",
        checkpoint=f"{stream.settings.checkpoint}2",
    )
    stream.run(spark)
    assert numbers(stream, spark) == list(range(16)), "of aborted transactions too"


def test_a_broker_whose_name_is_unknown_may_come_back_and_settings_that_kafka_refuses_are_named(
    spark: Any,
) -> None:
    with pytest.raises(KafkaUnavailable, match="bootstrap"):
        SparkTopicReader(spark, KafkaSource("broker.invalid:9092", "events"))
    nonsense = {"security.protocol": "nonsense"}
    with pytest.raises(ConfigError, match="nonsense"):
        SparkTopicReader(spark, KafkaSource("127.0.0.1:1", "events", options=nonsense))
    unsupported = {"auto.offset.reset": "latest"}
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset"):
        open_source(spark, KafkaSource("127.0.0.1:1", "events", options=unsupported))
