from __future__ import annotations

import dataclasses
import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dev.fixtures.notifications import KINDS, message_of, notification, read_recorded, to_plain, write_events
from handlers.decoding.decoder import decode
from handlers.decoding.header import FORMAT_HEADER, RecordPosition, peek_position
from handlers.decoding.records.encoder import encode, encode_lost
from handlers.decoding.records.record_writer import Record
from handlers.events import (
    Event,
    EventsLost,
    FilesWritten,
    Inserted,
    PartitionsAdded,
    TableAltered,
    TxnAborted,
    TxnCommitted,
    Undecodable,
    Unhandled,
)
from handlers.structs.notifications import NotificationEvent, WriteEventInfo
from state.errors import LimitExceeded, MalformedEvent


LIMIT = 512 * 1024


def records_of(
    event: NotificationEvent, writes: list[WriteEventInfo] | None = None, limit: int = LIMIT
) -> list[Record]:
    return encode("lake", event, writes, record_bytes_max=limit)


def events_of(records: list[Record]) -> list[Event]:
    return [decode(record.value, record.headers) for record in records]


def only(records: list[Record]) -> Event:
    (event,) = events_of(records)
    return event


@given(st.integers(1, 1 << 40), st.integers(1, 1 << 30), st.integers(0, 9))
def test_lost_events_are_one_record_under_the_id_of_the_last_of_them(
    first: int, count: int, part: int
) -> None:
    record = encode_lost("lake", range(first, first + count), 1_700_000_000, part)
    event = decode(record.value, record.headers)
    assert isinstance(event, EventsLost)
    assert (event.first_event_id, event.event_id) == (first, first + count - 1)
    assert (event.part, event.parts, event.time_s, event.db) == (part, part + 1, 1_700_000_000, None)
    assert peek_position(record.value) == RecordPosition(event.event_id, part, part + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_every_recorded_notification_becomes_the_recorded_event(kind: str) -> None:
    records = records_of(notification(kind), write_events(kind))
    assert [to_plain(event) for event in events_of(records)] == read_recorded(kind)["event"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_encoding_of_the_message_makes_no_difference(kind: str) -> None:
    forms = ["gzip(json-2.0)", "json-0.2", None]
    values = [
        [r.value for r in records_of(notification(kind, form=form), write_events(kind))] for form in forms
    ]
    assert values[0] == values[1] == values[2]


def test_a_record_is_the_documented_envelope_around_the_message() -> None:
    (record,) = records_of(notification("ALLOC_WRITE_ID_EVENT"))
    value = json.loads(record.value)
    assert list(value) == [
        *("eventId", "part", "parts", "eventTime", "eventType", "catName", "dbName", "tableName", "message")
    ]
    assert value["message"] == message_of("ALLOC_WRITE_ID_EVENT")
    assert record.key == b"lake"
    assert record.headers == ((FORMAT_HEADER, b"tideline-1"),)


def test_a_record_without_its_header_is_recognised_by_its_fields() -> None:
    (record,) = records_of(notification("OPEN_TXN"))
    assert decode(record.value) == decode(record.value, record.headers, format="tideline-1")


def test_a_record_of_a_newer_format_is_refused() -> None:
    (record,) = records_of(notification("OPEN_TXN"))
    with pytest.raises(MalformedEvent, match="not supported by this version"):
        decode(record.value, [(FORMAT_HEADER, b"tideline-2")])


def test_write_events_come_before_their_commit_under_its_event_id() -> None:
    events = events_of(records_of(notification("COMMIT_TXN"), write_events("COMMIT_TXN")))
    assert [type(event) for event in events] == [FilesWritten, FilesWritten, TxnCommitted]
    assert [(event.event_id, event.part, event.parts) for event in events] == [
        (74, 0, 3),
        (74, 1, 3),
        (74, 2, 3),
    ]
    first, _, commit = events
    assert isinstance(first, FilesWritten)
    assert isinstance(commit, TxnCommitted)
    assert first.txn_id == commit.txn_id
    assert first.raw_files == (read_recorded("COMMIT_TXN")["writes"][0]["files"],)
    assert commit.enriched


def test_several_files_of_one_write_event_are_separated() -> None:
    write = write_events("COMMIT_TXN")[0]  # type: ignore[index]
    write.files = f"{write.files}] {write.files.replace('bucket_00000', 'bucket_00001')} ]"
    written = events_of(records_of(notification("COMMIT_TXN"), [write]))[0]
    assert isinstance(written, FilesWritten)
    assert [file.uri[-14:] for file in written.files] == ["bucket_00000_0", "bucket_00001_0"]


def test_a_commit_without_writes_is_enriched_and_one_whose_writes_were_not_fetched_is_not() -> None:
    answers: tuple[list[WriteEventInfo] | None, ...] = ([], None)
    enriched = [only(records_of(notification("COMMIT_TXN"), writes)) for writes in answers]
    assert [event.enriched for event in enriched if isinstance(event, TxnCommitted)] == [True, False]


@pytest.mark.parametrize("kind", KINDS)
def test_peeking_returns_the_position_without_reading_the_record(kind: str) -> None:
    for record in records_of(notification(kind), write_events(kind)):
        event = decode(record.value)
        place = RecordPosition(event.event_id, event.part, event.parts)
        assert peek_position(record.value) == place
        assert peek_position(record.value[:80]) == place
        assert peek_position(json.dumps(json.loads(record.value), indent=1).encode()) == place


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{}",
        b'{"eventId":1}',
        b'{"eventId":1,"part":1,"parts":1,"x":0}',
        b'{"eventId":1,"part":-1,"parts":1,"x":0}',
        b'{"eventId":"1","part":0,"parts":1}',
        b'{"eventId":1.0,"part":0,"parts":1}',
        b'{"eventId":true,"part":0,"parts":1}',
        b'{"eventId":9223372036854775808,"part":0,"parts":1,"x":0}',
        b'{"eventId":99999999999999999999,"part":0,"parts":1,"x":0}',
    ],
)
def test_a_record_without_a_valid_position_is_malformed(value: bytes) -> None:
    with pytest.raises(MalformedEvent):
        peek_position(value)
    with pytest.raises(MalformedEvent):
        decode(value)


