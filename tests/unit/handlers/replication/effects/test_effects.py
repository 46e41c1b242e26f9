"""What the effects of events send to the target, and what they skip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from handlers.events import (
    ConstraintsAdded,
    DatabaseAltered,
    DatabaseCreated,
    DatabaseDropped,
    Embedded,
    Inserted,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    SourceFile,
    StatisticsDeleted,
    StatisticsUpdated,
    TableAltered,
)
from handlers.replication.context import Context
from handlers.replication.effects import (
    accuracy_marks,
    constraints,
    databases,
    partitions,
    statistics,
    tables,
)
from handlers.replication.effects.files import plain_files
from handlers.replication.observer import SilentObserver
from handlers.replication.target.objects import ACCURATE
from handlers.replication.target.table_cache import TableCache
from handlers.replication.target.target_position import TargetPosition
from handlers.structs import tjson
from handlers.structs.constraints import SQLForeignKey, SQLPrimaryKey
from handlers.structs.objects import Database, Partition, StorageDescriptor, Table
from handlers.structs.statistics import (
    ColumnStatistics,
    ColumnStatisticsData,
    ColumnStatisticsObj,
)
from state.errors import AlreadyExists, FileLost, InvalidRequest, MalformedEvent, NotFound, TargetDiverged
from tests.builders.replication.fake_target import FakedReplica, faked_replica
from tests.builders.replication.recording_metastore import RecordingMetastore
from tests.builders.replication.replay_events import a_table, altered, created, dropped, embedded
from tests.builders.replication.replay_events import statistics as statistics_event


MISSING = NotFound("there is none")
PLAIN: dict[str, str] = {}
NOT_TRANSACTIONAL = {"transactional": "false"}


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[FakedReplica]:
    made = faked_replica(tmp_path, external_base="hdfs://dr/replica")
    yield made
    made.projection.close()


def context_on(replica: FakedReplica, target: RecordingMetastore, source: Any = None) -> Context:
    """Return the replica's context with recording metastores."""
    metastore: Any = target
    return replace(
        replica.context,
        target=metastore,
        source=source or metastore,
        table_cache=TableCache(metastore, replica.context.policy),
        target_position=TargetPosition(metastore, replica.context.policy),
    )


def header(kind: str, **fields: Any) -> dict[str, Any]:
    return {"event_id": 5, "time_s": 0, "kind": kind, "db": "shop", "table": "orders", **fields}


def a_partition(
    value: str = "1", *, location: str = "file:/source/p", write_id: int | None = None, **parameters: str
) -> Partition:
    return Partition(
        values=[value],
        dbName="shop",
        tableName="orders",
        sd=StorageDescriptor(location=location),
        writeId=write_id,
        parameters=parameters,
    )


def partitioned(parameters: dict[str, str] | None = None, **fields: Any) -> Table:
    return a_table(parameters=parameters, partition_columns=("dt",), location="file:/target/orders", **fields)


# --- databases ---


def test_a_created_database_is_marked_at_the_source_and_an_existing_target_stays(
    replica: FakedReplica,
) -> None:
    source = RecordingMetastore({"get_database": lambda _: Database(name="shop")})
    target = RecordingMetastore({"create_database": AlreadyExists("there is one")})
    event = DatabaseCreated(**header("CREATE_DATABASE"), database=embedded(Database(name="shop")))
    databases.create(event, context_on(replica, target, source))
    assert source.only("alter_database").arguments[1].parameters == {"repl.source.for": "shop"}
    assert target.names() == ["create_database"]


def test_an_altered_database_keeps_what_replication_wrote(replica: FakedReplica) -> None:
    present = Database(name="shop_r", parameters={"repl.last.id": "3", "hive.repl.x": "1", "old": "1"})
    target = RecordingMetastore({"get_database": lambda _: present})
    after = Database(name="shop", parameters={"new": "1", "repl.last.id": "9"}, ownerName="eve")
    event = DatabaseAltered(
        **header("ALTER_DATABASE"), before=embedded(Database(name="shop")), after=embedded(after)
    )
    databases.alter(event, context_on(replica, target))
    changed = target.only("alter_database").arguments[1]
    assert changed.parameters == {"repl.last.id": "3", "hive.repl.x": "1", "new": "1"}
    assert changed.ownerName == "eve"


