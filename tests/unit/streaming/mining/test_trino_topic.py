from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from state.errors import StateCorrupt
from streaming.mining.model import Form, QueryText
from streaming.mining.sources.source import DeadInput
from streaming.mining.sources.trino_topic import TrinoTopicSource
from tests.builders.kafka.mock_broker import mock_broker


SAMPLES = Path(__file__).parents[3] / "data" / "trino"


class Record:
    """A message as the Kafka library gives it."""

    def __init__(self, value: bytes | None) -> None:
        self._value = value

    def topic(self) -> str:
        return "queries"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 7

    def value(self) -> bytes | None:
        return self._value


def read(value: bytes | None, **settings: Any) -> QueryText | DeadInput:
    source = TrinoTopicSource("trino", "localhost:1", "queries", **settings)
    return source._query(Record(value))  # type: ignore[arg-type] # a message cannot be constructed


def event(**changed: Any) -> bytes:
    document = json.loads((SAMPLES / "query_completed.json").read_text())
    document["eventPayload"].update(changed)
    return json.dumps(document).encode()


def test_a_completed_query_provides_text_user_time_and_schema() -> None:
    found = read(event())
    assert isinstance(found, QueryText)
    assert (found.user, found.at_s, found.database, found.form) == (
        "ann",
        1_461_013_500,
        "default",
        Form.TRINO,
    )
    assert found.text.startswith("SELECT json_extract_scalar")
    assert found.origin == "queries[0]@7"


@pytest.mark.parametrize(
    ("time_of", "at_s"),
    [
        (1_461_013_500.5, 1_461_013_500),
        (1_461_013_500_123, 1_461_013_500),
        ("2016-04-18T23:05:00+02:00", 1_461_013_500),
    ],
)
def test_a_time_can_be_a_text_or_a_number(time_of: object, at_s: int) -> None:
    found = read(event(createTime=time_of))
    assert isinstance(found, QueryText)
    assert found.at_s == at_s


def test_an_event_without_envelope_is_read() -> None:
    payload = json.loads(event())["eventPayload"]
    assert isinstance(read(json.dumps(payload).encode()), QueryText)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"x",
        b"[]",
        b"{}",
        b"\xff",
        event(metadata={}),
        event(metadata={"query": 1}),
        event(createTime=None),
        event(createTime="soon"),
    ],
)
def test_a_record_that_is_not_a_query_event_is_dead(value: bytes | None) -> None:
    found = read(value)
    assert isinstance(found, DeadInput)
    assert (found.code, found.origin) == ("bad-input", "queries[0]@7")


def test_a_record_beyond_the_limit_is_dead() -> None:
    found = read(event(), record_bytes=100)
    assert isinstance(found, DeadInput)
    assert found.code == "limit-exceeded"


def test_a_record_with_too_many_values_is_dead_and_is_not_parsed() -> None:
    found = read(b'{"eventPayload":[' + b"[]," * 1_000_000 + b"[]]}")
    assert isinstance(found, DeadInput)
    assert found.code == "limit-exceeded"


def test_a_broken_position_stops_the_source() -> None:
    with pytest.raises(StateCorrupt):
        next(TrinoTopicSource("trino", "localhost:1", "queries").batches("{"))


def test_a_batch_that_cannot_be_decompressed_is_one_dead_input() -> None:
    """The library would otherwise report it at every read, and the queries behind it would never be read."""
    with mock_broker() as broker:
        client = dict(broker.client) | {"receive.message.max.bytes": "1100000", "fetch.max.bytes": "1000000"}
        source = TrinoTopicSource("trino", broker.bootstrap, "queries", client)
        size = str(100_000_000)
        large = {"message.max.bytes": size, "batch.size": size, "compression.type": "zstd"}
        writer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": "60000"} | large)
        for batch in ([event()], [b" " * 900_000] * 5, [event(), event()]):
            for value in batch:
                writer.produce("queries", value, partition=0)
            assert writer.flush(30) == 0
        read = list(source.batches(None))
        assert [query.origin for batch in read for query in batch.queries] == [
            "queries[0]@0",
            "queries[0]@6",
            "queries[0]@7",
        ]
        assert [(dead.origin, dead.code) for batch in read for dead in batch.dead] == [
            ("queries[0]@1", "limit-exceeded")
        ]
        assert list(source.batches(read[-1].position))[-1].position == read[-1].position