def test_a_notification_without_an_event_id_is_malformed() -> None:
    event = notification("OPEN_TXN")
    event.eventId = None  # type: ignore[assignment]
    with pytest.raises(MalformedEvent):
        records_of(event)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a":1e400}', '{"a":"' + "x" * 400_000])
@pytest.mark.parametrize("form", ["json-0.2", "gzip(json-2.0)"])
def test_a_message_that_cannot_be_read_becomes_a_record_with_its_reason_and_text(
    text: str, form: str
) -> None:
    event = notification("ALTER_TABLE", text=text, form=form)
    (record,) = records_of(event)
    value = json.loads(record.value)
    assert value["message"] is None
    assert value["raw"] == event.message
    decoded = decode(record.value)
    assert isinstance(decoded, Undecodable)
    assert (decoded.event_id, decoded.db, decoded.table) == (64, "shop", "orders")
    assert "the relay cannot read the message" in str(decoded.error)


def test_the_text_of_an_unreadable_message_is_omitted_if_it_does_not_fit() -> None:
    (record,) = records_of(notification("ALTER_TABLE", text="{" + "x" * LIMIT, form="json-0.2"))
    assert len(record.value) < 1000
    assert isinstance(decode(record.value), Undecodable)


def test_the_deepest_message_that_the_relay_accepts_can_be_decoded() -> None:
    for levels, expected in ((63, TxnAborted), (64, Undecodable)):
        deep = json.loads("[" * levels + "]" * levels)
        assert isinstance(only(records_of(notification("ABORT_TXN", unknown=deep))), expected)


def test_names_that_are_not_valid_unicode_do_not_stop_the_relay() -> None:
    event = notification("ALTER_TABLE")
    event.tableName = "bad\ud800"
    decoded = only(records_of(event))
    assert isinstance(decoded, Undecodable)
    assert decoded.db == "shop"


