"""Thrift JSON, compared with Thrift's own reader and writer and with recordings of a real metastore; and
invalid text."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thrift.protocol.TJSONProtocol import TJSONProtocol
from thrift.transport.TTransport import TMemoryBuffer

from dev.fixtures.hive_tables import a_table
from handlers.structs import tjson
from handlers.structs.constraints import SQLPrimaryKey
from handlers.structs.objects import (
    CreationMetadata,
    Database,
    FieldSchema,
    Partition,
    PrincipalType,
    SkewedInfo,
    SourceTable,
    Table,
)
from handlers.structs.statistics import (
    ColumnStatistics,
    ColumnStatisticsDesc,
    DoubleColumnStatsData,
    LongColumnStatsData,
)
from handlers.structs.struct import Struct
from handlers.structs.transactions import GetValidWriteIdsResponse
from state.errors import LimitExceeded, MalformedEvent
from tests.builders.metastore.any_structs import any_struct


DATA = Path(__file__).parents[3] / "data" / "tjson"
RECORDED: dict[str, type[Struct]] = {
    "database": Database,
    "partition": Partition,
    "primary-key": SQLPrimaryKey,
    "statistics": ColumnStatistics,
    "table-after": Table,
    "table-skewed": Table,
}
STRUCTS: st.SearchStrategy[Struct] = st.sampled_from(
    [Table, Partition, Database, ColumnStatistics, GetValidWriteIdsResponse]
).flatmap(any_struct)


def recorded(name: str) -> str:
    return (DATA / f"{name}.tjson").read_text().removesuffix("\n")


def read_by_thrift(cls: type[Struct], text: str) -> Struct:
    value = cls()
    TJSONProtocol(TMemoryBuffer(text.encode())).readStruct(value, cls.thrift_spec)
    return value


def written_by_thrift(value: Struct) -> str:
    buffer = TMemoryBuffer()
    TJSONProtocol(buffer).writeStruct(value, value.thrift_spec)
    return bytes(buffer.getvalue()).decode()


@pytest.mark.parametrize("name", RECORDED)
def test_a_recording_reads_as_thrift_reads_it(name: str) -> None:
    text, cls = recorded(name), RECORDED[name]
    assert tjson.decode(cls, text) == read_by_thrift(cls, text)


@pytest.mark.parametrize("name", sorted(RECORDED.keys() - {"table-skewed"}))
def test_a_recording_is_written_back_with_the_same_fields_in_the_same_order(name: str) -> None:
    text = recorded(name)
    again = json.loads(tjson.encode(tjson.decode(RECORDED[name], text)))
    assert json.dumps(again) == json.dumps(json.loads(text))


def test_a_map_whose_keys_are_lists_is_read_and_written_although_it_is_not_json() -> None:
    text = recorded("table-skewed")
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    table = tjson.decode(Table, text)
    assert table.sd.skewedInfo is not None
    assert table.sd.skewedInfo.skewedColValueLocationMaps == {("a",): "hdfs://target/a"}
    assert tjson.decode(Table, tjson.encode(table)) == table


@given(STRUCTS)
def test_structs_written_by_thrift_are_read(value: Struct) -> None:
    assert tjson.decode(type(value), written_by_thrift(value)) == value


@given(STRUCTS)
def test_written_structs_are_read_by_thrift(value: Struct) -> None:
    assert read_by_thrift(type(value), tjson.encode(value)) == value


def test_nan_and_infinities_are_written_as_strings() -> None:
    value = DoubleColumnStatsData(lowValue=float("-inf"), highValue=float("inf"), numNulls=0, numDVs=0)
    assert '"-Infinity"' in tjson.encode(value)
    assert tjson.decode(DoubleColumnStatsData, tjson.encode(value)) == value
    assert tjson.encode(DoubleColumnStatsData(lowValue=float("nan"), numNulls=0, numDVs=0)).startswith(
        '{"1":{"dbl":"NaN"}'
    )


def test_base64_is_read_with_and_without_padding() -> None:
    for text in ("SEwA/wE", "SEwA/wE="):
        value = tjson.decode(
            LongColumnStatsData, f'{{"3":{{"i64":0}},"4":{{"i64":1}},"5":{{"str":"{text}"}}}}'
        )
        assert value.bitVectors == b"HL\x00\xff\x01"


def test_raw_control_characters_are_accepted() -> None:
    column = tjson.decode(FieldSchema, '{"1":{"str":"a\nb\x01"},"2":{"str":"int"}}')
    assert column.name == "a\nb\x01"


def test_unknown_fields_and_fields_of_another_type_are_skipped() -> None:
    text = '{"1":{"str":"a"},"2":{"str":"int"},"3":{"i32":5},"99":{"map":["str","rec",1,{"x":{}}]}}'
    assert tjson.decode(FieldSchema, text) == FieldSchema(name="a", type="int")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        '"text"',
        "{",
        '{"1":{"str":"a"}}',  # the type is missing
        '{"1":"a","2":{"str":"int"}}',
        '{"1":{"str":5},"2":{"str":"int"}}',
        '{"1":{"str":null},"2":{"str":"int"}}',
        "[" * 100_000,
        '{"1":' * 2000,
        '{"x":{["str"',
        '{"9":{["str",1,"a"]:1}',
    ],
)
def test_any_other_text_is_malformed_with_a_reason(text: str) -> None:
    with pytest.raises(MalformedEvent) as malformed:
        tjson.decode(FieldSchema, text)
    assert malformed.value.context["struct"] == "FieldSchema"
    assert malformed.value.context["reason"]


@pytest.mark.parametrize(
    "value",
    [
        '{"1":{"lst":["rec",1,5]}}',
        '{"1":{"lst":["str",1,"a"]}}',
        '{"1":{"lst":5}}',
        '{"1":{"lst":[]}}',
        '{"6":{"i32":2147483648}}',
        '{"6":{"i32":1.5}}',
        '{"6":{"i32":true}}',
        '{"5":{"tf":2}}',
        '{"5":{"tf":[]}}',
        '{"10":{"map":["str","i32",1,{"a":1}]}}',
        '{"10":{"map":["str","str",1,{"a":1}]}}',
        '{"10":{"map":["str","str",1]}}',
        '{"7":{"rec":[]}}',
    ],
)
def test_a_value_of_the_wrong_shape_is_malformed(value: str) -> None:
    table = f'{{"1":{{"str":"t"}},"2":{{"str":"d"}},"7":{{"rec":{value}}}}}'
    with pytest.raises(MalformedEvent):
        tjson.decode(Table, table)


def test_a_text_above_the_limit_is_refused_without_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tjson, "TEXT_CHARS_MAX", 10)
    with pytest.raises(LimitExceeded):
        tjson.decode(FieldSchema, "x" * 11)


def test_recursive_structs_are_read_down_to_a_depth_limit() -> None:
    table = a_table("db", "t")
    for _ in range(3):
        used = SourceTable(table=table, insertedCount=0, updatedCount=0, deletedCount=0)
        table = a_table("db", "t")
        table.creationMetadata = CreationMetadata(
            catName="hive", dbName="db", tblName="t", tablesUsed={"db.t"}, sourceTables=[used]
        )
    assert tjson.decode(Table, tjson.encode(table)) == table
    head, tail = (
        '{"1":{"str":"t"},"2":{"str":"d"},"7":{"rec":{}},"16":{"rec":{"7":{"lst":["rec",1,{"1":{"rec":',
        "}}]}}}}",
    )
    deep = head * 400 + "1" + tail * 400
    with pytest.raises(MalformedEvent):
        tjson.decode(Table, deep)


@given(
    st.text(max_size=60)
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["1", "2", "7", "str", "rec", "lst", "map"]), inner)
        ),
    ).map(json.dumps)
)
def test_any_text_is_a_struct_or_malformed(text: str) -> None:
    with suppress(MalformedEvent):
        assert isinstance(tjson.decode(Table, text), Table)


def test_a_value_that_its_field_cannot_hold_is_not_written() -> None:
    wrong: Any = 5
    for value in (FieldSchema(name="\ud800", type="int"), SkewedInfo(skewedColNames=wrong)):
        with pytest.raises(MalformedEvent):
            tjson.encode(value)


# --- by field names ---


def test_a_jackson_bean_is_read_by_field_names() -> None:
    bean: dict[str, Any] = {
        "tableName": "t", "dbName": "d", "owner": None, "createTime": 5, "setOwner": True,
        "ownerType": "USER",
        "sd": {"cols": [{"name": "id", "type": "int", "comment": None}],
               "location": "s3://b/t", "compressed": False,
               "skewedInfo": {"skewedColNames": ["a"],
                              "skewedColValueLocationMaps": [{"key": ["x"], "value": "s3://b/x"}]}},
        "partitionKeys": [], "parameters": {"k": "v"}, "tableType": "MANAGED_TABLE",
    }  # fmt: skip
    table = tjson.from_names(Table, bean)
    assert (table.tableName, table.owner, table.createTime, table.ownerType) == (
        "t",
        None,
        5,
        PrincipalType.USER,
    )
    assert table.sd.cols == [FieldSchema(name="id", type="int")]
    assert table.sd.skewedInfo is not None
    assert table.sd.skewedInfo.skewedColValueLocationMaps == {("x",): "s3://b/x"}


def test_binary_in_a_bean_is_base64() -> None:
    data = tjson.from_names(LongColumnStatsData, {"numNulls": 0, "numDVs": 1, "bitVectors": "SEwA/wE="})
    assert data.bitVectors == b"HL\x00\xff\x01"


@pytest.mark.parametrize(
    "bean",
    [
        {},
        {"isTblLevel": True, "dbName": "d", "tableName": 5},
        {"isTblLevel": "yes", "dbName": "d", "tableName": "t"},
        {"isTblLevel": True, "dbName": "d", "tableName": "t", "lastAnalyzed": "x"},
    ],
)
def test_a_bean_with_a_value_of_the_wrong_type_is_malformed(bean: dict[str, Any]) -> None:
    with pytest.raises(MalformedEvent):
        tjson.from_names(ColumnStatisticsDesc, bean)


def test_an_unknown_constant_in_a_bean_is_malformed() -> None:
    with pytest.raises(MalformedEvent):
        tjson.from_names(Database, {"name": "d", "ownerType": "NOBODY"})
    assert tjson.from_names(Database, {"name": "d", "ownerType": 3}).ownerType == PrincipalType.GROUP