def test_a_dropped_database_releases_its_tables_and_its_position(replica: FakedReplica) -> None:
    present = Database(name="shop_r")
    target = RecordingMetastore({"drop_database": MISSING, "get_database": lambda _: present.copy()})
    context = context_on(replica, target)
    context.tables.quarantine.add("orders", 1, MalformedEvent("broken"))
    context.target_position.advance(4, {})
    context.tables.write_ids.allocate(7, "shop.orders", 1, 2)
    databases.drop(DatabaseDropped(**header("DROP_DATABASE")), context)
    assert context.tables.quarantine.entries() == ()
    assert context.target_position.written is None, "a new database has no position"
    txn = context.tables.write_ids.get(7)
    assert txn is None or not txn.allocations


# --- tables ---


def test_a_table_of_another_kind_under_the_same_name_is_a_divergence(replica: FakedReplica) -> None:
    target = RecordingMetastore(
        {
            "create_table": AlreadyExists("there is one"),
            "get_table": a_table(parameters=PLAIN, location="file:/target/orders"),
        }
    )
    with pytest.raises(TargetDiverged):
        tables.create(created(5), context_on(replica, target))


def test_an_altered_acid_table_has_the_write_id_inside_and_in_the_list(replica: FakedReplica) -> None:
    target = RecordingMetastore({"get_table": a_table(location="file:/target/orders")})
    tables.alter(altered(5, write_id=3), context_on(replica, target))
    call = target.only("alter_table")
    assert call.arguments[2].writeId == call.options["write_id"] == 3
    assert call.options["valid_write_ids"] == f"shop_r.orders:3:{2**63 - 1}::"
    assert call.arguments[2].sd.location == "file:/target/orders"


def test_a_dropped_table_is_released_even_if_the_target_does_not_have_it(replica: FakedReplica) -> None:
    target = RecordingMetastore({"get_table": MISSING})
    context = context_on(replica, target)
    context.tables.quarantine.add("orders", 1, MalformedEvent("broken"))
    tables.drop(dropped(5), context)
    assert context.tables.quarantine.entries() == ()


# --- partitions ---


def altered_partitions(*after: Partition, **fields: Any) -> PartitionsAltered:
    return PartitionsAltered(
        **header("ALTER_PARTITIONS"), owner=None, after=tuple(embedded(item) for item in after), **fields
    )


def test_altered_partitions_keep_their_locations_and_missing_ones_are_skipped(replica: FakedReplica) -> None:
    present = [a_partition("1", location="file:/target/orders/dt=1")]
    target = RecordingMetastore({"get_table": partitioned(), "get_partitions": present})
    event = altered_partitions(a_partition("1", write_id=9), a_partition("2", write_id=9), write_id=3)
    partitions.alter(event, context_on(replica, target))
    call = target.only("alter_partitions")
    ((changed,), options) = (call.arguments[2], call.options)
    assert (changed.sd.location, changed.writeId) == ("file:/target/orders/dt=1", 3)
    assert (options["write_id"], options["valid_write_ids"]) == (3, f"shop_r.orders:3:{2**63 - 1}::")


def test_a_plain_table_gets_no_write_id(replica: FakedReplica) -> None:
    target = RecordingMetastore(
        {"get_table": partitioned(PLAIN), "get_partitions": [a_partition(location="file:/p")]}
    )
    partitions.alter(altered_partitions(a_partition(write_id=9), write_id=3), context_on(replica, target))
    call = target.only("alter_partitions")
    assert (call.options["write_id"], call.options["valid_write_ids"]) == (None, None)
    assert call.arguments[2][0].writeId is None


def test_a_renamed_partition_has_its_new_values_and_the_write_id(replica: FakedReplica) -> None:
    target = RecordingMetastore(
        {"get_table": partitioned(), "get_partition_by_name": a_partition(location="file:/p")}
    )
    event = altered_partitions(a_partition("2"), before=embedded(a_partition("1")), write_id=3)
    partitions.alter(event, context_on(replica, target))
    call = target.only("rename_partition")
    assert call.arguments[2] == ["1"]
    assert (call.arguments[3].values, call.arguments[3].writeId) == (["2"], 3)


