"""A reader delivers events in order, each once. Events that the topic lost are read from the log, or reported
as a gap."""

from __future__ import annotations

import base64
import gzip
from dataclasses import replace

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.consumer.topic_reader import TopicReader
from daemon.kafka.signatures import Signatures
from handlers.decoding.decoder import decode
from handlers.decoding.records.encoder import encode_lost
from handlers.decoding.records.record_writer import Record
from handlers.events import DatabaseCreated, Event, TxnCommitted, Undecodable
from state.errors import ConfigError, GapDetected, KafkaUnavailable, MalformedEvent, MetastoreUnavailable
from state.event_log.positions import Position
from tests.builders.kafka.fake_log import ListedLog, commit, ddl, event, write
from tests.builders.kafka.fake_topics import ListedLetters, ListedTopic, outbox, records_of
from tests.unit.daemon.consumer.conftest import ReaderOf


def log_of(last: int) -> ListedLog:
    return ListedLog(ddl(event_id) for event_id in range(1, last + 1))


def drain(reader: TopicReader) -> list[Event]:
    """Read until the end of the topic."""
    events: list[Event] = []
    for _ in range(1000):
        batch = reader.read(0)
        events.extend(batch.events)
        if batch.caught_up:
            return events
    raise AssertionError("the reader does not come to the end")


def ids(reader: TopicReader) -> list[int]:
    return [event.event_id for event in drain(reader)]


def test_events_after_the_position_are_returned_in_order(reader_of: ReaderOf) -> None:
    reader = reader_of(ListedTopic(records_of(log_of(9))))
    reader.seek(Position(4))
    assert ids(reader) == [5, 6, 7, 8, 9]
    assert reader.status.position == Position(9)
    assert reader.status.offset == 9


def test_a_batch_has_at_most_the_configured_number_of_events_and_its_end_position(
    reader_of: ReaderOf,
) -> None:
    reader = reader_of(ListedTopic(records_of(log_of(9))), batch_events=4)
    reader.seek(Position(0))
    batch = reader.read(0)
    assert [event.event_id for event in batch.events] == [1, 2, 3, 4]
    assert batch.position == Position(4)
    assert not batch.caught_up


def test_a_batch_ends_with_the_event_that_reaches_the_configured_length(reader_of: ReaderOf) -> None:
    records = records_of(log_of(9))
    lengths = [len(record.value or b"") for record in records]
    reader = reader_of(ListedTopic(records), batch_bytes=sum(lengths[:2]) + 1)
    reader.seek(Position(0))
    batch = reader.read(0)
    assert [event.event_id for event in batch.events] == [1, 2, 3]
    assert not batch.caught_up
    assert ids(reader) == [4, 5, 6, 7, 8, 9]


def test_a_batch_counts_the_length_of_decompressed_messages(reader_of: ReaderOf) -> None:
    packed = base64.b64encode(gzip.compress(b'{"db":"x","padding":"' + b"x" * 100_000 + b'"}')).decode()
    names = {"eventTime": 1, "eventType": "CREATE_DATABASE", "dbName": "x"}
    values = [
        orjson.dumps(
            names | {"eventId": event_id, "part": 0, "parts": 1, "messageFormat": "gzip", "message": packed}
        )
        for event_id in range(1, 10)
    ]
    reader = reader_of(ListedTopic(values), batch_bytes=250_000, format="hms")
    reader.seek(Position(0))
    assert [len(reader.read(0).events) for _ in range(3)] == [3, 3, 3]


def test_events_read_from_the_log_are_bounded_by_their_length_too(reader_of: ReaderOf) -> None:
    log = log_of(9)
    reader = reader_of(ListedTopic(records_of(log)[8:]), filler=outbox(log), batch_bytes=1)
    reader.seek(Position(0))
    batches = [reader.read(0).events for _ in range(12)]
    assert [event.event_id for batch in batches for event in batch] == list(range(1, 10))
    assert max(map(len, batches)) == 1


def test_a_topic_delivered_twice_changes_nothing_and_is_counted(reader_of: ReaderOf) -> None:
    records = records_of(log_of(9))
    reader = reader_of(ListedTopic([*records, *records, *records]))
    reader.seek(Position(0))
    assert ids(reader) == list(range(1, 10))
    assert reader.status.duplicates == 18


