"""Single records are read at any offset of a topic, in a broker of this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError

from daemon.kafka import offset_search
from daemon.kafka.broker import BrokerSettings, TopicRecord
from daemon.kafka.offset_search import OffsetReader, find_last, find_next
from daemon.kafka.signatures import Signatures
from daemon.kafka.topic import Watermarks
from state.errors import KafkaUnavailable, NotFound, TidelineError
from state.event_log.positions import Position
from tests.builders.kafka.mock_broker import mock_broker, write_records


@pytest.fixture
def broker() -> Iterator[BrokerSettings]:
    with mock_broker() as settings:
        write_records(settings, "t", b"garbage", value(11), value(12), b"{}", value(14), b"")
        yield settings


def value(event_id: int) -> bytes:
    return b'{"eventId":%d,"part":0,"parts":1,"x":1}' % event_id


def test_records_are_found_by_their_events(broker: BrokerSettings) -> None:
    with OffsetReader(broker, "t") as records:
        assert records.watermarks() == Watermarks(0, 6)
        last = find_last(records)
        assert last is not None
        assert (last.offset, last.position, last.value) == (4, Position(14), value(14))
        assert find_next(records, Position(11)) == 2
        assert find_next(records, Position(14)) is None
        assert records.first_from(0, 1) is None


def test_only_signed_records_at_the_end_of_the_topic_count_if_there_are_signatures(
    broker: BrokerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    signatures = Signatures("src", (b"k" * 32,))
    write_records(broker, "t", TopicRecord(None, value(15), (signatures.sign(value(15)),)), value(16))
    with OffsetReader(broker, "t", signatures) as records:
        last = find_last(records)
        assert last is not None
        assert (last.offset, last.position) == (6, Position(15))
        monkeypatch.setattr(offset_search, "_SIGNED_LOOK_BACK", 1)
        assert find_last(records) is None


def test_values_are_read_within_a_range_and_from_anywhere_again(broker: BrokerSettings) -> None:
    with OffsetReader(broker, "t") as records:
        assert list(records.values(4, 9)) == [(4, value(14)), (5, b"")]
        assert list(records.values(1, 3)) == [(1, value(11)), (2, value(12))]
        assert list(records.values(3, 4)) == [(3, b"{}")]
        assert list(records.values(6, 6)) == []


def test_a_topic_that_is_absent_is_not_found(broker: BrokerSettings) -> None:
    with OffsetReader(broker, "absent") as records, pytest.raises(NotFound):
        records.watermarks()


def test_a_broker_that_does_not_answer_in_time_is_unavailable() -> None:
    nowhere = BrokerSettings("127.0.0.1:1", client={"log_level": "0"}, timeout_s=0.05)
    with OffsetReader(nowhere, "t") as records:
        with pytest.raises(KafkaUnavailable):
            records.watermarks()
        with pytest.raises(KafkaUnavailable, match="in time"):
            list(records.values(0, 1))


class Failing:
    """A consumer whose polls return one error after the other."""

    def __init__(self, *codes: int) -> None:
        self._codes = list(codes)

    def assign(self, _partitions: object) -> None: ...

    def close(self) -> None: ...

    def poll(self, _timeout_s: float) -> Failing | None:
        return self if self._codes else None

    def error(self) -> KafkaError:
        return KafkaError(self._codes.pop(0))


def test_a_lost_connection_is_waited_for_and_a_refusal_is_raised(broker: BrokerSettings) -> None:
    with OffsetReader(broker, "t") as records:
        records._consumer.close()
        errors = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError.UNSUPPORTED_VERSION)
        records._consumer = Failing(*errors)  # type: ignore[assignment]
        with pytest.raises(TidelineError, match="cannot read the topic"):
            records.first_from(0, 1)
