from __future__ import annotations

from typing import Any

import orjson
import pytest

from handlers.decoding.decoder import decode
from handlers.decoding.header import Arrival
from handlers.events import (
    Event,
    Inserted,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    SourceFile,
    TableAltered,
    TableCreated,
    TableDropped,
    Undecodable,
    Unhandled,
)
from state.errors import MalformedEvent


ARRIVAL = Arrival(event_id=12, time_s=1_700_000_000)
TABLE = {
    "tableName": "Clicks",
    "dbName": "Web",
    "owner": "hive",
    "createTime": 1,
    "sd": {
        "cols": [{"name": "id", "type": "bigint", "comment": None}],
        "location": "s3://lake/web/clicks",
        "serdeInfo": {"serializationLib": "org.apache.hadoop.hive.ql.io.orc.OrcSerde", "parameters": {}},
        "skewedInfo": {"skewedColNames": [], "skewedColValues": [], "skewedColValueLocationMaps": []},
    },
    "partitionKeys": [{"name": "day", "type": "string"}, {"name": "Hour", "type": "int"}],
    "parameters": {"EXTERNAL": "TRUE"},
    "tableType": "EXTERNAL_TABLE",
    "aFieldOfTomorrow": 1,
}


def partition(hour: str) -> dict[str, Any]:
    place = f"s3://lake/web/clicks/day=2024-05-01/hour={hour}"
    return {"values": ["2024-05-01", hour], "dbName": "web", "tableName": "clicks", "sd": {"location": place}}


def listener(kind: str, **fields: Any) -> dict[str, Any]:
    return {
        "eventType": f"ON_{kind}",
        "databaseName": "Web",
        "tableName": "Clicks",
        "qualifiedTableName": "web.clicks",
        "status": True,
        "parameters": {"hive.version": "2.3.7", "DB_NOTIFICATION_EVENT_ID_KEY_NAME": "4711"},
        "environmentContext": {"properties": {}},
        **fields,
    }


def sns(kind: str, **fields: Any) -> dict[str, Any]:
    return {
        "protocolVersion": "1.0",
        "eventType": kind,
        "dbName": "Web",
        "tableName": "Clicks",
        "tableLocation": "s3://lake/web/clicks",
        "tableParameters": {"EXTERNAL": "TRUE"},
        "partitionKeys": {"day": "string", "hour": "int"},
        **fields,
    }


def decoded(record: dict[str, Any]) -> Event:
    return decode(orjson.dumps(record), arrival=ARRIVAL)


def test_the_arrival_gives_the_event_its_position_and_time() -> None:
    event = decoded(listener("CREATE_TABLE", table=TABLE))
    assert (event.event_id, event.part, event.parts, event.time_s) == (12, 0, 1, 1_700_000_000)
    assert (event.kind, event.catalog, event.db, event.table) == ("CREATE_TABLE", None, "web", "clicks")


@pytest.mark.parametrize(
    "record", [listener("CREATE_TABLE", table=TABLE), sns("CREATE_TABLE")], ids=["kafka", "sns"]
)
def test_without_an_arrival_there_is_no_position(record: dict[str, Any]) -> None:
    with pytest.raises(MalformedEvent, match="offset"):
        decode(orjson.dumps(record))


def test_a_created_table_is_read_by_its_field_names() -> None:
    event = decoded(listener("CREATE_TABLE", table=TABLE))
    assert isinstance(event, TableCreated)
    table = event.after.value
    assert table.sd.location == "s3://lake/web/clicks"
    assert [key.name for key in table.partitionKeys or ()] == ["day", "Hour"]


def test_an_altered_table_has_both_objects_and_does_not_know_about_truncation() -> None:
    event = decoded(listener("ALTER_TABLE", oldTable=TABLE, newTable=TABLE | {"tableName": "clicks2"}))
    assert isinstance(event, TableAltered)
    assert (event.before.value.tableName, event.after.value.tableName) == ("Clicks", "clicks2")
    assert event.truncate is None
    assert event.write_id is None


def test_a_dropped_table_is_decoded() -> None:
    event = decoded(listener("DROP_TABLE", table=TABLE, deleteData=True))
    assert isinstance(event, TableDropped)
    assert event.before is not None


def test_added_and_altered_partitions_have_their_objects() -> None:
    added = decoded(listener("ADD_PARTITION", table=TABLE, partitions=[partition("1"), partition("2")]))
    assert isinstance(added, PartitionsAdded)
    assert [p.value.values for p in added.partitions] == [["2024-05-01", "1"], ["2024-05-01", "2"]]
    changed = decoded(
        listener("ALTER_PARTITION", table=TABLE, oldPartition=partition("1"), newPartition=partition("2"))
    )
    assert isinstance(changed, PartitionsAltered)
    assert changed.before is not None
    assert (changed.before.value.values[1], changed.after[0].value.values[1]) == ("1", "2")


def test_dropped_partitions_are_named_by_columns_and_values() -> None:
    event = decoded(listener("DROP_PARTITION", table=TABLE, partitions=[partition("7")], deleteData=False))
    assert isinstance(event, PartitionsDropped)
    assert event.specs == ({"day": "2024-05-01", "hour": "7"},)