def test_an_unreadable_message_of_a_type_without_effect_is_skipped() -> None:
    for kind, known in (("CREATE_CATALOG", True), ("BRAND_NEW", False)):
        event = notification("CREATE_FUNCTION", text="{", form="json-0.2")
        event.eventType = kind
        decoded = only(records_of(event))
        assert isinstance(decoded, Unhandled)
        assert decoded.is_known is known


def test_a_number_too_large_for_an_id_is_refused_and_not_rounded() -> None:
    for number in (2**63, 2**64, 10**30, -1, 0, 1.5, True, "x", "1e3"):
        text = json.dumps(message_of("ABORT_TXN") | {"txnid": number})
        decoded = only(records_of(notification("ABORT_TXN", text=text)))
        assert isinstance(decoded, Undecodable), number
        assert isinstance(decoded.error, MalformedEvent)


def test_a_broken_record_keeps_its_position_if_its_first_bytes_have_it() -> None:
    (record,) = records_of(notification("ALTER_TABLE"))
    decoded = decode(record.value[:-100], record.headers)
    assert isinstance(decoded, Undecodable)
    assert (decoded.event_id, decoded.part, decoded.table) == (64, 0, None)
    with pytest.raises(MalformedEvent):
        decode(record.value[5:], record.headers)
    with pytest.raises(MalformedEvent):
        decode(b"\xff" * 100, record.headers)


def test_bad_content_names_the_table_so_that_only_it_is_quarantined() -> None:
    (record,) = records_of(notification("ALTER_TABLE", tableObjAfterJson=None))
    decoded = decode(record.value)
    assert isinstance(decoded, Undecodable)
    assert (decoded.kind, decoded.db, decoded.table) == ("ALTER_TABLE", "shop", "orders")
    assert "tableObjAfterJson is missing" in decoded.error.message


@pytest.mark.parametrize(
    "name", ["quo'te", 'dou"ble', "back`tick", "a/b", "..", "a;b", "a%2fb", "ümlaut", "x" * 256]
)
def test_odd_names_are_kept_as_they_are(name: str) -> None:
    event = notification("ALTER_TABLE")
    event.tableName = name.upper()
    decoded = only(records_of(event))
    assert isinstance(decoded, TableAltered)
    assert decoded.table == name


@pytest.mark.parametrize("name", ["new\nline", "nul\0", "bell\x07", "x" * 257, "x" * 1_000_000])
def test_names_that_no_metastore_has_make_the_event_undecodable(name: str) -> None:
    event = notification("ALTER_TABLE")
    event.tableName = name
    decoded = only(records_of(event, limit=2_000_000))
    assert isinstance(decoded, Undecodable)
    assert decoded.table is None
    assert decoded.db == "shop"


def test_a_message_that_cannot_be_split_becomes_a_record_of_its_size() -> None:
    message = message_of("ALTER_TABLE")
    event = notification("ALTER_TABLE", tableObjAfterJson=message["tableObjAfterJson"] + " " * LIMIT)
    (record,) = records_of(event)
    value = json.loads(record.value)
    assert value["message"] is None
    assert value["oversize"] > LIMIT
    decoded = decode(record.value)
    assert isinstance(decoded, Undecodable)
    assert isinstance(decoded.error, LimitExceeded)
    assert decoded.table == "orders"


def test_a_message_that_cannot_be_split_may_use_the_hard_limit() -> None:
    message = message_of("ALTER_TABLE")
    event = notification("ALTER_TABLE", tableObjAfterJson=message["tableObjAfterJson"] + " " * LIMIT)
    (record,) = encode("lake", event, None, record_bytes_max=LIMIT, hard_bytes_max=2 * LIMIT)
    assert isinstance(decode(record.value), TableAltered)


# Events too large for one record


def file_entries(count: int, partition: str = "") -> list[str]:
    return [
        f"file:/w/t{partition}/delta_1_1_0000/bucket_{n:05}_0#{n:032x}#file:/cm#delta_1_1_0000"
        for n in range(count)
    ]


