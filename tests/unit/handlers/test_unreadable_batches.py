"""A batch that cannot be decompressed stops no reader: it counts as one record, and reading continues."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from daemon.consumer.fetcher import Fetcher
from daemon.consumer.settings import ConsumerSettings
from daemon.kafka.broker import BrokerSettings
from daemon.kafka.offset_search import OffsetReader
from handlers.unreadable_batches import find_end
from state.errors import KafkaUnavailable
from tests.builders.kafka.mock_broker import mock_broker


LARGE = b" " * 900_000
LIMITED = {"receive.message.max.bytes": "1100000", "fetch.max.bytes": "1000000"}
BATCHES = {
    "in the middle": ([b"a", b"b"], [LARGE] * 5, [b"c"]),
    "first": ([LARGE] * 5, [b"c"]),
    "last": ([b"a"], [LARGE] * 5),
    "two in a row": ([b"a"], [LARGE] * 3, [LARGE] * 7, [b"c", b"d"]),
    "with one record": ([b"a"], [b" " * 5_000_000], [b"c"]),
}


@pytest.fixture
def broker() -> Iterator[BrokerSettings]:
    with mock_broker() as settings:
        yield replace(settings, client={**settings.client, **LIMITED})


def write_batches(broker: BrokerSettings, *batches: list[bytes]) -> None:
    """Write each list of values as one batch in zstd."""
    size = str(100_000_000)
    client = {**broker.client, **LIMITED, "message.max.bytes": size, "batch.size": size}
    unlimited = replace(broker, client={key: value for key, value in client.items() if key not in LIMITED})
    producer = Producer(unlimited.librdkafka(compression_type="zstd", linger_ms=60_000))  # until the flush
    # Messages of an unknown topic are moved to its partition one by one, also during the flush, which would
    # send the first ones as a batch.
    producer.list_topics("t")
    for batch in batches:
        for value in batch:
            producer.produce("t", value=value, partition=0)
        assert producer.flush(30) == 0


def readable(batches: tuple[list[bytes], ...]) -> list[tuple[int, bytes | None]]:
    """The records that a reader gets, with their offsets; None stands for a batch."""
    found: list[tuple[int, bytes | None]] = []
    offset = 0
    for batch in batches:
        is_large = len(batch[0]) >= len(LARGE)
        found += [(offset, None)] if is_large else [(offset + n, value) for n, value in enumerate(batch)]
        offset += len(batch)
    return found


@pytest.mark.parametrize("batches", BATCHES.values(), ids=BATCHES)
def test_a_reader_continues_after_the_batch(broker: BrokerSettings, batches: tuple[list[bytes], ...]) -> None:
    write_batches(broker, *batches)
    settings = ConsumerSettings(group="g", format="auto")
    with closing(Fetcher(broker, "t", 0, settings)) as fetching:
        records: list[tuple[int | None, bytes | None]] = []
        while True:
            result = fetching.take(100, 0.1)
            records += [(record.offset, record.value) for record in result.records]
            if result.ended:
                break
    assert records == readable(batches)


@pytest.mark.parametrize("batches", BATCHES.values(), ids=BATCHES)
def test_a_search_passes_the_batch(broker: BrokerSettings, batches: tuple[list[bytes], ...]) -> None:
    write_batches(broker, *batches)
    with OffsetReader(broker, "t") as records:
        end = sum(map(len, batches))
        expected = [found for found in readable(batches) if found[1] is not None]
        assert list(records.values(0, end)) == expected
        for offset in range(end):
            assert list(records.values(offset, end)) == [each for each in expected if each[0] >= offset]


class Failing:
    """A consumer whose polls return errors."""

    def __init__(self, *codes: int) -> None:
        self._codes = list(codes)

    def assign(self, _partitions: object) -> None: ...

    def poll(self, _timeout_s: float) -> Failing | None:
        return self if self._codes else None

    def error(self) -> KafkaError:
        return KafkaError(self._codes.pop(0))


def test_a_broker_that_is_lost_meanwhile_is_reported() -> None:
    with pytest.raises(KafkaUnavailable, match="in time"):
        find_end(Failing(), TopicPartition("t", 0, 0), 0.01)  # type: ignore[arg-type]
    with pytest.raises(KafkaException):
        find_end(Failing(KafkaError.UNSUPPORTED_VERSION), TopicPartition("t", 0, 0), 1.0)  # type: ignore[arg-type]
