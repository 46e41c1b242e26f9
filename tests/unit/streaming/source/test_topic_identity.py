from __future__ import annotations

from pathlib import Path

import pytest

from state.errors import StateCorrupt, TopicReplaced, Transient
from streaming.settings import KafkaSource
from streaming.source.raw_events import build_kafka_options, parse_offsets
from streaming.source.topic_identity import Topic, TopicGuard
from tests.builders.flat.local_storage import LocalStorage


class OneTopic:
    """A broker with one topic."""

    def __init__(self) -> None:
        self.topic = Topic("events", "id-1", {0: 100, 1: 50})
        self.stale: list[Topic] = []
        """Answered first, by brokers that have old metadata."""

    def describe(self, name: str) -> Topic:
        assert name == self.topic.name
        return self.stale.pop() if self.stale else self.topic


@pytest.fixture
def broker() -> OneTopic:
    return OneTopic()


@pytest.fixture
def guard(broker: OneTopic, tmp_path: Path) -> TopicGuard:
    return TopicGuard(broker, "events", LocalStorage(), str(tmp_path / "topic.json"), metadata_s=0.0)


def test_a_topic_that_grows_is_the_same_topic(guard: TopicGuard, broker: OneTopic) -> None:
    guard.check({})
    broker.topic = Topic("events", "id-1", {0: 500, 1: 500, 2: 7})
    assert guard.check({0: 100, 1: 50}) == broker.topic


def test_a_replaced_topic_stops_the_stream_even_with_more_records(
    guard: TopicGuard, broker: OneTopic
) -> None:
    guard.check({})
    broker.topic = Topic("events", "id-2", {0: 5_000, 1: 5_000})
    with pytest.raises(TopicReplaced):
        guard.check({0: 100, 1: 50})


@pytest.mark.parametrize("ends", [{0: 99, 1: 50}, {0: 100}])
def test_a_topic_that_ends_before_the_read_offsets_stops_the_stream(
    guard: TopicGuard, broker: OneTopic, ends: dict[int, int]
) -> None:
    guard.check({})
    broker.topic = Topic("events", "id-1", ends)
    with pytest.raises(TopicReplaced):
        guard.check({0: 100, 1: 50})


def test_an_open_transaction_within_the_read_records_is_waited_for(
    guard: TopicGuard, broker: OneTopic
) -> None:
    broker.topic = Topic("events", "id-1", {0: 100, 1: 50}, stable={0: 100, 1: 49})
    with pytest.raises(Transient, match="still open"):
        guard.check({0: 100, 1: 50})
    assert guard.check({0: 100, 1: 49}) == broker.topic


def test_a_broker_that_does_not_know_an_added_partition_yet_is_asked_again(
    broker: OneTopic, tmp_path: Path
) -> None:
    guard = TopicGuard(broker, "events", LocalStorage(), str(tmp_path / "topic.json"))
    guard.check({})
    broker.stale = [Topic("events", "id-1", {0: 100})]
    assert guard.check({0: 100, 1: 50}) == broker.topic


def test_a_corrupt_record_of_the_topic_is_reported(guard: TopicGuard, tmp_path: Path) -> None:
    (tmp_path / "topic.json").write_text("{}")
    with pytest.raises(StateCorrupt):
        guard.check({})


def test_offsets_are_parsed_from_sparks_line() -> None:
    assert parse_offsets('{"events":{"1":50,"0":100}}', "events") == {0: 100, 1: 50}
    assert parse_offsets('{"logOffset":3}', "events") == {}
    assert parse_offsets("no json", "events") == {}


def test_client_settings_are_passed_on_and_a_batch_may_wait() -> None:
    source = KafkaSource(
        "b:9092", "events", records_to_wait_for=10, wait_s=5, options={"security.protocol": "SSL"}
    )
    options = build_kafka_options(source)
    assert options["kafka.security.protocol"] == "SSL"
    assert options["minOffsetsPerTrigger"] == "10"
    assert options["maxTriggerDelay"] == "5s"
    assert options["failOnDataLoss"] == "true"


def test_records_of_open_and_aborted_transactions_are_not_read_unless_the_options_say_so() -> None:
    assert build_kafka_options(KafkaSource("b:9092", "events"))["kafka.isolation.level"] == "read_committed"
    source = KafkaSource("b:9092", "events", options={"isolation.level": "read_uncommitted"})
    assert build_kafka_options(source)["kafka.isolation.level"] == "read_uncommitted"
