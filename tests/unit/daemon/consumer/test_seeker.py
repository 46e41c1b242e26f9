"""Where a reader continues, in a broker of this process: by event ids, by offsets, and after the topic was
created again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from daemon.consumer.seeker import Seeker, SeekResult
from daemon.kafka.broker import BrokerSettings, TopicRecord
from daemon.kafka.signatures import Signatures
from state.errors import ConfigError, GapDetected, KafkaUnavailable, NotFound
from state.event_log.positions import Position
from tests.builders.kafka.mock_broker import mock_broker, write_records


@pytest.fixture
def broker() -> Iterator[BrokerSettings]:
    with mock_broker() as settings:
        yield settings


class NamedTopic:
    """The administration of a topic, which the broker in this process does not know."""

    def __init__(self, name: str = "t") -> None:
        self.name = name
        self.id = "1"
        self.refusal: Exception | None = None

    def verify_order(self) -> None:
        if self.refusal is not None:
            raise self.refusal

    def identity(self) -> str:
        return self.id


def seeker(broker: BrokerSettings, form: Any = "auto", topic: NamedTopic | None = None) -> Seeker:
    named: Any = topic or NamedTopic()
    return Seeker(broker, named, form)


def value(event_id: int) -> bytes:
    return b'{"eventId":%d,"part":0,"parts":1,"x":1}' % event_id


LISTENER = b'{"eventType":"ON_DROP_TABLE","dbName":"web","tableName":"clicks"}'


def test_reading_continues_after_the_event_of_the_position(broker: BrokerSettings) -> None:
    write_records(broker, "t", *(value(event_id) for event_id in (11, 12, 14)))
    seeking = seeker(broker)
    assert seeking.seek(Position(12)) == SeekResult(2, empty=False)
    assert (seeking.undecided, seeking.offsets_are_ids) == (False, False)
    assert seeking.seek(Position(14)) == SeekResult(3, empty=False)
    assert (seeking.next_offset(Position(11)), seeking.next_offset(Position(12))) == (1, None)


def test_a_next_event_that_is_not_signed_is_not_in_the_topic_if_there_are_signatures(
    broker: BrokerSettings,
) -> None:
    signatures = Signatures("src", (b"k" * 32,))
    signed = TopicRecord(None, value(12), (signatures.sign(value(12)),))
    write_records(broker, "t", value(11), signed, value(13))
    named: Any = NamedTopic()
    seeking = Seeker(broker, named, "tideline-1", signatures)
    assert seeking.seek(Position(11)) == SeekResult(1, empty=False)
    assert [seeking.next_offset(Position(event_id)) for event_id in (10, 11, 12)] == [None, 1, None]


def test_a_remembered_offset_is_used_while_its_record_is_the_same(broker: BrokerSettings) -> None:
    write_records(broker, "t", *(value(event_id) for event_id in (11, 12, 14)))
    seeking = seeker(broker, "tideline-1")
    seeking.remember(Position(12), 1)
    assert seeking.seek(Position(12)) == SeekResult(2, empty=False)
    seeking.remember(Position(12), 2)
    assert seeking.seek(Position(12)) == SeekResult(2, empty=False)


def test_offsets_are_ids_in_a_topic_whose_records_have_none(broker: BrokerSettings) -> None:
    write_records(broker, "t", LISTENER, LISTENER, b"garbage")
    seeking = seeker(broker)
    assert seeking.seek(Position(2)) == SeekResult(2, empty=False)
    assert seeking.offsets_are_ids
    assert seeking.next_offset(Position(1)) is None
    with pytest.raises(GapDetected) as gap:
        seeking.seek(Position(9))
    assert gap.value.context["expected"] == 10


def test_the_format_of_a_topic_of_garbage_stays_undecided(broker: BrokerSettings) -> None:
    write_records(broker, "t", b"garbage", b'{"x":1}')
    seeking = seeker(broker)
    assert seeking.seek(Position(5)) == SeekResult(0, empty=False)
    assert seeking.undecided


def test_a_topic_that_was_created_again_is_searched_as_any_other(broker: BrokerSettings) -> None:
    write_records(broker, "t", value(11))
    topic = NamedTopic()
    seeking = seeker(broker, topic=topic)
    seeking.seek(Position(11))
    topic.id = "2"
    assert seeking.seek(Position(11)) == SeekResult(1, empty=False)


def test_a_topic_that_is_absent_is_waited_for_and_one_without_order_is_refused(
    broker: BrokerSettings,
) -> None:
    topic = NamedTopic()
    topic.refusal = NotFound("no such topic", hint="Wait.", topic="t")
    with pytest.raises(KafkaUnavailable, match="no such topic") as absent:
        seeker(broker, topic=topic).seek(Position(1))
    assert absent.value.hint == "Wait."
    topic.refusal = ConfigError("two partitions")
    with pytest.raises(ConfigError):
        seeker(broker, topic=topic).seek(Position(1))
