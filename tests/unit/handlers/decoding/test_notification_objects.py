from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from dev.fixtures.notifications import KINDS, message_of, notification, read_recorded
from handlers.decoding.decoder import decode
from handlers.decoding.header import Arrival
from handlers.decoding.messages import Limits
from handlers.decoding.records.encoder import encode
from handlers.events import (
    Event,
    FilesWritten,
    Inserted,
    PartitionsAdded,
    TableCreated,
    TableDropped,
    TxnCommitted,
    TxnsOpened,
    Undecodable,
    Unhandled,
    WriteIdsAllocated,
)
from state.errors import LimitExceeded, MalformedEvent


ARRIVAL = Arrival(event_id=501, time_s=1_700_000_000)


def value_of(kind: str, *, form: str | None = "json-0.2", **changed: Any) -> bytes:
    """A notification object as a publisher writes it; ``changed`` are fields of the message."""
    return json.dumps(notification(kind, form=form, **changed).set_fields()).encode()


def decoded(kind: str, **changed: Any) -> Event:
    return decode(value_of(kind, **changed))


def problem(kind: str, limits: Limits | None = None, **changed: Any) -> str:
    event = decode(value_of(kind, **changed), limits=limits or Limits())
    assert isinstance(event, Undecodable), event
    return event.error.message


@pytest.mark.parametrize("form", ["json-0.2", "gzip(json-2.0)", None])
@pytest.mark.parametrize("kind", KINDS)
def test_a_notification_object_says_the_same_as_the_record_that_the_relay_makes_of_it(
    kind: str, form: str | None
) -> None:
    event = decode(value_of(kind, form=form))
    (record,) = encode("lake", notification(kind), None, record_bytes_max=1 << 20)
    assert event == decode(record.value)
    assert event.event_id == read_recorded(kind)["notification"]["eventId"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.endswith("_EVENT")])
def test_a_type_without_its_suffix_is_decoded_under_its_full_name(kind: str) -> None:
    value = orjson.loads(value_of(kind)) | {"eventType": kind.removesuffix("_EVENT")}
    assert decode(orjson.dumps(value)) == decoded(kind)


def test_a_message_that_is_already_an_object_is_accepted() -> None:
    value = orjson.loads(value_of("OPEN_TXN")) | {"message": message_of("OPEN_TXN")}
    assert decode(orjson.dumps(value)) == decoded("OPEN_TXN")


def test_an_event_id_may_be_a_string_of_digits() -> None:
    value = orjson.loads(value_of("OPEN_TXN")) | {"eventId": "1099"}
    assert decode(orjson.dumps(value)).event_id == 1099


def test_without_an_event_id_the_arrival_gives_the_position() -> None:
    value = {k: v for k, v in orjson.loads(value_of("OPEN_TXN")).items() if k not in {"eventId", "eventTime"}}
    event = decode(orjson.dumps(value), arrival=ARRIVAL)
    assert (event.event_id, event.time_s) == ARRIVAL
    with pytest.raises(MalformedEvent):
        decode(orjson.dumps(value))


def test_names_are_lower_case_and_come_from_the_message_where_the_notification_has_none() -> None:
    value = orjson.loads(value_of("CREATE_TABLE", db="SHOP", table="Orders"))
    del value["dbName"], value["tableName"]
    event = decode(orjson.dumps(value))
    assert isinstance(event, TableCreated)
    assert (event.db, event.table) == ("shop", "orders")


@pytest.mark.parametrize(
    ("kind", "known"), [("RELOAD", True), ("ALTER_CATALOG", True), ("FUTURE_EVENT", False), ("", False)]
)
def test_types_without_effect_are_distinguished_from_unknown_ones(kind: str, known: bool) -> None:
    value = orjson.loads(value_of("OPEN_TXN")) | {"eventType": kind, "message": "whatever"}
    event = decode(orjson.dumps(value))
    assert isinstance(event, Unhandled)
    assert (event.is_known, event.kind) == (known, kind)


def test_transactions_opened_as_a_list_form_a_range() -> None:
    event = decoded("OPEN_TXN", txnIds=[5, 3, 4], fromTxnId=None, toTxnId=None)
    assert isinstance(event, TxnsOpened)
    assert (event.first, event.last) == (3, 5)
    assert "not form a range" in problem("OPEN_TXN", txnIds=[3, 5])