def test_missing_offsets_are_not_a_gap(reader_of: ReaderOf) -> None:
    first, second = records_of(log_of(2))
    reader = reader_of(ListedTopic([None, None, first, None, second, None]))
    reader.seek(Position(0))
    assert ids(reader) == [1, 2]


def test_a_gap_in_the_topic_is_filled_from_the_log(reader_of: ReaderOf) -> None:
    log = log_of(9)
    records = records_of(log)
    reader = reader_of(ListedTopic([*records[:3], *records[6:]]), filler=outbox(log))
    reader.seek(Position(0))
    assert ids(reader) == list(range(1, 10))
    assert reader.status.filled == 3
    assert reader.status.duplicates == 0


def test_a_large_gap_is_filled_in_batches(reader_of: ReaderOf) -> None:
    log = log_of(500)
    records = records_of(log)
    reader = reader_of(
        ListedTopic([records[0], records[-1]]), filler=outbox(log, batch_events=7), batch_events=50
    )
    reader.seek(Position(0))
    sizes = [len(reader.read(0).events) for _ in range(10)]
    assert sizes == [50] * 10
    assert reader.status.position == Position(500)


def test_a_gap_within_an_event_is_filled(reader_of: ReaderOf) -> None:
    log = ListedLog([ddl(1), commit(2, 71), ddl(3)])
    log.writes[71] = [write("a"), write("b"), write("c")]
    records = records_of(log)
    for missing in range(1, len(records) - 1):
        topic = ListedTopic([*records[:missing], *records[missing + 1 :]])
        reader = reader_of(topic, filler=outbox(log))
        reader.seek(Position(0))
        assert [(event.event_id, event.part) for event in drain(reader)] == [
            (1, 0), (2, 0), (2, 1), (2, 2), (2, 3), (3, 0),
        ]  # fmt: skip
        assert reader.status.filled >= 1


def test_a_topic_whose_head_has_expired_is_filled_from_the_log(reader_of: ReaderOf) -> None:
    log = log_of(9)
    topic = ListedTopic(records_of(log))
    topic.truncate(6)
    reader = reader_of(topic, filler=outbox(log))
    reader.seek(Position(2))
    assert ids(reader) == [3, 4, 5, 6, 7, 8, 9]


def test_a_topic_that_retention_has_emptied_is_filled_without_waiting_for_the_next_event(
    reader_of: ReaderOf,
) -> None:
    log = log_of(9)
    topic = ListedTopic(records_of(log))
    topic.truncate(9)
    reader = reader_of(topic, filler=outbox(log))
    reader.seek(Position(2))
    assert ids(reader) == [3, 4, 5, 6, 7, 8, 9]


def test_a_gap_that_cannot_be_filled_is_reported_with_both_ids(reader_of: ReaderOf) -> None:
    records = records_of(log_of(9))
    reader = reader_of(ListedTopic([*records[:3], *records[6:]]))
    reader.seek(Position(0))
    with pytest.raises(GapDetected) as caught:
        drain(reader)
    assert caught.value.context == {"topic": "topic", "expected": 4, "found": 7}


def test_a_gap_that_the_log_has_too_is_reported_with_both_ids(reader_of: ReaderOf) -> None:
    log = log_of(9)
    records = records_of(log)
    log.clean(up_to=5)
    reader = reader_of(ListedTopic([*records[:3], *records[6:]]), filler=outbox(log))
    reader.seek(Position(0))
    with pytest.raises(GapDetected) as caught:
        drain(reader)
    assert caught.value.context == {"expected": 4, "found": 6}


@pytest.mark.parametrize("position", [3, 4, 5])
def test_the_record_of_a_relays_gap_is_a_gap_for_every_reader_before_its_end(
    reader_of: ReaderOf, position: int
) -> None:
    log = log_of(9)
    records = records_of(log)
    log.clean(up_to=6)
    topic = ListedTopic([*records[:3], encode_lost("src", range(4, 7), 1), *records[6:]])
    reader = reader_of(topic, filler=outbox(log))
    reader.seek(Position(position))
    with pytest.raises(GapDetected) as caught:
        drain(reader)
    assert caught.value.context == {"topic": "topic", "expected": position + 1, "found": 6}
    reader.seek(Position(6))
    assert ids(reader) == [7, 8, 9]


