"""Partitions that share a storage descriptor, as one specification; anything else is left to the
metastore."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest

from dev.fixtures.hive_tables import a_partition, a_table
from handlers.catalog.index.partition_bytes import join_spec
from handlers.catalog.index.payload_reader import PayloadReader
from handlers.catalog.index.payloads import (
    make_dictionary,
    normalize,
    pack,
    read_dictionary,
    store_dictionary,
)
from handlers.structs import binary
from handlers.structs.objects import FieldSchema, Partition, StorageDescriptor
from handlers.structs.struct import declare, i32, resolve
from state.partitions.index.check_budget import AnswerBudget
from state.store.memory import MemoryStore


PLACE = "/w/t"
TABLE = a_table("db", "t", partition_keys=("dt", "hr"), location=PLACE, columns=[("a", "int"), ("b", "int")])
Without: Any = declare(
    __name__,
    "PartitionWithoutSD",
    {
        "values": Annotated[list[str] | None, 1],
        "createTime": Annotated[i32 | None, 2],
        "lastAccessTime": Annotated[i32 | None, 3],
        "relativePath": Annotated[str | None, 4],
        "parameters": Annotated[dict[str, str] | None, 5],
    },
)
resolve()
Shared: Any = declare(
    __name__,
    "PartitionSpecWithSharedSD",
    {
        "partitions": Annotated[list[Without] | None, 1],
        "sd": Annotated[StorageDescriptor | None, 2],
    },
)
resolve()
Spec: Any = declare(
    __name__,
    "PartitionSpec",
    {
        "dbName": Annotated[str | None, 1],
        "tableName": Annotated[str | None, 2],
        "rootPath": Annotated[str | None, 3],
        "sharedSDPartitionSpec": Annotated[Shared | None, 4],
        "catName": Annotated[str | None, 6],
    },
)
resolve()


def joined(*partitions: Partition) -> Any:
    """Return the specification of partitions of the table, None where there is none."""
    store = MemoryStore()
    with store.transaction() as txn:
        number = store_dictionary(txn, make_dictionary(TABLE))
    dictionary = read_dictionary(store, number)
    payloads = [pack(normalize(partition), number, dictionary) for partition in partitions]
    inflated = map(PayloadReader(store).inflate, payloads)
    spec = join_spec(inflated, "db", "t", PLACE, AnswerBudget())
    return None if spec is None else binary.decode(Spec, spec)


def partition(*values: str) -> Partition:
    return a_partition(TABLE, *values, parameters={"numFiles": "1", "totalSize": "4711"})


def test_partitions_below_the_table_are_one_group_with_its_descriptor() -> None:
    partitions = [partition("2020-01-01", "5"), partition("2020-01-02", "6")]
    partitions[1].createTime = 7
    found = joined(*partitions)
    shared = normalize(partitions[0]).sd.copy()
    shared.location = PLACE
    assert (found.dbName, found.tableName, found.rootPath, found.catName) == ("db", "t", PLACE, "hive")
    assert found.sharedSDPartitionSpec.sd == shared
    assert found.sharedSDPartitionSpec.partitions == [
        Without(
            values=one.values,
            createTime=one.createTime,
            lastAccessTime=one.lastAccessTime,
            relativePath=(one.sd.location or "").removeprefix(PLACE),
            parameters=one.parameters,
        )
        for one in partitions
    ]


def change_location(one: Partition) -> None:
    one.sd.location = "/elsewhere"


def change_format(one: Partition) -> None:
    one.sd.inputFormat = "other"


def change_columns(one: Partition) -> None:
    one.sd.cols = [FieldSchema(name="a", type="string")]


def drop_parameters(one: Partition) -> None:
    one.parameters = None


@pytest.mark.parametrize("change", [change_location, change_format, change_columns, drop_parameters])
def test_partitions_that_differ_in_more_than_their_directories_are_left_to_the_metastore(
    change: Callable[[Partition], None],
) -> None:
    other = partition("2020-01-02", "6")
    change(other)
    assert joined(partition("2020-01-01", "5"), other) is None
