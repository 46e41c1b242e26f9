"""Payload bytes: joined, they are the partitions that decoding them gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from dev.fixtures.hive_tables import a_partition, a_table
from handlers.catalog.index.payload_reader import PayloadReader
from handlers.catalog.index.payloads import (
    make_dictionary,
    normalize,
    pack,
    read_dictionary,
    store_dictionary,
)
from handlers.structs import binary
from handlers.structs.objects import FieldSchema, Partition
from state.errors import StateCorrupt
from state.partitions.index.check_budget import AnswerBudget
from state.store.memory import MemoryStore
from tests.builders.metastore.any_structs import any_struct


TABLE = a_table("db", "t", partition_keys=("dt", "hr"), location="/w/t", columns=[("a", "int"), ("b", "int")])


def stored(*partitions: Partition) -> tuple[MemoryStore, list[bytes]]:
    store = MemoryStore()
    with store.transaction() as txn:
        number = store_dictionary(txn, make_dictionary(TABLE))
    dictionary = read_dictionary(store, number)
    return store, [pack(normalize(partition), number, dictionary) for partition in partitions]


def joined(store: MemoryStore, payload: bytes) -> bytes:
    return b"".join(PayloadReader(store).join([payload], "db", "t", AnswerBudget()))


@given(any_struct(Partition))
@settings(max_examples=150, deadline=None)
def test_any_partition_has_the_bytes_that_decode_to_it(partition: Partition) -> None:
    store, (payload,) = stored(partition)
    assert binary.decode(Partition, joined(store, payload)) == PayloadReader(store).unpack(payload, "db", "t")


def test_fields_are_in_the_order_in_which_the_metastore_writes_them() -> None:
    partition = normalize(a_partition(TABLE, "2015-01-01", "5", parameters={"numFiles": "3"}))
    other = partition.copy()
    other.sd.cols = [FieldSchema(name="a", type="string")]
    store, payloads = stored(partition, other)
    for payload in payloads:
        decoded = PayloadReader(store).unpack(payload, "db", "t")
        assert joined(store, payload) == binary.encode(decoded)


def test_a_payload_that_cannot_be_inflated_is_corrupt() -> None:
    store, (payload,) = stored(a_partition(TABLE, "2015-01-01", "5"))
    with pytest.raises(StateCorrupt, match="cannot be read"):
        joined(store, payload[:9] + b"\xff" * 20)
