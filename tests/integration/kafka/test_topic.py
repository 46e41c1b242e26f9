"""The topic is created with the required settings, and one that would break the order of events is
refused."""

from __future__ import annotations

import pytest

# re-exported implicitly
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from daemon.kafka.broker import BrokerSettings
from daemon.kafka.topic import Topic, TopicSettings, Watermarks
from state.errors import ConfigError, KafkaUnavailable, NotFound
from state.event_log.retention import NEVER, TopicLimits
from tests.builders.kafka.fake_log import ddl
from tests.builders.kafka.relay_and_readers import Stream
from tests.integration.kafka.conftest import StreamOf


def create_foreign_topic(stream: Stream, partitions: int = 1, **config: str) -> None:
    named = {name.replace("_", "."): value for name, value in config.items()}
    admin = AdminClient({"bootstrap.servers": stream.broker.bootstrap})
    for answer in admin.create_topics([NewTopic(stream.name, partitions, config=named)]).values():
        answer.result(10)


def test_a_missing_topic_is_created_with_one_partition_and_our_limits(stream_of: StreamOf) -> None:
    stream = stream_of(retention_s=7200)
    assert stream.topic.ensure()
    assert not stream.topic.ensure()
    stream.topic.verify()
    assert stream.topic.watermarks() == Watermarks(0, 0)


def test_a_topic_with_more_partitions_is_refused(stream_of: StreamOf) -> None:
    stream = stream_of()
    create_foreign_topic(stream, partitions=2, max_message_bytes="10000000")
    with pytest.raises(ConfigError) as caught:
        stream.topic.ensure()
    assert caught.value.context["partitions"] == 2


def test_a_topic_whose_records_must_be_smaller_than_ours_is_refused(stream_of: StreamOf) -> None:
    stream = stream_of()
    create_foreign_topic(stream, max_message_bytes="1000000")
    with pytest.raises(ConfigError) as caught:
        stream.topic.ensure()
    assert caught.value.context["max_message_bytes"] == 1_000_000
    stream.topic.verify_order()


def test_a_compacted_topic_is_refused(stream_of: StreamOf) -> None:
    stream = stream_of()
    create_foreign_topic(stream, max_message_bytes="10000000", cleanup_policy="compact,delete")
    with pytest.raises(ConfigError):
        stream.topic.ensure()


def test_a_recreated_topic_has_another_identity(stream_of: StreamOf) -> None:
    stream = stream_of()
    stream.topic.ensure()
    before = stream.topic.identity()
    assert stream.topic.identity() == before
    stream.recreate()
    assert stream.topic.identity() != before


def test_a_topic_that_does_not_exist_is_not_found(stream_of: StreamOf) -> None:
    stream = stream_of()
    for ask in (stream.topic.verify, stream.topic.verify_order, stream.topic.identity):
        with pytest.raises(NotFound):
            ask()


def test_a_broker_that_does_not_answer_is_unavailable() -> None:
    topic = Topic(BrokerSettings("127.0.0.1:9", timeout_s=0.5), TopicSettings("nowhere"))
    with pytest.raises(KafkaUnavailable):
        topic.ensure()


def test_watermarks_follow_what_is_written_and_what_expires(stream_of: StreamOf) -> None:
    stream = stream_of()
    stream.log.add(*(ddl(event_id) for event_id in range(1, 11)))
    stream.relay_all()
    assert stream.topic.watermarks() == Watermarks(0, 10)
    stream.truncate(4)
    assert stream.topic.watermarks() == Watermarks(4, 10)


def test_the_limits_of_a_topic_are_what_the_broker_says(stream_of: StreamOf) -> None:
    stream = stream_of(retention_s=7200)
    stream.topic.ensure()
    assert stream.topic.limits() == TopicLimits(7200.0)
    stream.log.add(*(ddl(event_id) for event_id in range(1, 4)))
    stream.relay_all()
    full = stream.topic.limits()
    assert full.oldest_time_s is not None
    assert not full.has_deleted
    stream.truncate(2)
    rest = stream.topic.limits()
    assert rest.has_deleted
    assert (rest.oldest_time_s or 0) >= full.oldest_time_s


def test_a_topic_without_limit_of_time_keeps_records_as_its_bytes_allow(stream_of: StreamOf) -> None:
    stream = stream_of()
    create_foreign_topic(stream, max_message_bytes="10000000", retention_ms="-1", retention_bytes="1000000")
    assert stream.topic.limits() == TopicLimits(NEVER, limits_bytes=True)