def test_an_open_event_without_transactions_is_valid() -> None:
    event = decoded("OPEN_TXN", fromTxnId=5, toTxnId=4)
    assert isinstance(event, TxnsOpened)
    assert (event.first, event.last) == (5, 4)


def test_a_range_of_transactions_is_limited_and_in_order() -> None:
    assert "before it begins" in problem("OPEN_TXN", fromTxnId=5, toTxnId=3)
    assert "limit" in problem("OPEN_TXN", fromTxnId=1, toTxnId=10**18)
    assert isinstance(decode(value_of("OPEN_TXN", fromTxnId=1, toTxnId=100_000)), TxnsOpened)


def test_the_write_id_that_hive_3_1_allocates_for_a_table_with_its_databases_name_has_no_effect() -> None:
    value = orjson.loads(value_of("ALLOC_WRITE_ID_EVENT", dbName="shop", tableName="shop.lines"))
    event = decode(orjson.dumps(value | {"dbName": "shop", "tableName": "shop.lines"}))
    assert isinstance(event, Unhandled)
    assert event.is_known


def test_write_ids_are_sorted_and_paired() -> None:
    event = decoded("ALLOC_WRITE_ID_EVENT", txnIdList=[8, 9], writeIdList=[4, 3])
    assert isinstance(event, WriteIdsAllocated)
    assert event.pairs == ((9, 3), (8, 4))
    assert "differ in length" in problem("ALLOC_WRITE_ID_EVENT", txnIdList=[1, 2])
    assert "writeIdList" in problem("ALLOC_WRITE_ID_EVENT", writeIdList=[2**64])


def test_a_commit_of_hive_4_0_has_only_its_id() -> None:
    event = decoded("COMMIT_TXN", writeIds=None, databases=None)
    assert isinstance(event, TxnCommitted)
    assert (event.write_ids, event.databases, event.enriched) == ((), (), False)
    assert "differ in length" in problem("COMMIT_TXN", writeIds=[1, 2], databases=["a"])


def test_an_acid_write_of_another_publisher_is_a_write_event() -> None:
    message = {
        "txnid": 41, "writeId": 5, "database": "Sales", "table": "T1", "partition": "", "tableObjJson": "{}",
        "partitionObjJson": None, "files": ["hdfs://s/w/t1/delta_5_5_0000/bucket_00000###delta_5_5_0000"],
    }  # fmt: skip
    value = {"eventId": 7, "eventTime": 1, "eventType": "ACID_WRITE_EVENT", "message": json.dumps(message)}
    event = decode(orjson.dumps(value))
    assert isinstance(event, FilesWritten)
    assert (event.db, event.table, event.txn_id, event.write_id) == ("sales", "t1", 41, 5)
    assert event.files[0].subdir == "delta_5_5_0000"
    assert event.files[0].checksum is None


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("FALSE", False), (True, True), (None, None)])
def test_booleans_may_be_strings(text: object, expected: bool | None) -> None:
    event = decoded("INSERT", replace=text)
    assert isinstance(event, Inserted)
    assert event.replace is expected


@pytest.mark.parametrize("value", ["yes", 1, 0, [], {}, ""])
def test_other_booleans_are_malformed(value: object) -> None:
    assert "replace" in problem("INSERT", replace=value)


def test_messages_of_hive_2_3_are_read() -> None:
    insert = {
        "server": "",
        "servicePrincipal": "",
        "db": "web",
        "table": "hits",
        "timestamp": 1,
        "files": ["hdfs://s/hits/day=1/f1#9a", "hdfs://s/hits/day=1/f2"],
        "partKeyVals": {"day": "1"},
    }
    value = {
        "eventId": 1,
        "eventTime": 1,
        "eventType": "INSERT",
        "dbName": "web",
        "tableName": "hits",
        "message": json.dumps(insert),
    }
    event = decode(orjson.dumps(value))
    assert isinstance(event, Inserted)
    assert event.spec == {"day": "1"}
    assert event.replace is None
    assert [file.checksum for file in event.files] == ["9a", None]
    drop = decode(orjson.dumps(value | {"eventType": "DROP_TABLE"}))
    assert isinstance(drop, TableDropped)
    assert drop.before is None


def test_an_insert_of_hive_2_3_into_a_table_without_partitions_names_none() -> None:
    message = {"db": "web", "table": "hits", "timestamp": 1, "files": ["file:/s/hits/f1#"], "partKeyVals": {}}
    value = {
        "eventId": 1,
        "eventTime": 1,
        "eventType": "INSERT",
        "dbName": "web",
        "tableName": "hits",
        "message": json.dumps(message),
    }
    event = decode(orjson.dumps(value))
    assert isinstance(event, Inserted)
    assert (event.spec, len(event.files)) == (None, 1)