FAR = 2**62


def forged(event_id: int, *, part: int = 0, parts: int = 1) -> bytes:
    """Return a valid record of an event that the source does not have."""
    head = b'{"eventId":%d,"part":%d,"parts":%d,' % (event_id, part, parts)
    return head + b'"eventTime":1,"eventType":"CREATE_DATABASE","dbName":"x","message":{"db":"x"}}'


@pytest.mark.parametrize(
    "record",
    [
        forged(FAR),
        forged(10, part=3, parts=9),
        forged(11),
        encode_lost("src", range(4, FAR), 1),
        encode_lost("src", range(1, FAR), 1),
        encode_lost("src", range(4, 8), 1),
        encode_lost("src", range(4, 5), 1),
        encode_lost("src", range(2, 5), 1),
    ],
)
@pytest.mark.parametrize("batch_events", [1, 500])
def test_a_record_that_the_log_contradicts_is_a_dead_letter_and_has_no_effect(
    reader_of: ReaderOf, letters: ListedLetters, record: Record | bytes, batch_events: int
) -> None:
    log = log_of(9)
    records = records_of(log)
    for place in (3, 9):
        letters.put_in.clear()
        log.current = None
        topic = ListedTopic([*records[:place], record, *records[place:]])
        for start in (0, 3):  # also after a restart at the record
            reader = reader_of(topic, filler=outbox(log), batch_events=batch_events)
            reader.seek(Position(start))
            assert ids(reader) == list(range(start + 1, 10))
            assert reader.status.foreign == reader.status.dead_letters
        if not (place == 9 and isinstance(record, Record) and decode(record.value).event_id < 9):
            assert {type(error).__name__ for _, error, _ in letters.put_in} == {"ForeignRecord"}


SIGNATURES = Signatures("src", (b"k" * 32,))


def signed(record: Record, signatures: Signatures = SIGNATURES) -> Record:
    return replace(record, headers=(*record.headers, signatures.sign(record.value)))


@pytest.mark.parametrize("key", [None, b"x" * 32], ids=["unsigned", "another key"])
@pytest.mark.parametrize("place", [0, 3, 9])
def test_a_record_without_a_valid_signature_has_no_effect_even_if_it_continues_the_topic(
    reader_of: ReaderOf, letters: ListedLetters, place: int, key: bytes | None
) -> None:
    log = log_of(9)
    records = [signed(record) for record in records_of(log)]
    forgery = records_of(ListedLog(commit(event_id, 70) for event_id in range(1, 11)), place + 1)[0]
    if key is not None:
        forgery = signed(forgery, Signatures("src", (key,)))
    reader = reader_of(
        ListedTopic([*records[:place], forgery, *records[place:]]),
        filler=outbox(log),
        signatures=SIGNATURES,
        format="tideline-1",
    )
    reader.seek(Position(0))
    events = drain(reader)
    assert [(type(event), event.event_id) for event in events] == [
        (DatabaseCreated, number) for number in range(1, 10)
    ]
    assert (reader.status.foreign, reader.status.dead_letters, reader.status.filled) == (1, 1, 0)
    assert [error.code for _, error, _ in letters.put_in] == ["foreign-record"]


def test_events_whose_records_are_not_signed_are_read_from_the_notification_log(reader_of: ReaderOf) -> None:
    log = log_of(9)
    records = records_of(log)
    topic = ListedTopic([*records[:7], *map(signed, records[7:])])
    reader = reader_of(topic, filler=outbox(log), signatures=SIGNATURES, format="tideline-1")
    reader.seek(Position(4))
    assert ids(reader) == [5, 6, 7, 8, 9]
    assert (reader.status.filled, reader.status.foreign) == (3, 3)