@pytest.mark.parametrize("build", [listener, sns], ids=["kafka", "sns"])
def test_an_insert_names_files_and_does_not_know_whether_it_replaced(build: Any) -> None:
    record = build(
        "INSERT",
        files=["s3://lake/f1", "s3://lake/f2"],
        fileChecksums=["9a", ""],
        partitionKeyValues={"day": "1"},
    )
    event = decoded(record)
    assert isinstance(event, Inserted)
    assert event.files == (SourceFile("s3://lake/f1", "9a"), SourceFile("s3://lake/f2"))
    assert (event.spec, event.replace) == ({"day": "1"}, None)


def test_an_insert_into_an_unpartitioned_table_has_no_spec() -> None:
    event = decoded(listener("INSERT", files=[], fileChecksums=None, partitionKeyValues={}))
    assert isinstance(event, Inserted)
    assert event.spec is None


@pytest.mark.parametrize("build", [listener, sns], ids=["kafka", "sns"])
def test_other_types_are_counted_and_passed(build: Any) -> None:
    event = decoded(build("CONFIG_CHANGE"))
    assert isinstance(event, Unhandled)
    assert not event.is_known


@pytest.mark.parametrize(
    "record",
    [
        listener("CREATE_TABLE"),
        listener("CREATE_TABLE", table="text"),
        listener("DROP_PARTITION", table=TABLE, partitions=[{"values": ["1"]}]),
        listener("DROP_PARTITION", table=TABLE | {"partitionKeys": ["day"]}, partitions=[partition("1")]),
        listener("DROP_PARTITION", table=TABLE, partitions=["text"]),
        listener("ADD_PARTITION", table=TABLE, partitions={}),
        listener("INSERT", files=["a"], fileChecksums=["1", "2"]),
        sns("ADD_PARTITION", partitionValues="text"),
        sns("DROP_PARTITION", partitionValues=["1"]),
        sns("CREATE_TABLE", partitionKeys=["day"]),
    ],
    ids=str,
)
def test_bad_content_is_undecodable_and_names_its_table(record: dict[str, Any]) -> None:
    event = decoded(record)
    assert isinstance(event, Undecodable)
    assert (event.db, event.table) == ("web", "clicks")


def test_a_record_without_names_is_undecodable() -> None:
    event = decoded(listener("CREATE_TABLE", table=TABLE) | {"databaseName": None})
    assert isinstance(event, Undecodable)


def test_a_partition_of_the_sns_format_is_built_from_values_and_location() -> None:
    event = decoded(sns("ADD_PARTITION", partitionValues=["1", "2"], partitionLocation="s3://lake/p"))
    assert isinstance(event, PartitionsAdded)
    assert event.owner is not None
    table, added = event.owner.value, event.partitions[0].value
    assert [(key.name, key.type) for key in table.partitionKeys or ()] == [("day", "string"), ("hour", "int")]
    assert (added.values, added.sd.location) == (["1", "2"], "s3://lake/p")
    assert (table.dbName, table.tableName, table.sd.location) == ("web", "clicks", "s3://lake/web/clicks")


def test_the_sns_format_has_the_state_before_the_change() -> None:
    renamed = decoded(sns("ALTER_TABLE", oldTableName="Old", oldTableLocation="s3://lake/old"))
    assert isinstance(renamed, TableAltered)
    assert (renamed.before.value.tableName, renamed.before.value.sd.location) == ("old", "s3://lake/old")
    moved = decoded(
        sns(
            "ALTER_PARTITION",
            partitionValues=["1", "2"],
            partitionLocation="b",
            oldPartitionValues=["1", "1"],
            oldPartitionLocation="a",
        )
    )
    assert isinstance(moved, PartitionsAltered)
    assert moved.before is not None
    assert (moved.before.value.sd.location, moved.after[0].value.sd.location) == ("a", "b")
    dropped = decoded(sns("DROP_PARTITION", partitionValues=["1", "2"]))
    assert isinstance(dropped, PartitionsDropped)
    assert dropped.specs == ({"day": "1", "hour": "2"},)
    assert isinstance(decoded(sns("DROP_TABLE")), TableDropped)


def envelope(message: str | None, **fields: Any) -> dict[str, Any]:
    return {
        "Type": "Notification",
        "TopicArn": "arn:aws:sns:r:1:t",
        "Message": message,
        "Timestamp": "2024-05-01T12:00:00.500Z",
        **fields,
    }


def test_the_sns_envelope_is_removed_and_its_time_is_used() -> None:
    event = decoded(envelope(orjson.dumps(sns("DROP_TABLE")).decode()))
    assert isinstance(event, TableDropped)
    assert event.time_s == 1_714_564_800
    assert (event.db, event.table) == ("web", "clicks")


@pytest.mark.parametrize(
    "record",
    [
        envelope(None),
        envelope("{"),
        envelope("[]"),
        envelope("{}", Timestamp="yesterday"),
        envelope("{}", Timestamp=7),
    ],
    ids=str,
)
def test_a_broken_envelope_is_undecodable(record: dict[str, Any]) -> None:
    assert isinstance(decoded(record), Undecodable)
