"""Partitions of a loaded table are altered only if the target does not have them as they must be."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from dev.fixtures.hive_tables import ACID, a_partition, a_table
from handlers.metastore.calls import V3_1, V4_2, HiveVersion
from handlers.replication.loading.table.snapshot import TableSnapshot
from handlers.replication.loading.table.target_partitions import TargetPartitions
from handlers.replication.loading.table.tools import LoadSettings, LoadTools
from handlers.replication.policy.policy import Policy
from handlers.replication.target.objects import ACCURATE
from handlers.structs.objects import FieldSchema, Partition, Table
from state.transactions.valid_write_ids import ValidWriteIds
from tests.builders.replication.recording_metastore import Recorded, RecordingMetastore


DDL_TIME = "transient_lastDdlTime"
PARAMETERS = {DDL_TIME: "100", "note": "x"}
Change = Callable[["Partition"], object]


def located_table(db: str) -> Table:
    table = a_table(db, "visits", partition_keys=["dt"], parameters=ACID)
    table.sd.location = f"file:/{db}/visits"
    return table


def partition_of_source(value: str = "a") -> Partition:
    """Return a partition without a write id, as Hive 4 returns it."""
    partition = a_partition(located_table("shop"), value, parameters=PARAMETERS)
    partition.createTime, partition.writeId = 50, -1
    return partition


@dataclass
class Target:
    """A metastore that adds partitions as Hive 4 does."""

    stored: dict[str, Partition] = field(default_factory=dict)

    def add(self, db: str, _table: str, partitions: Sequence[Partition]) -> None:
        for partition in partitions:
            added = partition.copy()
            added.catName, added.createTime, added.writeId = "hive", 777, -1
            added.sd.location = f"file:/{db}/visits/dt={partition.values[0]}"
            added.parameters = {DDL_TIME: "777"} | (added.parameters or {})
            self.stored.setdefault(f"dt={partition.values[0]}", added)

    def get(self, _db: str, _table: str, names: Sequence[str]) -> list[Partition]:
        return [self.stored[name].copy() for name in names if name in self.stored]


class Load:
    """The partitions of a load of ``shop.visits`` as of write id 7."""

    def __init__(self, source_version: HiveVersion = V4_2) -> None:
        self.target = Target()
        self.calls = RecordingMetastore(
            {"add_partitions": self.target.add, "get_partitions": self.target.get}
        )
        unused: Any = None
        source: Any = RecordingMetastore(hive_version=source_version)
        target: Any = self.calls
        policy = Policy(name="shop", source_db="shop", target_db="shop_r")
        tools = LoadTools(
            policy, source, target, unused, unused, LoadSettings(), threading.Event(), beat=lambda: None
        )
        self._partitions = TargetPartitions("visits", tools)
        self._snapshot = TableSnapshot(9, located_table("shop"), ValidWriteIds("shop.visits", 7), unused)

    def run(self, *partitions: Partition, with_statistics: Sequence[str] = ()) -> list[Recorded]:
        """Load the partitions of the source; return the alterations."""
        before = len(self.calls.calls)
        put = self._partitions.put(located_table("shop_r"), partitions, self._snapshot)
        self._partitions.complete(put, with_statistics, self._snapshot)
        return [call for call in self.calls.calls[before:] if call.name == "alter_partitions"]


@pytest.fixture
def load() -> Load:
    return Load()


def test_an_added_partition_is_not_altered_if_the_metastore_stored_it_as_it_is(load: Load) -> None:
    assert load.run(partition_of_source("a"), partition_of_source("b")) == []
    assert sorted(load.target.stored) == ["dt=a", "dt=b"]


def test_a_time_of_change_that_the_metastore_chose_is_no_reason_to_alter(load: Load) -> None:
    partition = partition_of_source()
    partition.parameters = {"note": "x"}
    assert load.run(partition) == []


def test_a_partition_with_a_write_id_is_altered_because_an_addition_stores_none(load: Load) -> None:
    written = partition_of_source("b")
    written.writeId = 5
    (call,) = load.run(partition_of_source("a"), written)
    (altered,) = call.arguments[2]
    assert (altered.values, altered.writeId) == (["b"], 7)
    assert call.options["write_id"] == 7
    assert call.options["valid_write_ids"] == ValidWriteIds("shop_r.visits", 7).format()


def test_statistics_of_a_write_that_the_snapshot_does_not_contain_are_added_without_their_mark(
    load: Load,
) -> None:
    late = partition_of_source()
    late.writeId = 8
    late.parameters = {**PARAMETERS, ACCURATE: '{"BASIC_STATS":"true"}'}
    assert load.run(late) == []
    assert load.target.stored["dt=a"].parameters == PARAMETERS


@pytest.mark.parametrize(("version", "is_kept"), [(V3_1, False), (V4_2, True)])
def test_marks_of_a_source_before_hive_4_are_not_loaded(version: HiveVersion, is_kept: bool) -> None:
    load, marked = Load(version), partition_of_source()
    marked.parameters = {**PARAMETERS, ACCURATE: '{"BASIC_STATS":"true"}'}
    load.run(marked)
    assert (ACCURATE in (load.target.stored["dt=a"].parameters or {})) == is_kept


def test_only_partitions_that_were_given_column_statistics_are_altered(load: Load) -> None:
    (call,) = load.run(partition_of_source("a"), partition_of_source("b"), with_statistics=["dt=b"])
    (altered,) = call.arguments[2]
    assert (altered.values, altered.sd.location) == (["b"], "file:/shop_r/visits/dt=b")
    assert call.options["write_id"] is None


def test_partitions_that_keep_the_write_id_of_their_statistics_have_a_call_of_their_own(load: Load) -> None:
    """Hive 4.2 fails with an IllegalStateException otherwise."""
    load.run(partition_of_source("a"), partition_of_source("b"))
    set_parameter(load.target.stored["dt=a"])
    calls = load.run(partition_of_source("a"), partition_of_source("b"), with_statistics=["dt=b"])
    assert [[each.values for each in call.arguments[2]] for call in calls] == [[["a"]], [["b"]]]
    assert [call.options["write_id"] for call in calls] == [None, None]


def set_parameter(partition: Partition) -> None:
    partition.parameters = {**PARAMETERS, "note": "y"}


def add_parameter(partition: Partition) -> None:
    partition.parameters = {**PARAMETERS, ACCURATE: '{"COLUMN_STATS":{"id":"true"}}'}


def set_write_id(partition: Partition) -> None:
    partition.writeId = 3


def add_column(partition: Partition) -> None:
    partition.sd.cols = [*(partition.sd.cols or []), FieldSchema(name="more", type="int")]


def set_serde(partition: Partition) -> None:
    assert partition.sd.serdeInfo is not None
    partition.sd.serdeInfo.parameters = {"field.delim": ","}


def set_access(partition: Partition) -> None:
    partition.lastAccessTime = 3


@pytest.mark.parametrize(
    "change", [set_parameter, add_parameter, set_write_id, add_column, set_serde, set_access]
)
def test_a_partition_of_an_earlier_try_that_differs_is_altered(change: Change, load: Load) -> None:
    load.run(partition_of_source("a"), partition_of_source("b"))
    change(load.target.stored["dt=a"])
    (call,) = load.run(partition_of_source("a"), partition_of_source("b"))
    (altered,) = call.arguments[2]
    assert (altered.values, altered.writeId) == (["a"], None)
    assert (altered.parameters, altered.sd.cols) == (PARAMETERS, partition_of_source().sd.cols)


def test_a_partition_of_an_earlier_try_keeps_its_location(load: Load) -> None:
    load.run(partition_of_source())
    load.target.stored["dt=a"].sd.location = "file:/elsewhere"
    assert load.run(partition_of_source()) == []
    set_parameter(load.target.stored["dt=a"])
    (call,) = load.run(partition_of_source())
    assert call.arguments[2][0].sd.location == "file:/elsewhere"