def test_the_log_is_asked_only_about_ids_that_jump(reader_of: ReaderOf) -> None:
    log = log_of(9)
    topic = ListedTopic([*records_of(log)[:5], forged(FAR), *records_of(log)])
    asked: list[str] = []

    def refuse(call: str) -> MetastoreUnavailable:
        asked.append(call)
        return MetastoreUnavailable("away")

    log.failing = refuse
    reader = reader_of(topic, filler=outbox(log))
    reader.seek(Position(0))
    assert [event.event_id for event in reader.read(0).events] == [1, 2, 3, 4, 5]
    assert len(asked) == 1
    with pytest.raises(MetastoreUnavailable):
        reader.read(0)
    log.failing = lambda _call: None
    reader.seek(Position(5))
    assert ids(reader) == [6, 7, 8, 9]


def test_the_events_before_a_failure_are_returned_first(reader_of: ReaderOf) -> None:
    records = records_of(log_of(9))
    reader = reader_of(ListedTopic([*records[:3], *records[6:]]))
    reader.seek(Position(0))
    batch = reader.read(0)
    assert (len(batch.events), batch.position, batch.caught_up) == (3, Position(3), False)
    for _ in range(2):
        with pytest.raises(GapDetected):
            reader.read(0)
    reader.seek(Position(6))
    assert ids(reader) == [7, 8, 9]


def test_an_event_with_more_parts_than_a_position_can_store_is_a_dead_letter(
    reader_of: ReaderOf, letters: ListedLetters
) -> None:
    first, second = records_of(log_of(2))
    topic = ListedTopic([first, forged(2, parts=2**32), second])
    reader = reader_of(topic, format="tideline-1")
    reader.seek(Position(0))
    assert ids(reader) == [1, 2]
    assert len(letters.put_in) == 1


def test_events_before_a_gap_are_delivered_and_reading_can_start_again(reader_of: ReaderOf) -> None:
    log = log_of(9)
    records = records_of(log)
    filler = outbox(log)
    reader = reader_of(ListedTopic([*records[:3], *records[6:]]), filler=filler, batch_events=3)
    log.failing = lambda call: MetastoreUnavailable("away") if call == "next_events" else None
    reader.seek(Position(0))
    assert reader.read(0).position == Position(3)
    with pytest.raises(MetastoreUnavailable):
        drain(reader)
    reader.close()
    log.failing = lambda _call: None
    reader.seek(Position(3))
    assert ids(reader) == [4, 5, 6, 7, 8, 9]


def test_a_topic_that_is_recreated_while_it_is_read_is_searched_again(reader_of: ReaderOf) -> None:
    log = log_of(9)
    topic = ListedTopic([*[None] * 100, *records_of(log, 1, 6)])
    reader = reader_of(topic, filler=outbox(log))
    reader.seek(Position(0))
    assert ids(reader) == [1, 2, 3, 4, 5, 6]
    topic.recreate(*records_of(log, 4, 9))
    assert ids(reader) == [7, 8, 9]
    assert reader.status.searches == 1
    assert reader.status.filled == 0


def test_a_recreated_topic_that_is_longer_than_the_old_one_is_searched_again(reader_of: ReaderOf) -> None:
    log = log_of(20)
    topic = ListedTopic(records_of(log, 1, 6))
    reader = reader_of(topic, filler=outbox(log))
    reader.seek(Position(0))
    assert ids(reader) == [1, 2, 3, 4, 5, 6]
    topic.recreate(*records_of(log, 5, 20))
    assert ids(reader) == list(range(7, 21))
    assert reader.status.searches == 1
    assert reader.status.filled == 0


def test_a_topic_that_is_lost_repeatedly_is_an_error(reader_of: ReaderOf) -> None:
    topic = ListedTopic(records_of(log_of(6)))
    reader = reader_of(topic)
    reader.seek(Position(0))
    assert ids(reader) == [1, 2, 3, 4, 5, 6]
    topic.low, topic.high = 50, 49
    with pytest.raises(KafkaUnavailable):
        drain(reader)


def test_a_record_that_is_not_an_event_becomes_a_dead_letter_and_is_skipped(
    reader_of: ReaderOf, letters: ListedLetters
) -> None:
    first, second = records_of(log_of(2))
    reader = reader_of(ListedTopic([first, b"hello", b"\xff\x00", second]))
    reader.seek(Position(0))
    assert ids(reader) == [1, 2]
    assert [record.value for record, _, _ in letters.put_in] == [b"hello", b"\xff\x00"]
    assert reader.status.dead_letters == 2


