"""Transactions and drops of very many partitions: what is kept and copied for each of them."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from handlers.events import Embedded, PartitionsAltered
from handlers.metastore.objects import partitions
from handlers.metastore.objects.partitions import PartitionCalls
from handlers.replication.effects import partitions as effects
from handlers.replication.target import table_cache
from handlers.replication.target.table_cache import TableCache
from handlers.structs import tjson
from handlers.structs.objects import Partition, StorageDescriptor
from state.transactions.open_transactions import OpenTxn
from tests.builders.replication.fake_target import a_dispatcher
from tests.builders.replication.recording_metastore import RecordingMetastore
from tests.builders.replication.replay_events import (
    a_table,
    allocated,
    committed,
    created,
    partitions_added,
    written,
)


if TYPE_CHECKING:
    import pytest

    from tests.builders.replication.fake_target import FakedReplica


def test_the_touched_partitions_of_a_transaction_are_copied_once_and_not_for_each_write_event(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = []
    to_value = OpenTxn.to_value

    def count(txn: OpenTxn) -> Any:
        copies.append(txn.txn_id)
        return to_value(txn)

    monkeypatch.setattr(OpenTxn, "to_value", count)
    file = replica.file()
    writes = [written(3, file, part=part, parts=51) for part in range(50)]
    replica.projection.apply([created(1), allocated(2, 1, 1), *writes, committed(3, part=50, parts=51)])
    assert len(copies) <= 3, "for the commit only"


def test_a_waiting_write_event_keeps_no_objects_of_its_table(replica: FakedReplica) -> None:
    replay = a_dispatcher(replica.context).transactions
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    event = written(3, replica.file())
    replay.start_copies(event)
    gc.collect()
    tracemalloc.start()
    for number in range(100):
        text = f"{number:05d}" * 10_000
        replay.start_copies(replace(event, part=number, owner_text=text, partition_text=text))
    gc.collect()
    kept_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    replay.files.cancel_all()
    assert kept_bytes < 100 * 30_000, "each event has 100,000 bytes of objects"


def test_added_partitions_are_decoded_and_sent_some_at_a_time_and_then_forgotten(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effects, "BATCH", 10)
    sent: list[int] = []
    alive: list[int] = []

    def add(_db: str, _table: str, some: list[Partition], **_: object) -> None:
        sent.append(len(some))
        target.calls.clear()
        alive.append(count_decoded())

    owner = a_table(partition_columns=("dt",), location="file:/target/orders")
    target: Any = RecordingMetastore({"get_table": owner, "add_partitions": add, "get_partitions": []})
    cache = TableCache(target, replica.context.policy)
    context = replace(replica.context, target=target, table_cache=cache)
    event = replace(partitions_added(1), partitions=tuple(map(a_partition, range(25))))
    effects.add(event, context)
    assert sent == [10, 10, 5]
    assert max(alive) <= 2 * 10, "those that are sent, and the event's own"
    assert count_decoded() == 0


def test_a_batch_of_events_keeps_no_decoded_partitions_of_those_that_are_applied(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(1)])
    added = replace(
        partitions_added(2, "elsewhere"), db="other", partitions=tuple(map(a_partition, range(25)))
    )
    altered = PartitionsAltered(
        event_id=3,
        time_s=0,
        kind="ALTER_PARTITIONS",
        db="other",
        table="elsewhere",
        owner=None,
        after=added.partitions,
    )
    assert [item.value.values for item in added.partitions] == [[str(number)] for number in range(25)]
    replica.projection.apply([added, altered])
    assert count_decoded() == 0


COUNTED = "counted"
"""A table name that no other test has."""


def a_partition(number: int) -> Embedded[Partition]:
    storage = StorageDescriptor(location=f"file:/source/{number}")
    partition = Partition(values=[str(number)], dbName="shop", tableName=COUNTED, sd=storage)
    return Embedded(tjson.encode(partition), partial(tjson.decode, Partition))


def count_decoded() -> int:
    """Return how many of these partitions are in memory."""
    found = [each for each in gc.get_objects() if isinstance(each, Partition)]
    return sum(getattr(each, "tableName", None) == COUNTED for each in found)


def test_the_cached_locations_of_all_tables_together_are_bounded(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_cache, "_PARTITIONS_MAX", 10)

    def find(_db: str, table: str, name: str) -> Partition:
        location = f"file:/{table}/{name}"
        return Partition(
            values=["1"], dbName="shop_r", tableName=table, sd=StorageDescriptor(location=location)
        )

    target: Any = RecordingMetastore({"get_partition_by_name": find})
    cache = TableCache(target, replica.context.policy)
    for table in ("a", "b", "c"):
        for number in range(7):
            assert cache.location(table, f"dt={number}") == f"file:/{table}/dt={number}"
            assert sum(map(len, cache._locations.values())) <= 10
    target.calls.clear()
    cache.location("c", "dt=6")
    assert target.names() == []


def test_the_locations_of_many_partitions_come_with_one_call(replica: FakedReplica) -> None:
    def find(_db: str, table: str, names: list[str]) -> list[Partition]:
        return [
            Partition(
                values=[name.removeprefix("dt=")],
                dbName="shop_r",
                tableName=table,
                sd=StorageDescriptor(location=f"file:/{name}"),
            )
            for name in names
            if name != "dt=7"
        ]

    owner = a_table(partition_columns=("dt",))
    target: Any = RecordingMetastore({"get_partitions": find, "get_table": owner})
    cache, names = TableCache(target, replica.context.policy), [f"dt={number}" for number in range(1_000)]
    for _ in range(2):
        found = cache.locations("orders", names)
        assert found == {name: f"file:/{name}" for name in names if name != "dt=7"}
    assert target.names() == ["get_table", "get_partitions", "get_partitions"]
    assert target.calls[2].arguments[2] == ["dt=7"], "only what is missing is asked for again"
    assert cache.location("orders", "dt=999") == "file:/dt=999"
    assert "get_partition_by_name" not in target.names()


def test_many_partitions_are_dropped_by_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[list[str]] = []

    def invoke(_self: PartitionCalls, _call: object, request: Any) -> None:
        sent.append(request.parts.names)

    monkeypatch.setattr(PartitionCalls, "_invoke", invoke)
    names = [f"dt={number}" for number in range(2 * partitions.BATCH + 1)]
    PartitionCalls.drop_partitions(object.__new__(PartitionCalls), "shop", "orders", names)
    assert [len(some) for some in sent] == [partitions.BATCH, partitions.BATCH, 1]
    assert [name for some in sent for name in some] == names
