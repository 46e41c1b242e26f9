"""Query events on a real broker: positions, deleted records, and a topic that is created again."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from dev.stack.endpoints import Endpoints
from state.errors import KafkaUnavailable, NotFound
from streaming.mining.miner import Miner, MiningReport, mine
from streaming.mining.sources.trino_topic import TrinoTopicSource
from tests.builders.keylog.mining import RULES, MemorySink


SAMPLE = Path(__file__).parents[2] / "data" / "trino" / "query_completed.json"


@pytest.fixture
def topic(stack: Endpoints) -> Iterator[str]:
    admin = AdminClient({"bootstrap.servers": stack.kafka})
    name = f"mining-{uuid.uuid4().hex[:8]}"
    create(admin, name)
    yield name
    admin.delete_topics([name])[name].result(30)


def create(admin: AdminClient, name: str) -> None:
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)


def send(stack: Endpoints, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": stack.kafka})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


def event(key: str) -> bytes:
    document = json.loads(SAMPLE.read_text())
    document["eventPayload"]["metadata"]["query"] = (
        f"select json_extract_scalar(json, '$.{key}') from raw_events"
    )
    return json.dumps(document).encode()


def run(stack: Endpoints, topic: str, sink: MemorySink) -> MiningReport:
    """Mine, with retries: shortly after its creation a topic may have no leader, which raises
    KafkaUnavailable."""
    source, deadline_s = TrinoTopicSource("trino", stack.kafka, topic), time.monotonic() + 120
    while True:
        try:
            return mine(source, Miner(RULES), sink)
        except KafkaUnavailable:
            if time.monotonic() > deadline_s:
                raise


def test_every_record_is_mined_once_and_broken_ones_are_dead(stack: Endpoints, topic: str) -> None:
    sink = MemorySink()
    assert run(stack, topic, sink).queries == 0
    send(stack, topic, SAMPLE.read_bytes(), b"no event", *(event(f"k{number}") for number in range(2_500)))
    report = run(stack, topic, sink)
    assert (report.queries, report.dead) == (2_501, {"bad-input": 1})
    assert len(sink.keys()) == 2_502
    assert {each.user for each in sink.requests} == {"ann"}
    assert run(stack, topic, sink).queries == 0
    send(stack, topic, event("later"))
    assert run(stack, topic, sink).queries == 1
    assert len(sink.requests) == len(sink.keys())


def test_a_recreated_topic_is_read_from_its_start_and_the_gap_is_reported(
    stack: Endpoints, topic: str
) -> None:
    sink = MemorySink()
    sink.positions["trino"] = json.dumps({"topic": topic, "offsets": {"0": 1_000, "1": 1_000, "9": 5}})
    send(stack, topic, event("a"), event("b"))
    report = run(stack, topic, sink)
    assert (report.queries, report.dead) == (2, {"gap": 2})
    assert sink.keys() == ["$.a", "$.b"]
    assert set(json.loads(sink.positions["trino"])["offsets"]) == {"0", "1"}


def test_an_unreachable_broker_or_topic_is_reported(stack: Endpoints) -> None:
    with pytest.raises(NotFound):
        run(stack, "mining-absent", MemorySink())
    nobody = TrinoTopicSource("trino", "127.0.0.1:1", "queries", timeout_s=1.0)
    with pytest.raises(KafkaUnavailable):
        mine(nobody, Miner(RULES), MemorySink())