def test_an_event_that_a_foreign_record_has_replaced_is_read_from_the_log(
    reader_of: ReaderOf, letters: ListedLetters
) -> None:
    log = log_of(3)
    first, _, third = records_of(log)
    reader = reader_of(ListedTopic([first, b"hello", third]), filler=outbox(log))
    reader.seek(Position(0))
    assert ids(reader) == [1, 2, 3]
    assert len(letters.put_in) == 1


def test_an_event_that_cannot_be_decoded_becomes_a_dead_letter_and_is_delivered_as_undecodable(
    reader_of: ReaderOf, letters: ListedLetters
) -> None:
    log = ListedLog([ddl(1), event(2, "ADD_PARTITION", "no json", db="sales", table="orders"), ddl(3)])
    reader = reader_of(ListedTopic(records_of(log)))
    reader.seek(Position(0))
    events = drain(reader)
    assert isinstance(events[1], Undecodable)
    assert (events[1].db, events[1].table) == ("sales", "orders")
    ((record, error, event_id),) = letters.put_in
    assert (record.offset, event_id) == (1, 2)
    assert isinstance(error, MalformedEvent)


def test_an_undecodable_event_that_was_delivered_before_is_not_stored_again(
    reader_of: ReaderOf, letters: ListedLetters
) -> None:
    log = ListedLog([event(1, "ADD_PARTITION", "no json", db="sales", table="orders"), ddl(2)])
    records = records_of(log)
    reader = reader_of(ListedTopic([*records, *records]))
    reader.seek(Position(0))
    assert len(drain(reader)) == 2
    assert len(letters.put_in) == 1


def test_nothing_is_skipped_while_dead_letters_cannot_be_written(
    reader_of: ReaderOf, letters: ListedLetters
) -> None:
    first, second = records_of(log_of(2))
    letters.unavailable = True
    reader = reader_of(ListedTopic([first, b"hello", second]))
    reader.seek(Position(0))
    with pytest.raises(KafkaUnavailable):
        drain(reader)
    letters.unavailable = False
    reader.seek(Position(0))
    assert ids(reader) == [1, 2]
    assert len(letters.put_in) == 1


def test_events_of_unknown_types_are_counted_and_delivered(reader_of: ReaderOf) -> None:
    log = ListedLog([event(1, "TELEPORT_TABLE", {}), event(2, "CREATE_CATALOG", {})])
    reader = reader_of(ListedTopic(records_of(log)))
    reader.seek(Position(0))
    assert ids(reader) == [1, 2]
    assert reader.status.unknown == 1


APIARY = b'{"protocolVersion":"1.0","eventType":"DROP_TABLE","dbName":"sales","tableName":"t%d"}'


def test_without_event_ids_the_offsets_are_the_ids(reader_of: ReaderOf, letters: ListedLetters) -> None:
    topic = ListedTopic([APIARY % 0, None, b"hello", APIARY % 3])
    reader = reader_of(topic, offsets_are_ids=True, format="apiary-sns")
    reader.seek(Position(0))
    events = drain(reader)
    assert [(event.event_id, type(event).__name__) for event in events] == [
        (1, "TableDropped"),
        (3, "Undecodable"),
        (4, "TableDropped"),
    ]
    assert len(letters.put_in) == 1
    reader.seek(Position(3))
    assert ids(reader) == [4]