def test_a_partition_that_is_already_renamed_is_left_alone(replica: FakedReplica) -> None:
    def find(_db: str, _table: str, name: str) -> Partition:
        if name == "dt=1":
            raise MISSING
        return a_partition("2")

    target = RecordingMetastore({"get_table": partitioned(), "get_partition_by_name": find})
    event = altered_partitions(a_partition("2"), before=embedded(a_partition("1")))
    partitions.alter(event, context_on(replica, target))
    assert "rename_partition" not in target.names()


def test_only_partitions_with_a_write_id_are_recorded_as_touched(replica: FakedReplica) -> None:
    target = RecordingMetastore({"get_table": partitioned(), "get_partitions": []})
    context = context_on(replica, target)
    context.tables.write_ids.allocate(7, "shop.orders", 3, 2)
    added = (embedded(a_partition("1", write_id=3)), embedded(a_partition("2")))
    partitions.add(PartitionsAdded(**header("ADD_PARTITION"), owner=None, partitions=added), context)
    txn = context.tables.write_ids.get(7)
    assert txn is not None
    assert [touched.partition_name for touched in txn.touched] == ["dt=1"]
    assert all(item.sd.location is None for item in target.only("add_partitions").arguments[2])


@pytest.mark.parametrize(
    ("kind", "parameters", "deleted"),
    [
        ("MANAGED_TABLE", PLAIN, True),
        ("EXTERNAL_TABLE", PLAIN, False),
        ("EXTERNAL_TABLE", {"external.table.purge": "true"}, True),
    ],
)
def test_dropped_partitions_lose_their_data_only_if_hive_owns_it(
    replica: FakedReplica, kind: str, parameters: dict[str, str], *, deleted: bool
) -> None:
    target = RecordingMetastore({"get_table": partitioned(parameters, kind=kind)})
    event = PartitionsDropped(**header("DROP_PARTITION"), owner=None, specs=({"dt": "1"}, {"dt": "a/2"}))
    partitions.drop(event, context_on(replica, target))
    dropped = target.only("drop_partitions")
    assert dropped.arguments[2] == ["dt=1", "dt=a%2F2"], "all by one call"
    assert dropped.options == {"delete_data": deleted, "if_exists": True}


def test_one_dropped_partition_takes_the_faster_call(replica: FakedReplica) -> None:
    target = RecordingMetastore({"get_table": partitioned(PLAIN)})
    event = PartitionsDropped(**header("DROP_PARTITION"), owner=None, specs=({"dt": "a/2"},))
    partitions.drop(event, context_on(replica, target))
    dropped = target.only("drop_partition")
    assert dropped.arguments[2] == ["a/2"]
    assert dropped.options == {"delete_data": True, "if_exists": True}


# --- files of plain tables ---


def inserted(*files: SourceFile, overwrite: bool) -> Inserted:
    return Inserted(
        **header("INSERT"), owner=None, partition=None, spec=None, replace=overwrite, files=tuple(files)
    )


def plain_table(replica: FakedReplica, kind: str = "MANAGED_TABLE") -> RecordingMetastore:
    location = f"file:{replica.target.warehouse}/orders"
    return RecordingMetastore({"get_table": a_table(parameters=PLAIN, location=location, kind=kind)})


def plain_file(replica: FakedReplica, name: str, content: bytes = b"rows") -> SourceFile:
    return replace(replica.file(name, content), subdir="")


@pytest.mark.parametrize(("overwrite", "left"), [(False, ["a", "old"]), (True, ["a"])])
def test_an_overwrite_removes_the_other_files(
    replica: FakedReplica, left: list[str], *, overwrite: bool
) -> None:
    old = replica.target.warehouse / "orders" / "old"
    old.parent.mkdir(parents=True)
    old.write_bytes(b"old")
    event = inserted(plain_file(replica, "a"), overwrite=overwrite)
    plain_files.insert(event, context_on(replica, plain_table(replica)))
    assert replica.files_on_target() == [f"orders/{name}" for name in left]


