"""Dead letters are written, read once each, and replayed, in a broker of this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from daemon.kafka import dead_letters
from daemon.kafka.broker import BrokerSettings, TopicRecord
from daemon.kafka.dead_letter_reader import DeadLetterReader, ReplayOutcome
from daemon.kafka.dead_letters import DeadLetterWriter, dead_letter_topic
from daemon.kafka.offset_search import OffsetReader
from state.errors import KafkaUnavailable, MalformedEvent, NotFound
from tests.builders.kafka.fake_log import ListedLog, ddl
from tests.builders.kafka.fake_topics import records_of
from tests.builders.kafka.mock_broker import mock_broker


ERROR = MalformedEvent("not an object")
LISTENER = {
    "eventType": "ON_DROP_TABLE",
    "databaseName": "web",
    "tableName": "clicks",
    "qualifiedTableName": "web.clicks",
    "status": True,
    "parameters": {},
    "environmentContext": {"properties": {}},
    "table": {"dbName": "web", "tableName": "clicks", "sd": {"cols": []}, "partitionKeys": []},
}


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerSettings]:
    class ExistingTopic:
        def __init__(self, *_: object) -> None: ...

        def ensure(self) -> None: ...

    monkeypatch.setattr(dead_letters, "Topic", ExistingTopic)
    with mock_broker() as settings:
        yield settings


@pytest.fixture
def writer(broker: BrokerSettings) -> Iterator[DeadLetterWriter]:
    settings = dead_letter_topic("dead", message_bytes_max=100)
    with closing(DeadLetterWriter(broker, settings, origin="t", reader="replica.a")) as opened:
        yield opened


@pytest.fixture
def reader(broker: BrokerSettings) -> Iterator[DeadLetterReader]:
    with DeadLetterReader(broker, "dead") as opened:
        yield opened


def test_a_letter_has_the_record_and_the_reason(writer: DeadLetterWriter, reader: DeadLetterReader) -> None:
    writer.put(TopicRecord(7, b"[]", (("own", b"1"),), b"k", time_ms=1_700_000_000_500), ERROR, 12)
    (letter,) = reader.read_all()
    assert (letter.number, letter.key, letter.value) == (0, b"t/0/7/replica.a", b"[]")
    assert letter.headers == (("own", b"1"),)
    assert letter.put_at_s > 1_700_000_000
    assert letter.error == {
        "code": ERROR.code,
        "message": str(ERROR),
        "topic": "t",
        "partition": "0",
        "offset": "7",
        "event_id": "12",
        "reader": "replica.a",
        "time": "1700000000",
    }
    assert reader.read(0) == letter


def test_a_letter_that_was_written_twice_is_read_once_and_others_stay(
    writer: DeadLetterWriter, reader: DeadLetterReader
) -> None:
    for offset in (7, 7, 8):
        writer.put(TopicRecord(offset, b"[]"), ERROR, None)
    writer.put(TopicRecord(None, b"[]"), ERROR, 5)
    assert [letter.number for letter in reader.read_all()] == [0, 2, 3]
    assert reader.read(3).key == b"t/0/event-5/replica.a"


@pytest.mark.parametrize("number", [-1, 1])
def test_a_number_without_a_letter_is_not_found(
    writer: DeadLetterWriter, reader: DeadLetterReader, number: int
) -> None:
    writer.put(TopicRecord(7, b"[]"), ERROR, None)
    with pytest.raises(NotFound):
        reader.read(number)


def test_a_topic_that_does_not_exist_has_no_letters(reader: DeadLetterReader) -> None:
    assert list(reader.read_all()) == []
    with pytest.raises(NotFound):
        reader.read(0)


def test_a_broker_that_does_not_answer_is_unavailable() -> None:
    nowhere = BrokerSettings("127.0.0.1:1", client={"log_level": "0"}, timeout_s=0.05)
    with DeadLetterReader(nowhere, "dead") as letters:
        with pytest.raises(KafkaUnavailable):
            list(letters.read_all())
        with pytest.raises(KafkaUnavailable, match="in time"):
            list(letters._from(0))


def test_a_record_that_is_cut_or_still_garbage_stays_unreadable(
    writer: DeadLetterWriter, reader: DeadLetterReader
) -> None:
    writer.put(TopicRecord(7, b"garbage"), ERROR, None)
    writer.put(TopicRecord(8, b"x" * 100_000), ERROR, None)
    writer.put(TopicRecord(9, None), ERROR, None)
    results = [reader.replay(letter) for letter in reader.read_all()]
    assert [result.outcome for result in results] == [ReplayOutcome.UNREADABLE] * 3
    cut = results[1].letter
    assert (cut.error["cut"], len(cut.value or b"")) == ("100000", 100 + 65_536)
    assert results[1].problem is not None
    assert "only the beginning" in results[1].problem


def test_a_record_with_an_event_id_is_readable_and_one_without_is_written_again(
    writer: DeadLetterWriter, reader: DeadLetterReader, broker: BrokerSettings
) -> None:
    log = ListedLog()
    log.add(ddl(1))
    (record,) = records_of(log)
    listener = json.dumps(LISTENER).encode()
    writer.put(TopicRecord(7, record.value, record.headers), ERROR, 1)
    writer.put(TopicRecord(8, listener, (("own", b"1"),), b"k"), ERROR, None)
    results = [reader.replay(letter) for letter in reader.read_all()]
    assert [result.outcome for result in results] == [ReplayOutcome.READABLE, ReplayOutcome.RESENT]
    with OffsetReader(broker, "t") as topic:
        assert list(topic.values(0, 9)) == [(0, listener)]