@pytest.mark.parametrize("blank", [" ", "", None])
def test_blank_names_of_hive_3_1_are_taken_from_the_message(blank: str | None) -> None:
    message = {"dbName": "Web", "tableName": "Hits", "txnIdList": [4], "writeIdList": [1], "timestamp": 1}
    value = {
        "eventId": 1,
        "eventTime": 1,
        "eventType": "ALLOC_WRITE_ID_EVENT",
        "dbName": blank,
        "tableName": blank,
        "message": json.dumps(message),
    }
    event = decode(orjson.dumps(value))
    assert (event.db, event.table) == ("web", "hits")


def test_a_write_id_of_minus_one_means_none() -> None:
    event = decoded("UPDATE_TBL_COL_STAT_EVENT", writeId=-1)
    assert event.write_id is None  # type: ignore[attr-defined]
    assert "writeId" in problem("UPDATE_TBL_COL_STAT_EVENT", writeId=-2)


def test_a_foreign_key_concerns_the_referencing_table() -> None:
    event = decoded("ADD_FOREIGNKEY")
    assert read_recorded("ADD_FOREIGNKEY")["notification"]["tableName"] == "people"
    assert event.table == "cars"
    assert isinstance(decode(value_of("ADD_FOREIGNKEY", foreignKeyListJson=["{"])), Undecodable)


def test_objects_stay_text_until_they_are_used() -> None:
    event = decoded("CREATE_TABLE", tableObjJson="no JSON")
    assert isinstance(event, TableCreated)
    with pytest.raises(MalformedEvent):
        _ = event.after.value


def test_lists_are_limited() -> None:
    limits = Limits(files=2, partitions=1, txns=2, path_chars=100)
    assert "partitions" in problem("DROP_PARTITION", limits, partitions=[{"a": "1"}] * 2)
    assert "files" in problem("INSERT", limits, files=["u###"] * 3)
    assert "limit" in problem("INSERT", limits, files=["u" * 101 + "###"])
    assert "limit" in problem("DROP_PARTITION", limits, partitions=[{"a": "1" * 101}])
    assert "txnIdList" in problem("ALLOC_WRITE_ID_EVENT", limits, txnIdList=[1, 2, 3])
    files = [{"partitionName": "a=1", "files": ["u###"] * 3}]
    assert "files" in problem("ADD_PARTITION", Limits(files=2), partitionFiles=files)


def test_files_of_a_partition_named_twice_are_combined() -> None:
    files = [{"partitionName": "a=1", "files": ["u1###"]}, {"partitionName": "a=1", "files": ["u2###"]}]
    event = decoded("ADD_PARTITION", partitionFiles=files)
    assert isinstance(event, PartitionsAdded)
    assert [file.uri for file in event.files["a=1"]] == ["u1", "u2"]


def test_a_record_that_is_too_large_is_refused_unread() -> None:
    with pytest.raises(MalformedEvent, match="exceeds its limit"):
        decode(value_of("ALTER_TABLE"), limits=Limits(record_bytes=1000))


def test_a_message_that_grows_too_large_is_undecodable_and_names_its_table() -> None:
    event = decode(value_of("ALTER_TABLE", form="gzip(json-2.0)"), limits=Limits(message_bytes=1000))
    assert isinstance(event, Undecodable)
    assert isinstance(event.error, LimitExceeded)
    assert event.table == "orders"


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"null",
        b"[]",
        b"{}",
        b"text",
        b'{"eventType":"INSERT"}',
        b"\x00",
        b'{"eventType":7,"message":"{}"}',
    ],
)
def test_a_record_of_no_known_format_is_malformed(value: bytes | None) -> None:
    with pytest.raises(MalformedEvent):
        decode(value, arrival=ARRIVAL)


@pytest.mark.parametrize(
    ("kind", "field"), [("ADD_PARTITION", "partitionListJson"), ("DROP_PARTITION", "partitions")]
)
def test_a_partition_event_without_its_list_is_malformed_and_one_with_an_empty_list_is_not(
    kind: str, field: str
) -> None:
    assert problem(kind, **{field: None}) == f"the field {field} is missing"
    assert not isinstance(decoded(kind, **{field: []}), Undecodable)
