"""Structs on the wire, in Python and as copies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thrift.protocol.TBinaryProtocol import TBinaryProtocol, TBinaryProtocolAccelerated
from thrift.transport.TTransport import TMemoryBuffer

from dev.fixtures.hive_tables import a_table
from handlers.structs.exceptions import MetaException
from handlers.structs.objects import CreationMetadata, FieldSchema, Partition, StorageDescriptor, Table
from handlers.structs.statistics import ColumnStatistics
from handlers.structs.struct import Struct, parse_wire_type
from tests.builders.metastore.any_structs import any_struct


STRUCTS: st.SearchStrategy[Struct] = st.sampled_from([Table, Partition, ColumnStatistics]).flatmap(any_struct)
PROTOCOLS = [TBinaryProtocol, TBinaryProtocolAccelerated]


def sent(value: Struct, writer: Any, reader: Any) -> Struct:
    buffer = TMemoryBuffer()
    value.write(writer(buffer))
    received = type(value)()
    received.read(reader(TMemoryBuffer(buffer.getvalue())))
    return received


@pytest.mark.parametrize("reader", PROTOCOLS)
@pytest.mark.parametrize("writer", PROTOCOLS)
@given(value=STRUCTS)
def test_a_struct_survives_every_combination_of_protocols(writer: Any, reader: Any, value: Struct) -> None:
    assert sent(value, writer, reader) == value


def test_an_unset_field_is_none_and_not_sent() -> None:
    column = FieldSchema(name="a", type="int")
    assert column.comment is None
    buffer = TMemoryBuffer()
    column.write(TBinaryProtocol(buffer))
    assert b"a" in buffer.getvalue()
    assert buffer.getvalue().count(b"\x0b\x00") == 2  # two text fields
    assert column == FieldSchema(name="a", type="int", comment=None)


def test_fields_of_a_newer_server_are_skipped() -> None:
    buffer = TMemoryBuffer()
    a_table("db", "t").write(TBinaryProtocol(buffer))
    received = FieldSchemaOfLater()
    received.read(TBinaryProtocolAccelerated(TMemoryBuffer(buffer.getvalue())))
    assert received.message == "t"


FieldSchemaOfLater = MetaException  # has field 1 only, as Table's name


def test_a_copy_shares_nothing_with_its_original() -> None:
    table = a_table("db", "t", parameters={"a": "1"})
    twin = table.copy()
    assert twin == table
    assert table.parameters is not None
    table.parameters["a"] = "2"
    table.sd.cols = []
    assert (twin.parameters or {})["a"] == "1"
    assert [c.name for c in twin.sd.cols or []] == ["id"]


def test_a_copy_of_a_set_is_another_set() -> None:
    original = CreationMetadata(catName="hive", dbName="d", tblName="v", tablesUsed={"d.a"})
    twin = original.copy()
    twin.tablesUsed.add("d.b")
    assert original.tablesUsed == {"d.a"}


@given(STRUCTS)
def test_a_copy_is_equal(value: Struct) -> None:
    assert value.copy() == value


def test_structs_of_different_classes_are_never_equal() -> None:
    assert FieldSchema(name="a", type="b") != StorageDescriptor()


def test_an_unknown_field_name_is_refused() -> None:
    with pytest.raises(TypeError, match="FieldSchema has no field nmae"):
        FieldSchema(nmae="a", type="int")  # type: ignore[call-arg]


def test_the_repr_of_a_struct_contains_the_fields_with_a_value() -> None:
    assert repr(FieldSchema(name="a", type="int")) == "FieldSchema(name='a', type='int')"
    assert str(MetaException(message="no")) == "no"


def test_exceptions_can_be_raised_and_hashed_though_structs_cannot() -> None:
    assert isinstance(hash(MetaException(message="no")), int)
    with pytest.raises(TypeError):
        hash(FieldSchema(name="a", type="int"))


def test_an_annotation_without_a_thrift_type_is_refused() -> None:
    with pytest.raises(TypeError, match="no Thrift type"):
        parse_wire_type(object)