@st.composite
def mangled(draw: st.DrawFn) -> tuple[ListedLog, list[Record | bytes | None]]:
    """Generate a log, and a topic that lost some of its events, repeats others, and contains markers and
    garbage."""
    log = ListedLog()
    for event_id in range(1, draw(st.integers(2, 30))):
        if draw(st.booleans()):
            log.add(ddl(event_id))
        else:
            log.add(commit(event_id, 100 + event_id))
            log.writes[100 + event_id] = [write(f"t{n}") for n in range(draw(st.integers(0, 3)))]
    log.add(ddl(len(log.events) + 1))
    records = records_of(log)
    kept: list[Record | bytes | None] = []
    for index, record in enumerate(records):
        fate = draw(st.sampled_from(["keep", "keep", "lose", "repeat", "noise"]))
        if fate != "lose" or index == len(records) - 1:
            kept.append(record)
        if fate == "repeat":
            kept.extend(records[max(0, index - draw(st.integers(0, 5))) : index + 1])
        if fate == "noise":
            kept.append(draw(st.sampled_from([None, b"garbage"])))
    return log, kept


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(mangled(), st.data())
def test_the_events_are_those_of_the_log_whatever_happens_to_the_topic(
    reader_of: ReaderOf, world: tuple[ListedLog, list[Record | bytes | None]], data: st.DataObject
) -> None:
    log, kept = world
    topic = ListedTopic(kept)
    start = data.draw(st.integers(0, max(log.events) - 1))
    reader = reader_of(topic, filler=outbox(log), batch_events=data.draw(st.integers(1, 10)))
    reader.seek(Position(start))
    seen = [(event.event_id, event.part) for event in drain(reader)]
    whole = reader_of(ListedTopic(records_of(log)))
    whole.seek(Position(start))
    assert seen == [(event.event_id, event.part) for event in drain(whole)]


def nameless(record: Record) -> bytes:
    """Return the record with its position and without anything else that can be read."""
    head = record.value[: record.value.index(b'"eventTime"')]
    return head + b"broken"


def test_a_record_that_cannot_be_read_and_names_no_table_is_read_again_from_the_log(
    reader_of: ReaderOf, letters: ListedLetters
) -> None:
    log = ListedLog([ddl(1), commit(2, 71), ddl(3)])
    log.writes[71] = [write("a"), write("b")]
    records = records_of(log)
    for broken in range(len(records)):
        letters.put_in.clear()
        values = [nameless(record) if n == broken else record for n, record in enumerate(records)]
        reader = reader_of(ListedTopic(values), filler=outbox(log), format="tideline-1")
        reader.seek(Position(0))
        events = drain(reader)
        assert [(each.event_id, each.part) for each in events] == [(1, 0), (2, 0), (2, 1), (2, 2), (3, 0)]
        assert not any(isinstance(each, Undecodable) for each in events)
        assert [event_id for _, _, event_id in letters.put_in] == [events[broken].event_id]


def test_a_nameless_record_that_the_log_no_longer_has_is_reported_with_the_command_that_helps(
    reader_of: ReaderOf,
) -> None:
    log = log_of(9)
    records = records_of(log)
    log.clean(up_to=5)
    values = [nameless(record) if n == 3 else record for n, record in enumerate(records)]
    reader = reader_of(ListedTopic(values), filler=outbox(log), format="tideline-1")
    reader.seek(Position(0))
    found = drain(reader)[3]
    assert isinstance(found, Undecodable)
    assert "tideline dlq show" in found.error.hint


def test_the_end_of_an_event_of_which_the_log_has_fewer_parts_is_taken_from_the_log(
    reader_of: ReaderOf,
) -> None:
    """The relay adds parts for files that it lists; the log alone does not have them."""
    log = ListedLog([ddl(1), commit(2, 71), ddl(3)])
    log.writes[71] = [write("a"), write("b"), write("c")]
    with_listed = records_of(log)
    log.writes[71].pop()
    for cut in range(2, 5):
        reader = reader_of(ListedTopic([*with_listed[:cut], with_listed[-1]]), filler=outbox(log))
        reader.seek(Position(0))
        events = drain(reader)
        assert [each.event_id for each in events if isinstance(each, TxnCommitted | DatabaseCreated)] == [
            1,
            2,
            3,
        ]


def test_a_reader_that_needs_event_ids_refuses_a_topic_without_them_also_where_its_format_is_detected(
    reader_of: ReaderOf,
) -> None:
    topic = ListedTopic([APIARY % 0])
    with pytest.raises(ConfigError, match="no event ids"):
        reader_of(topic, offsets_are_ids=True, format="auto", needs_event_ids=True).seek(Position(0))
    reader_of(topic, offsets_are_ids=True, format="auto").seek(Position(0))
