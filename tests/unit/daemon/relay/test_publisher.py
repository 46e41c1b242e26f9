"""The producer of a relay against a broker in this process: every record once and in order, and failures of
both sides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import KafkaError, KafkaException

from daemon.config.settings.clusters import RelayConfig
from daemon.kafka.broker import BrokerSettings
from daemon.kafka.offset_search import OffsetReader
from daemon.kafka.signatures import Signatures
from daemon.kafka.topic import TopicSettings
from daemon.relay import publisher as publisher_module
from daemon.relay.publisher import Publisher, RelaySettings
from daemon.sources.outgoing_events import OutgoingEvent
from handlers.decoding.records.record_writer import Record
from state.errors import KafkaUnavailable
from state.event_log.positions import Position
from tests.builders.kafka.mock_broker import mock_broker


@pytest.fixture
def broker() -> Iterator[BrokerSettings]:
    with mock_broker() as settings:
        yield settings


def publisher(
    broker: BrokerSettings, after: Position | None = None, signatures: Signatures | None = None
) -> Publisher:
    settings = RelaySettings(
        source="src",
        section=RelayConfig(record_bytes_max=4096),
        linger_ms=0,
        compression="none",
        signatures=signatures,
    )
    return Publisher(broker, TopicSettings("t", message_bytes_max=8192), settings, after=after or Position(0))


def event(event_id: int, parts: int = 1) -> OutgoingEvent:
    records = [Record(b"k", b"%d.%d" % (event_id, part)) for part in range(parts)]
    return OutgoingEvent(event_id, 1_700_000_000, records)


def values(broker: BrokerSettings) -> list[bytes]:
    with OffsetReader(broker, "t") as topic:
        return [value for _, value in topic.values(0, topic.watermarks().high)]


def test_records_are_written_in_order_and_acknowledged(broker: BrokerSettings) -> None:
    with closing(publisher(broker)) as relay:
        relay.publish([event(1), event(2, parts=3)])
        relay.settle()
        assert (relay.acknowledged, relay.pending) == (Position(2, 2, 3), 0)
        assert (relay.records, relay.size_bytes) == (4, 12)
    assert values(broker) == [b"1.0", b"2.0", b"2.1", b"2.2"]


def test_records_are_signed_where_the_source_has_a_key(broker: BrokerSettings) -> None:
    signatures = Signatures("src", (b"k" * 32,))
    with closing(publisher(broker, signatures=signatures)) as relay:
        relay.publish([event(1), event(2, parts=2)])
        relay.settle()
    with closing(publisher(broker, Position(2, 1, 2))) as relay:
        relay.publish([event(3)])
        relay.settle()
    with OffsetReader(broker, "t", signatures) as topic:
        assert [value for _, value in topic.values(0, 4)] == [b"1.0", b"2.0", b"2.1"]
    assert values(broker) == [b"1.0", b"2.0", b"2.1", b"3.0"]


def test_what_the_topic_contains_already_is_not_written_again(broker: BrokerSettings) -> None:
    with closing(publisher(broker, Position(2, 0, 3))) as relay:
        relay.publish([event(1), event(2, parts=3), event(3)])
        relay.settle()
    assert values(broker) == [b"2.1", b"2.2", b"3.0"]


def test_a_record_that_is_too_large_for_the_topic_is_waited_for_with_a_hint(broker: BrokerSettings) -> None:
    with (
        closing(publisher(broker)) as relay,
        pytest.raises(KafkaUnavailable, match="because of its size") as refusal,
    ):
        relay.publish([OutgoingEvent(1, 0, [Record(b"k", b"x" * 16_000)])])
    assert "max.message.bytes" in str(refusal.value.hint)


def test_after_a_failed_record_no_later_one_counts_as_acknowledged(broker: BrokerSettings) -> None:
    with closing(publisher(broker)) as relay:
        relay._pending.extend([Position(1), Position(2), Position(3)])
        relay._delivered(None, None)
        relay._delivered(KafkaError(KafkaError._MSG_TIMED_OUT), None)
        relay._delivered(None, None)
        assert relay.acknowledged == Position(1)
        with pytest.raises(KafkaUnavailable):
            relay.poll(0)


def test_a_broker_that_acknowledges_nothing_in_time_is_unavailable(
    broker: BrokerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_module, "_SETTLE_S", -1.0)
    with closing(publisher(broker)) as relay:
        relay._pending.append(Position(1))
        with pytest.raises(KafkaUnavailable, match="in time"):
            relay.settle()


class BusyProducer:
    """A producer whose queue is full once, and that then fails as a whole."""

    def __init__(self) -> None:
        self.calls = ["fatal", "full"]

    def produce(self, *_: object, **__: object) -> None:
        if self.calls.pop() == "full":
            raise BufferError
        raise KafkaException(KafkaError(KafkaError._FATAL))

    def poll(self, _timeout_s: float) -> None: ...


def test_a_full_queue_is_waited_for_and_a_producer_that_failed_is_reported(broker: BrokerSettings) -> None:
    with closing(publisher(broker)) as relay:
        own, relay._producer = relay._producer, BusyProducer()  # type: ignore[assignment]
        with pytest.raises(KafkaUnavailable, match="cannot write to the topic"):
            relay.publish([event(1)])
        assert relay._producer.calls == []  # type: ignore[attr-defined]
        relay._producer = own