def in_union(replica: FakedReplica, number: int, content: bytes = b"rows") -> SourceFile:
    """Put a file into a sub-directory of the source's table, as a branch of a union does."""
    path = replica.directory / "source" / "orders" / f"HIVE_UNION_SUBDIR_{number}" / "000000_0"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return SourceFile(f"file:{path}")


@pytest.mark.parametrize("kind", ["MANAGED_TABLE", "EXTERNAL_TABLE"])
def test_files_of_equal_names_in_the_sub_directories_of_a_union_are_all_kept(
    replica: FakedReplica, kind: str
) -> None:
    owner = a_table(parameters=PLAIN, location=f"file:{replica.directory}/source/orders", kind=kind)
    event = inserted(in_union(replica, 1, b"one"), in_union(replica, 2, b"two"), overwrite=True)
    source = RecordingMetastore({"current_event_id": 9})
    context = context_on(replica, plain_table(replica, kind), source)
    plain_files.insert(replace(event, owner=embedded(owner)), context)
    union = [f"orders/HIVE_UNION_SUBDIR_{number}/000000_0" for number in (1, 2)]
    assert replica.files_on_target() == union
    plain_files.insert(inserted(plain_file(replica, "a"), overwrite=True), context)
    assert replica.files_on_target() == ["orders/a"], "the next overwrite removes them"


@pytest.mark.parametrize("kind", ["MANAGED_TABLE", "EXTERNAL_TABLE"])
@pytest.mark.parametrize(
    ("at_source", "left"),
    [([], []), (["old", "merged"], ["merged", "old"]), (["merged"], ["merged"]), (None, [])],
)
def test_an_overwrite_that_logs_no_files_leaves_those_of_the_source(
    replica: FakedReplica, kind: str, at_source: list[str] | None, left: list[str]
) -> None:
    """A CONCATENATE that merges nothing removes nothing, either."""
    old = replica.target.warehouse / "orders" / "old"
    old.parent.mkdir(parents=True)
    old.write_bytes(b"old")
    directory = replica.directory / "source" / "shown"
    (directory.parent / "another").mkdir(parents=True)
    if at_source is not None:
        directory.mkdir()
        for name in at_source:
            (directory / name).write_bytes(name.encode())
    owner = a_table(parameters=PLAIN, location=f"file:{directory}", kind=kind)
    context = context_on(replica, plain_table(replica, kind), RecordingMetastore({"current_event_id": 9}))
    plain_files.insert(replace(inserted(overwrite=True), owner=embedded(owner)), context)
    assert replica.files_on_target() == [f"orders/{name}" for name in left]


def test_an_overwrite_without_a_partition_removes_no_files_of_a_partitioned_table(
    replica: FakedReplica,
) -> None:
    old = replica.target.warehouse / "orders" / "dt=1" / "old"
    old.parent.mkdir(parents=True)
    old.write_bytes(b"old")
    location = f"file:{replica.target.warehouse}/orders"
    table = a_table(parameters=PLAIN, location=location, partition_columns=("dt",))
    context = context_on(replica, RecordingMetastore({"get_table": table}))
    plain_files.insert(inserted(plain_file(replica, "a"), overwrite=True), context)
    assert replica.files_on_target() == ["orders/a", "orders/dt=1/old"]


def test_of_an_external_table_changed_files_are_copied_and_missing_ones_skipped(
    replica: FakedReplica,
) -> None:
    changed = replace(plain_file(replica, "a"), checksum="0" * 32)
    gone = replace(changed, uri=f"{changed.uri}-gone")
    external = plain_table(replica, "EXTERNAL_TABLE")
    source = RecordingMetastore({"current_event_id": 9})
    context = context_on(replica, external, source)
    plain_files.insert(inserted(gone, changed, overwrite=False), context)
    assert replica.files_on_target() == ["orders/a"]
    assert context.tables.copied_ahead.covers("orders", 9), "a rename up to now explains what is missing"
    with pytest.raises(FileLost):
        plain_files.insert(inserted(changed, overwrite=False), context_on(replica, plain_table(replica)))


# --- statistics ---


