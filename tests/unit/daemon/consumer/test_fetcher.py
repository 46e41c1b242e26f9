"""The fetcher against a broker in this process: records, the end of the topic, lost offsets, a full queue,
and failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from confluent_kafka import KafkaError, KafkaException

from daemon.consumer.fetcher import Fetcher, FetchResult
from daemon.consumer.settings import ConsumerSettings
from daemon.kafka.broker import BrokerSettings, TopicRecord
from state.errors import KafkaUnavailable, NotFound
from tests.builders.daemon.loops import eventually
from tests.builders.kafka.mock_broker import mock_broker, write_records


@pytest.fixture
def broker() -> Iterator[BrokerSettings]:
    with mock_broker() as settings:
        write_records(settings, "t", *(b"v%d" % number for number in range(6)))
        yield settings


def fetcher(broker: BrokerSettings, offset: int = 0, **settings: int) -> Fetcher:
    return Fetcher(broker, "t", offset, ConsumerSettings(group="g", format="auto", **settings))  # type: ignore[arg-type]


def take_until(
    fetching: Fetcher, is_last: Callable[[FetchResult], bool], limit: int = 100
) -> tuple[list[TopicRecord], FetchResult]:
    records: list[TopicRecord] = []
    while True:
        result = fetching.take(limit, 0.1)
        records += result.records
        if is_last(result):
            return records, result


def test_records_are_read_from_an_offset_to_the_end_and_on(broker: BrokerSettings) -> None:
    with closing(fetcher(broker, 2)) as fetching:
        records, _ = take_until(fetching, lambda result: result.ended)
        assert [(record.offset, record.value) for record in records] == [
            (2, b"v2"),
            (3, b"v3"),
            (4, b"v4"),
            (5, b"v5"),
        ]
        assert all(record.time_s > 1_700_000_000 for record in records)
        fetching.commit(6)
        write_records(broker, "t", TopicRecord(None, b"new", (("h", b"1"),), b"key"))
        (new,), _ = take_until(fetching, lambda result: bool(result.records))
        assert (new.offset, new.key, new.value, new.headers) == (6, b"key", b"new", (("h", b"1"),))


def test_at_most_so_many_records_are_taken_at_once(broker: BrokerSettings) -> None:
    with closing(fetcher(broker)) as fetching:
        eventually(lambda: len(fetching._queue._records) == 6)
        first = fetching.take(4, 0)
        assert ([record.value for record in first.records], first.ended) == (
            [b"v0", b"v1", b"v2", b"v3"],
            False,
        )
        rest, _ = take_until(fetching, lambda result: result.ended, limit=1)
        assert [record.value for record in rest] == [b"v4", b"v5"]


def test_a_full_queue_pauses_the_partition_until_half_of_it_was_taken(broker: BrokerSettings) -> None:
    with closing(fetcher(broker, queue_records=4)) as fetching:
        eventually(lambda: fetching._paused)
        fetching.take(1, 0)
        assert fetching._paused, "more than half of the queue is left"
        records, _ = take_until(fetching, lambda result: result.ended)
        eventually(lambda: not fetching._paused)
        assert len(records) == 5
        write_records(broker, "t", b"later")
        (later,), _ = take_until(fetching, lambda result: bool(result.records))
        assert later.value == b"later"


def test_an_offset_that_is_gone_is_reported_as_lost(broker: BrokerSettings) -> None:
    with closing(fetcher(broker, 99)) as fetching:
        _, result = take_until(fetching, lambda result: result.lost is not None)
        assert result.records == ()


def test_a_topic_that_is_gone_is_reported_as_lost(broker: BrokerSettings) -> None:
    with closing(fetcher(broker, 6)) as fetching:
        take_until(fetching, lambda result: result.ended)
        fetching._deliver([Failure(KafkaError.UNKNOWN_TOPIC_OR_PART)])  # type: ignore[list-item]
        assert fetching.take(1, 0).lost is not None


def test_nothing_is_taken_from_an_idle_topic_within_the_time(broker: BrokerSettings) -> None:
    with closing(fetcher(broker, 6)) as fetching:
        take_until(fetching, lambda result: result.ended)
        assert fetching.take(10, 0.01) == FetchResult(ended=True)


class FailingConsumer:
    """A consumer whose next poll fails."""

    def __init__(self, failure: Exception) -> None:
        self._failure = failure

    def poll(self, _timeout_s: float) -> None:
        raise self._failure

    def commit(self, **_: object) -> None:
        raise KafkaException(KafkaError(KafkaError._NO_OFFSET))

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)), NotFound),
        (KafkaException(KafkaError(KafkaError._FATAL)), KafkaUnavailable),
        (ValueError("a defect"), KafkaUnavailable),
    ],
)
def test_a_failure_of_the_thread_is_raised_in_the_readers_after_what_was_read(
    broker: BrokerSettings, failure: Exception, error: type[Exception]
) -> None:
    with closing(fetcher(broker)) as fetching:
        eventually(lambda: len(fetching._queue._records) == 6)
        own, fetching._consumer = fetching._consumer, FailingConsumer(failure)  # type: ignore[assignment]
        fetching.commit(3)
        eventually(lambda: not fetching._thread.is_alive())
        own.close()
        assert len(fetching.take(100, 0).records) == 6
        with pytest.raises(error):
            fetching.take(100, 0)


class Failure:
    """A message that contains an error."""

    def __init__(self, code: int, *, retriable: bool = False) -> None:
        self._error = KafkaError(code, retriable=retriable)

    def error(self) -> KafkaError:
        return self._error


@pytest.mark.parametrize(
    "message",
    [
        Failure(KafkaError._ALL_BROKERS_DOWN),
        Failure(KafkaError._TRANSPORT),
        Failure(KafkaError.LEADER_NOT_AVAILABLE, retriable=True),
    ],
)
def test_an_error_that_the_library_recovers_from_is_not_reported(
    broker: BrokerSettings, message: Failure
) -> None:
    with closing(fetcher(broker, 6)) as fetching:
        take_until(fetching, lambda result: result.ended)
        fetching._deliver([message])  # type: ignore[list-item]
        assert fetching.take(1, 0) == FetchResult(ended=True)


def test_an_error_of_the_topic_that_stays_is_reported(broker: BrokerSettings) -> None:
    with closing(fetcher(broker, 6)) as fetching:
        take_until(fetching, lambda result: result.ended)
        fetching._deliver([Failure(KafkaError.TOPIC_AUTHORIZATION_FAILED)])  # type: ignore[list-item]
        with pytest.raises(KafkaUnavailable, match="cannot read the topic"):
            fetching.take(1, 0)