@pytest.mark.parametrize("limit", [5_000, 20_000, 100_000])
def test_a_large_write_event_is_split_by_its_files(limit: int) -> None:
    write = write_events("COMMIT_TXN")[0]  # type: ignore[index]
    write.files = "]".join(file_entries(3_000))
    records = records_of(notification("COMMIT_TXN"), [write], limit)
    *written, commit = events_of(records)
    assert all(len(record.value) <= limit for record in records)
    assert isinstance(commit, TxnCommitted)
    assert [event.part for event in written] == list(range(len(written)))
    assert {event.parts for event in written} == {len(records)}
    assert [
        raw for event in written if isinstance(event, FilesWritten) for raw in event.raw_files
    ] == file_entries(3_000)
    assert {event.partition_name for event in written if isinstance(event, FilesWritten)} == {write.partition}


@pytest.mark.parametrize("limit", [8_000, 50_000])
def test_many_added_partitions_are_split_together_with_their_objects_and_files(limit: int) -> None:
    message = message_of("ADD_PARTITION")
    objects = message["partitionListJson"] * 100
    names = [f"day=2024-05-01/hour={n}" for n in range(200)]
    files = [{"partitionName": name, "files": file_entries(n % 5, name)} for n, name in enumerate(names)]
    specs = [{"day": "2024-05-01", "hour": str(n)} for n in range(200)]
    event = notification("ADD_PARTITION", partitions=specs, partitionListJson=objects, partitionFiles=files)
    records = records_of(event, limit=limit)
    events = [part for part in events_of(records) if isinstance(part, PartitionsAdded)]
    assert len(events) == len(records) > 5
    assert all(len(record.value) <= limit for record in records)
    assert [p.text for part in events for p in part.partitions] == objects
    assert [name for part in events for name in part.files] == names
    assert all(len(part.files) == len(part.partitions) for part in events)
    messages = [orjson.loads(record.value)["message"] for record in records]
    assert [spec for one in messages for spec in one["partitions"]] == specs


def test_a_partition_with_too_many_files_is_repeated_in_several_parts() -> None:
    message = message_of("ADD_PARTITION")
    files = [
        {"partitionName": "day=1/hour=1", "files": file_entries(500)},
        {"partitionName": "day=1/hour=2", "files": []},
    ]
    event = notification("ADD_PARTITION", partitionFiles=files)
    records = records_of(event, limit=10_000)
    events = [part for part in events_of(records) if isinstance(part, PartitionsAdded)]
    assert all(len(record.value) <= 10_000 for record in records)
    entries = [file for part in events for file in part.files.get("day=1/hour=1", ())]
    assert len(entries) == len(set(entries)) == 500
    assert [p.text for part in events for p in part.partitions][-1] == message["partitionListJson"][1]


def test_only_the_first_part_of_an_overwriting_insert_replaces() -> None:
    events = events_of(records_of(notification("INSERT", files=file_entries(500)), limit=10_000))
    assert [event.replace for event in events if isinstance(event, Inserted)] == [True] + [False] * (
        len(events) - 1
    )
    assert len(events) > 3


def test_the_parts_of_an_insert_without_replace_have_none_either() -> None:
    events = events_of(
        records_of(notification("INSERT", files=file_entries(500), replace=None), limit=10_000)
    )
    assert {event.replace for event in events if isinstance(event, Inserted)} == {None}


def test_lists_that_are_not_parallel_are_not_split() -> None:
    event = notification("ADD_PARTITION", partitions=[{"day": "1", "hour": "1"}] * 3)
    decoded = only(records_of(event, limit=3_000))
    assert isinstance(decoded, Undecodable)
    assert isinstance(decoded.error, LimitExceeded)


def test_one_oversized_item_does_not_affect_the_others() -> None:
    message = message_of("ADD_PARTITION")
    objects = [message["partitionListJson"][0], message["partitionListJson"][1] + " " * 20_000]
    events = events_of(records_of(notification("ADD_PARTITION", partitionListJson=objects), limit=10_000))
    assert [type(event) for event in events] == [PartitionsAdded, Undecodable]
    assert {(event.db, event.table) for event in events} == {("shop", "visits")}


def test_records_are_values() -> None:
    (record,) = records_of(notification("OPEN_TXN"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.value = b""  # type: ignore[misc]