def test_statistics_are_written_for_the_target_with_the_default_engine(replica: FakedReplica) -> None:
    target = RecordingMetastore({"get_table": a_table(location="file:/t")})
    statistics.update(replace(statistics_event(5), write_id=3), context_on(replica, target))
    call = target.only("update_table_statistics")
    (written,) = call.arguments
    assert (written.statsDesc.dbName, written.engine) == ("shop_r", "hive")
    assert call.options == {"write_id": 3, "valid_write_ids": f"shop_r.orders:3:{2**63 - 1}::"}


def test_statistics_of_columns_that_were_dropped_since_are_left_out(replica: FakedReplica) -> None:
    """A repeated event may find the later ALTER_TABLE applied."""
    sent: list[list[str]] = []

    def update(written: ColumnStatistics, **_options: Any) -> None:
        sent.append([each.colName for each in written.statsObj or []])
        if "gone" in sent[-1]:
            raise InvalidRequest("Column gone doesn't exist in table orders")

    target = RecordingMetastore({"get_table": a_table(location="file:/t")})
    context = context_on(replica, target)
    target.answers["update_table_statistics"] = update
    event = statistics_event(5)
    statistics.update(replace(event, statistics=with_columns(event, "id", "gone")), context)
    assert sent == [["id", "gone"], ["id"]]
    sent.clear()
    statistics.update(replace(event, statistics=with_columns(event, "gone")), context)
    assert sent == [["gone"]]


def with_columns(event: StatisticsUpdated, *columns: str) -> Embedded[ColumnStatistics]:
    changed = event.statistics.copy()
    changed.statsObj = [
        ColumnStatisticsObj(colName=name, colType="int", statsData=ColumnStatisticsData()) for name in columns
    ]
    return embedded(changed)


def test_other_rejected_statistics_count_as_a_failure(replica: FakedReplica) -> None:
    target = RecordingMetastore(
        {"get_table": a_table(location="file:/t"), "update_table_statistics": InvalidRequest("no")}
    )
    with pytest.raises(InvalidRequest):
        statistics.update(statistics_event(5), context_on(replica, target))


def test_statistics_of_a_table_that_was_dropped_since_have_no_effect(replica: FakedReplica) -> None:
    statistics.update(statistics_event(5), context_on(replica, RecordingMetastore({"get_table": MISSING})))


def deleted(column: str | None, partition_name: str | None = None) -> StatisticsDeleted:
    return StatisticsDeleted(
        **header("DELETE_PART_COL_STAT_EVENT"), column=column, partition_name=partition_name
    )


MARK = "COLUMN_STATS_ACCURATE"
BASIC = '{"BASIC_STATS":"true"}'
WITH_COLUMNS = '{"BASIC_STATS":"true","COLUMN_STATS":{"item":"true","qty":"true"}}'


def rename_with_marks(before: str, after: str) -> TableAltered:
    kept = {**PLAIN, "transactional": "false"}
    tables_of_event = [
        a_table(name, parameters={**kept, MARK: mark})
        for name, mark in (("sums", before), ("tallies", after))
    ]
    event = altered(5, "sums", new_name="tallies")
    return replace(event, before=embedded(tables_of_event[0]), after=embedded(tables_of_event[1]))


def test_a_rename_writes_the_accurate_statistics_again(replica: FakedReplica) -> None:
    found = [ColumnStatisticsObj(colName="qty", colType="bigint", statsData=ColumnStatisticsData())]
    target = RecordingMetastore(
        {"get_table": a_table("tallies", location="file:/t"), "table_statistics": found}
    )
    tables.rename(rename_with_marks(WITH_COLUMNS, BASIC), context_on(replica, target))
    assert target.only("table_statistics").arguments == ("shop_r", "tallies", ["item", "qty"])
    written = target.only("update_table_statistics").arguments[0]
    assert (written.statsDesc.tableName, written.statsObj) == ("tallies", found)


