"""Payloads: a partition is unpacked completely, and what it shares with its table takes no space."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from dev.fixtures.hive_tables import a_partition, a_table
from handlers.catalog.index.payload_reader import PayloadReader
from handlers.catalog.index.payloads import make_dictionary, normalize, pack, store_dictionary
from handlers.catalog.index.table_records import TableRecord, TableRecords, read_counts
from handlers.structs import binary
from handlers.structs.objects import (
    FieldSchema,
    Partition,
    SerDeInfo,
    SkewedInfo,
    StorageDescriptor,
    Table,
)
from state.errors import MalformedEvent, StateCorrupt
from state.store.memory import MemoryStore
from tests.builders.metastore.any_structs import any_struct


def reader_of(table: Table) -> tuple[PayloadReader, bytes]:
    store = MemoryStore()
    with store.transaction() as txn:
        number = store_dictionary(txn, make_dictionary(table))
    return PayloadReader(store), number


@given(any_struct(Partition))
@settings(max_examples=150, deadline=None)
def test_any_partition_is_unpacked_as_it_was_packed(partition: Partition) -> None:
    payloads, number = reader_of(a_table("db", "t", partition_keys=("dt",), location="/w/t"))
    kept = normalize(partition)
    kept.dbName, kept.tableName = "db", "t"
    assert payloads.unpack(pack(kept, number, payloads.dictionary(number)), "db", "t") == kept


def test_a_descriptor_without_what_is_empty_is_kept_as_the_metastore_sends_it() -> None:
    """Trino sends partitions like this, and events contain them as they were sent."""
    partition = a_partition(a_table("db", "t", partition_keys=("dt",), location="/w/t"), "1")
    serde = SerDeInfo(name="t", serializationLib="x.Serde")
    partition.sd = StorageDescriptor(location="/w/t/dt=1", numBuckets=4, serdeInfo=serde)
    assert normalize(partition).sd == StorageDescriptor(
        location="/w/t/dt=1",
        compressed=False,
        numBuckets=4,
        serdeInfo=SerDeInfo(name="t", serializationLib="x.Serde", parameters={}),
        bucketCols=[],
        sortCols=[],
        parameters={},
        skewedInfo=SkewedInfo(skewedColNames=[], skewedColValues=[], skewedColValueLocationMaps={}),
        storedAsSubDirectories=False,
    )
    assert partition.sd.parameters is None, "the event is not changed"


@pytest.mark.parametrize("columns", [1, 40, 5_000])
def test_a_typical_partition_takes_only_the_space_of_its_differences(columns: int) -> None:
    names = [(f"column_{number}", "decimal(38,18)") for number in range(columns)]
    table = a_table("db", "t", partition_keys=("dt",), location="hdfs://warehouse/db/t", columns=names)
    payloads, number = reader_of(table)
    payload = pack(normalize(a_partition(table, "2015-01-01")), number, payloads.dictionary(number))
    assert len(payload) < 80


def test_columns_that_differ_from_the_table_are_kept() -> None:
    table = a_table("db", "t", partition_keys=("dt",), location="/w/t", columns=[("a", "int"), ("b", "int")])
    payloads, number = reader_of(table)
    for columns in ([FieldSchema(name="a", type="string")], []):
        partition = normalize(a_partition(table, "1"))
        partition.sd.cols = columns
        assert (
            payloads.unpack(pack(partition, number, payloads.dictionary(number)), "db", "t").sd.cols
            == columns
        )


def test_a_renamed_table_keeps_its_payloads() -> None:
    table = a_table("db", "t", partition_keys=("dt",), location="/w/t")
    payloads, number = reader_of(table)
    payload = pack(normalize(a_partition(table, "1")), number, payloads.dictionary(number))
    assert payloads.unpack(payload, "other", "name").tableName == "name"


def test_bytes_that_are_not_a_payload_are_corrupt() -> None:
    table = a_table("db", "t", partition_keys=("dt",), location="/w/t")
    payloads, number = reader_of(table)
    payload = pack(normalize(a_partition(table, "1")), number, payloads.dictionary(number))
    for broken in (payload[:-4], payload[:9] + b"\xff\xff\xff", b"\x00" * 9, b""):
        with pytest.raises(StateCorrupt):
            payloads.unpack(broken, "db", "t")


def test_a_partition_that_thrift_cannot_serialize_is_malformed() -> None:
    with pytest.raises(MalformedEvent):
        binary.encode(Partition(values=["\ud800"], dbName="db", tableName="t", sd=None))  # type: ignore[arg-type]
    with pytest.raises(MalformedEvent):
        binary.decode(Partition, b"\x0f\x00\x01")


def test_a_number_of_partitions_that_was_counted_down_twice_can_be_stored() -> None:
    store = MemoryStore()
    with store.transaction() as txn:
        records = TableRecords(txn, txn)
        records.save("db.a", TableRecord("", "", ""))
        records.count("db.a", -1)
        records.flush()
    assert read_counts(store, store) == {"db.a": 0}
