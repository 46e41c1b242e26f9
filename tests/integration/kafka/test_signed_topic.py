"""On a real broker, only records that the relay signed have an effect. No event is lost because of others."""

from __future__ import annotations

from collections.abc import Iterable

from daemon.consumer.topic_reader import TopicReader
from daemon.kafka.dead_letter_reader import DeadLetterReader
from daemon.kafka.signatures import Signatures
from handlers.decoding.records.encoder import encode_lost
from handlers.events import DatabaseCreated, Event
from state.event_log.positions import Position
from tests.builders.kafka.fake_log import ListedLog, commit, ddl
from tests.builders.kafka.fake_topics import outbox, records_of
from tests.builders.kafka.relay_and_readers import Stream, drain
from tests.integration.kafka.conftest import StreamOf


OLD = Signatures("src", (b"o" * 32,))
BOTH = Signatures("src", (b"n" * 32, b"o" * 32))
NEW = Signatures("src", (b"n" * 32,))


def add(stream: Stream, first: int, last: int) -> None:
    stream.log.add(*(ddl(event_id) for event_id in range(first, last + 1)))


def forge(stream: Stream, event_ids: Iterable[int]) -> None:
    """Write commits in place of the events of the log, as any program that may write to the topic could."""
    log = ListedLog(commit(event_id, 7) for event_id in event_ids)
    stream.produce([record.value for record in records_of(log, min(log.events))])


def reader(stream: Stream, signatures: Signatures) -> TopicReader:
    return stream.reader(filler=outbox(stream.log), signatures=signatures, format="tideline-1")


def genuine(first: int, last: int) -> list[tuple[type[Event], int]]:
    return [(DatabaseCreated, event_id) for event_id in range(first, last + 1)]


def kinds(events: list[Event]) -> list[tuple[type[Event], int]]:
    return [(type(event), event.event_id) for event in events]


def test_forged_records_have_no_effect_on_readers_or_on_the_relay_that_continues_after_them(
    stream_of: StreamOf,
) -> None:
    stream = stream_of()
    add(stream, 1, 20)
    stream.relay_all(signatures=OLD)
    forge(stream, [21, 22])
    stream.produce([encode_lost("src", range(10, 25), 1).value, b"garbage"])
    add(stream, 21, 40)
    stream.relay_all(signatures=OLD)
    following = reader(stream, OLD)
    assert kinds(drain(following, Position(0))) == genuine(1, 40)
    assert (following.status.foreign, following.status.filled) == (4, 0)
    with DeadLetterReader(stream.broker, stream.name + ".dead") as letters:
        assert {letter.error["code"] for letter in letters.read_all()} == {"foreign-record"}


def test_signing_can_begin_in_a_topic_whose_records_are_not_signed(stream_of: StreamOf) -> None:
    stream = stream_of()
    add(stream, 1, 20)
    stream.relay_all()
    add(stream, 21, 25)
    stream.relay_all(signatures=OLD)
    assert kinds(drain(reader(stream, OLD), Position(15))) == genuine(16, 25)


def test_a_key_is_replaced_while_records_of_the_old_one_remain(stream_of: StreamOf) -> None:
    stream = stream_of()
    add(stream, 1, 10)
    stream.relay_all(signatures=OLD)
    add(stream, 11, 20)
    stream.relay_all(signatures=BOTH)
    both, new = reader(stream, BOTH), reader(stream, NEW)
    assert kinds(drain(both, Position(0))) == genuine(1, 20)
    assert (both.status.foreign, both.status.filled) == (0, 0)
    assert kinds(drain(new, Position(0))) == genuine(1, 20)
    assert (new.status.foreign, new.status.filled) == (10, 10)


def test_a_reader_without_keys_reads_signed_records_as_before(stream_of: StreamOf) -> None:
    stream = stream_of()
    add(stream, 1, 10)
    stream.relay_all(signatures=OLD)
    assert kinds(drain(stream.reader(), Position(0))) == genuine(1, 10)