@pytest.mark.parametrize(
    ("before", "after"), [(BASIC, BASIC), (WITH_COLUMNS, ""), (WITH_COLUMNS, WITH_COLUMNS), ("{", "[]")]
)
def test_a_rename_writes_no_statistics_that_were_not_accurate_or_still_are(
    replica: FakedReplica, before: str, after: str
) -> None:
    target = RecordingMetastore({"get_table": a_table("tallies", location="file:/t")})
    tables.rename(rename_with_marks(before, after), context_on(replica, target))
    assert "update_table_statistics" not in target.names()


def test_deleted_statistics_are_deleted_on_the_target(replica: FakedReplica) -> None:
    target = RecordingMetastore({"get_table": a_table(parameters=NOT_TRANSACTIONAL, location="file:/t")})
    context = context_on(replica, target)
    statistics.delete(deleted("id"), context)
    assert target.only("delete_table_statistics").arguments == ("shop_r", "orders", "id")
    statistics.delete(deleted("id", "dt=a"), context)
    assert target.only("delete_partition_statistics").arguments == ("shop_r", "orders", "dt=a", "id")


def test_statistics_that_are_already_deleted_and_those_of_transactional_tables_are_skipped(
    replica: FakedReplica,
) -> None:
    gone = {
        "get_table": a_table(parameters=NOT_TRANSACTIONAL, location="file:/t"),
        "delete_table_statistics": MISSING,
    }
    statistics.delete(deleted("id"), context_on(replica, RecordingMetastore(gone)))
    acid = RecordingMetastore({"get_table": a_table(location="file:/t")})
    statistics.delete(deleted("id"), context_on(replica, acid))
    assert acid.names() == ["get_table"]
    statistics.delete(deleted("id"), context_on(replica, RecordingMetastore({"get_table": MISSING})))


@pytest.mark.parametrize("partition", [None, "dt=a"])
def test_a_deletion_without_a_column_deletes_what_the_source_does_not_have(
    replica: FakedReplica, partition: str | None
) -> None:
    def having(*names: str) -> RecordingMetastore:
        found = [
            ColumnStatisticsObj(colName=name, colType="int", statsData=ColumnStatisticsData())
            for name in names
        ]
        return RecordingMetastore(
            {
                "get_table": a_table(parameters=NOT_TRANSACTIONAL, location="file:/t"),
                "table_statistics": found,
                "partition_statistics": {"dt=a": found},
            }
        )

    target = having("id", "item")
    statistics.delete(deleted(None, partition), context_on(replica, target, having("item")))
    call = "delete_partition_statistics" if partition else "delete_table_statistics"
    assert target.only(call).arguments[-1] == "id"


@pytest.mark.parametrize(("write_id", "marked"), [(3, True), (4, False)])
def test_only_statistics_of_the_lost_write_id_are_marked_as_inaccurate(
    replica: FakedReplica, write_id: int, *, marked: bool
) -> None:
    accurate = {"transactional": "true", ACCURATE: "{}"}
    whole = RecordingMetastore({"get_table": lambda *_: a_table(parameters=dict(accurate), writeId=write_id)})
    accuracy_marks.mark_inaccurate("orders", 3, [], context_on(replica, whole))
    assert ("alter_table" in whole.names()) == marked

    def find(_db: str, _table: str, names: list[str]) -> list[Partition]:
        return [a_partition(write_id=write_id, **{ACCURATE: "{}"}) for _ in names]

    parts = RecordingMetastore({"get_table": partitioned(), "get_partitions": find})
    accuracy_marks.mark_inaccurate("orders", 3, [f"dt={n}" for n in range(600)], context_on(replica, parts))
    assert parts.names().count("alter_partitions") == (2 if marked else 0), "in bounded batches"
    assert parts.names().count("get_partitions") == 2


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("write_id", [None, 3])
def test_only_an_open_transaction_of_the_source_changes_whether_statistics_are_accurate(
    replica: FakedReplica, write_id: int | None, *, held: bool
) -> None:
    if held:
        replica.context.tables.write_ids.allocate(7, "shop.orders", 3, 1)
    is_kept = held and write_id == 3
    accurate = {"transactional": "true", ACCURATE: "{}"}
    target = RecordingMetastore(
        {"get_table": lambda *_: a_table(parameters={"transactional": "true"}, location="file:/t")}
    )
    event = replace(altered(5), after=embedded(a_table(parameters=accurate)), write_id=write_id)
    tables.alter(event, context_on(replica, target))
    sent = target.only("alter_table").arguments[2]
    assert (ACCURATE in sent.parameters) == is_kept

    transactional = {"transactional": "true"}
    present = [a_partition("1", location="file:/target/orders/dt=1")]
    parts = RecordingMetastore({"get_table": partitioned(transactional), "get_partitions": present})
    marked = a_partition("1")
    marked.parameters = {ACCURATE: "{}"}
    changed = altered_partitions(marked, write_id=write_id)
    partitions.alter(changed, context_on(replica, parts))
    (sent_partition,) = parts.only("alter_partitions").arguments[2]
    assert (ACCURATE in sent_partition.parameters) == is_kept


# --- constraints ---


def constraints_added(kind: str, *columns: Any) -> ConstraintsAdded:
    return ConstraintsAdded(**header(kind), texts=tuple(tjson.encode(column) for column in columns))


def test_only_constraints_that_the_target_lacks_are_added_under_its_own_database(
    replica: FakedReplica,
) -> None:
    target = RecordingMetastore({"constraint_names": {"PK_A"}})
    keys = [
        SQLPrimaryKey(table_db="SHOP", table_name="orders", column_name="id", pk_name=name, catName="hive")
        for name in ("pk_a", "pk_b")
    ]
    constraints.add(constraints_added("ADD_PRIMARYKEY", *keys), context_on(replica, target))
    kind, (added,) = target.only("add_constraint").arguments
    assert kind.event_type == "ADD_PRIMARYKEY"
    assert (added.pk_name, added.table_db, added.catName) == ("pk_b", "shop_r", None)


def a_foreign_key(name: str, parent: str, db: str = "shop", key: str = "pk") -> SQLForeignKey:
    return SQLForeignKey(
        fktable_db="shop",
        fktable_name="orders",
        pktable_db=db,
        pktable_name=parent,
        fk_name=name,
        pk_name=key,
    )


def test_a_foreign_key_to_a_table_that_is_not_followed_is_left_out_and_reported(tmp_path: Path) -> None:
    replica = faked_replica(tmp_path, exclude=("tmp_*",))
    reported: list[tuple[str, str, str]] = []

    class Observer(SilentObserver):
        def constraint_left_out(self, table: str, name: str, parent: str) -> None:
            reported.append((table, name, parent))

    def find(_db: str, table: str) -> Table:
        if table == "nowhere":
            raise MISSING
        return a_table(table)

    target = RecordingMetastore({"constraint_names": {"PK"}, "get_table": find})
    context = replace(context_on(replica, target), observer=Observer())
    context.tables.quarantine.add("broken", 1, MalformedEvent("broken"))
    keys = [
        a_foreign_key("a", "tmp_x"),
        a_foreign_key("b", "orders", db="other"),
        a_foreign_key("c", "nowhere"),
        a_foreign_key("d", "broken"),
        a_foreign_key("e", "customers"),
        a_foreign_key("f", "customers", key="dropped"),
    ]
    constraints.add(constraints_added("ADD_FOREIGNKEY", *keys), context)
    (kept,) = target.only("add_constraint").arguments[1]
    assert (kept.fk_name, kept.fktable_db, kept.pktable_db) == ("e", "shop_r", "shop_r")
    assert reported == [
        ("shop.orders", "a", "shop.tmp_x"),
        ("shop.orders", "b", "other.orders"),
        ("shop.orders", "c", "shop.nowhere"),
        ("shop.orders", "d", "shop.broken"),
        ("shop.orders", "f", "shop.customers"),
    ]
    replica.projection.close()


def test_a_constraint_of_a_table_that_was_dropped_since_has_no_effect(replica: FakedReplica) -> None:
    target = RecordingMetastore({"get_table": MISSING, "add_constraint": MISSING})
    key = SQLPrimaryKey(table_db="shop", table_name="orders", column_name="id", pk_name="pk")
    constraints.add(constraints_added("ADD_PRIMARYKEY", key), context_on(replica, target))
    assert "add_constraint" not in target.names()
