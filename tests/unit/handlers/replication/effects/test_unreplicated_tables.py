"""Tables that cannot be replicated, such as materialized views: none of their events has an effect, and none
counts as a failure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from daemon.replica.status.unreplicated import UNREPLICATED, list_unreplicated
from handlers.events import (
    DatabaseDropped,
    Event,
    FilesWritten,
    PartitionsAdded,
    TableAltered,
    TableDropped,
    Undecodable,
)
from handlers.metastore.calls import HiveVersion
from handlers.replication.effects import databases
from handlers.replication.policy.policy import Policy
from handlers.replication.policy.replicability import find_obstacle, may_have_obstacle
from handlers.replication.tables.table_entries import UnreplicatedTables
from handlers.replication.target.objects import to_target_partition
from handlers.structs import tjson
from handlers.structs.objects import Table
from state.errors import MalformedEvent, Unsupported
from tests.builders.replication.fake_target import FakedReplica, faked_replica
from tests.builders.replication.replay_events import (
    a_partition,
    a_table,
    aborted,
    allocated,
    changed,
    committed,
    created,
    dropped,
    embedded,
    statistics,
    written,
)
from tests.builders.replication.spark_tables import a_spark_table


def a_view(name: str = "mv") -> Table:
    return a_table(name, kind="MATERIALIZED_VIEW")


def view_altered(event_id: int) -> TableAltered:
    return changed(event_id, a_view(), a_view())


def view_written(
    event_id: int, replica: FakedReplica, txn_id: int, write_id: int, parts: int = 2
) -> FilesWritten:
    file = replica.file(write_id=write_id)
    event = written(event_id, file, txn_id=txn_id, write_id=write_id, table="mv", parts=parts)
    return replace(event, owner_text=tjson.encode(a_view()))


def creation(replica: FakedReplica) -> list[Event]:
    """CREATE MATERIALIZED VIEW as Hive logs it: the write id comes before the table."""
    return [
        allocated(1, 1, 1, "mv"),
        created(2, "mv", kind="MATERIALIZED_VIEW"),
        view_altered(3),
        replace(statistics(4, "mv"), owner=embedded(a_view())),
        view_written(5, replica, 1, 1),
        committed(5, 1, part=1, parts=2),
    ]


def rebuild(replica: FakedReplica, event_id: int) -> list[Event]:
    return [
        allocated(event_id, event_id, 2, "mv"),
        view_written(event_id + 1, replica, event_id, 2),
        committed(event_id + 1, event_id, part=1, parts=2),
        view_altered(event_id + 2),
    ]


def test_a_materialized_view_is_left_out_from_its_creation_to_its_drop(replica: FakedReplica) -> None:
    replica.projection.apply([*creation(replica), *rebuild(replica, 10), dropped(20, "mv")])
    assert replica.stored_quarantine() == {}
    assert replica.target.tables == {}
    assert replica.files_on_target() == []
    assert replica.target.open_txns == []
    assert replica.stored_position() == 20


def test_a_rebuild_opens_no_transaction_on_the_target(replica: FakedReplica) -> None:
    replica.projection.apply(creation(replica))
    replica.projection.open()
    replica.target.calls.clear()
    replica.projection.apply(rebuild(replica, 10))
    assert replica.target.calls == [], "the names of the views survive a restart"


def test_a_rebuild_that_is_rolled_back_opens_none_either(replica: FakedReplica) -> None:
    replica.projection.apply(creation(replica))
    replica.target.calls.clear()
    replica.projection.apply([allocated(10, 2, 2, "mv"), aborted(11, 2)])
    assert replica.target.calls == []


def test_a_view_that_was_there_before_the_bootstrap_is_recognised_by_its_write_event(
    replica: FakedReplica,
) -> None:
    replica.projection.apply(rebuild(replica, 10))
    assert replica.stored_quarantine() == {}
    assert replica.target.open_txns == []
    assert replica.context.tables.unreplicated.get("mv") is not None


def test_a_transaction_that_also_writes_a_table_shows_the_rows_of_the_table(replica: FakedReplica) -> None:
    replica.projection.apply([*creation(replica), created(10)])
    file = replica.file()
    both: list[Event] = [
        allocated(11, 7, 1, "orders"),
        allocated(12, 7, 2, "mv"),
        written(13, file, txn_id=7, parts=3),
        replace(view_written(13, replica, 7, 2, parts=3), part=1),
        committed(13, 7, part=2, parts=3),
    ]
    replica.projection.apply(both)
    assert [each.table for each in replica.target.commits[-1][1]] == ["orders"]
    assert replica.stored_quarantine() == {}


def test_a_view_that_an_earlier_version_quarantined_is_released(replica: FakedReplica) -> None:
    replica.context.tables.quarantine.add("mv", 1, MalformedEvent("no such table"))
    replica.projection.apply([view_altered(3)])
    assert replica.stored_quarantine() == {}


def test_a_table_that_gets_the_name_of_a_dropped_view_is_replicated(replica: FakedReplica) -> None:
    replica.projection.apply([*creation(replica), dropped(10, "mv"), created(11, "mv")])
    assert list(replica.target.tables) == ["mv"]
    assert replica.context.tables.unreplicated.entries() == ()


def test_a_table_whose_parameters_mention_materialized_views_is_replicated(replica: FakedReplica) -> None:
    mentioning = {"transactional": "true", "note": "MATERIALIZED_VIEW"}
    replica.projection.apply([created(1, "orders", parameters=mentioning)])
    assert list(replica.target.tables) == ["orders"]


@pytest.mark.parametrize("gone", [True, False])
def test_events_of_a_view_without_its_object_are_left_out_too(replica: FakedReplica, *, gone: bool) -> None:
    replica.projection.apply(creation(replica))
    unreadable = Undecodable(
        event_id=10, time_s=0, kind="ALTER_TABLE", db="shop", table="mv", error=MalformedEvent("torn")
    )
    partition = PartitionsAdded(
        event_id=10, time_s=0, kind="ADD_PARTITION", db="shop", table="mv", owner=None, partitions=()
    )
    replica.projection.apply([unreadable if gone else partition])
    assert replica.stored_quarantine() == {}


def test_the_names_of_the_views_are_forgotten_with_their_view_and_their_database(
    replica: FakedReplica,
) -> None:
    replica.projection.apply(creation(replica))
    stored = UnreplicatedTables()
    stored.load(replica.store)
    assert [each.table for each in stored.entries()] == ["mv"]
    with_object = TableDropped(
        event_id=10, time_s=0, kind="DROP_TABLE", db="shop", table="mv", before=embedded(a_view())
    )
    replica.projection.apply([with_object])
    stored.load(replica.store)
    assert stored.entries() == ()


def test_a_dropped_database_has_no_views_left(replica: FakedReplica) -> None:
    replica.projection.apply(creation(replica))
    # A call that the fake does not have
    replica.target.drop_database = lambda *_, **__: None  # type: ignore[attr-defined]
    databases.drop(DatabaseDropped(event_id=10, time_s=0, kind="DROP_DATABASE", db="shop"), replica.context)
    assert replica.context.tables.unreplicated.entries() == ()


def a_query(text: str, parameters: dict[str, str] | None = None) -> Table:
    view = a_table("v", kind="VIRTUAL_VIEW", location=None, parameters=parameters or {})
    view.viewExpandedText = text
    return view


def lake_as(target_db: str) -> Callable[[str], tuple[Policy, ...]]:
    lake = Policy(name="lake", source_db="lake", target_db=target_db, exclude=("secret*",))
    return lambda database: (lake,) if database == "lake" else ()


def test_a_view_reads_the_tables_that_another_policy_replicates_by_their_names_on_the_target(
    tmp_path: Path,
) -> None:
    replica = faked_replica(tmp_path, others=lake_as("lake_r"))
    view = a_query("select `t`.`id` from `lake`.`t`")
    after = a_query(view.viewExpandedText or "", {"comment": "x"})
    replica.projection.apply([replace(created(1, "v"), after=embedded(view)), changed(2, view, after)])
    assert replica.stored_quarantine() == {}
    assert replica.target.tables["v"].viewExpandedText == "select `t`.`id` from `lake_r`.`t`"
    assert replica.target.tables["v"].parameters == {"comment": "x"}
    replica.projection.close()


def test_a_view_of_a_table_that_no_policy_replicates_is_left_out_until_it_reads_others(
    tmp_path: Path,
) -> None:
    replica = faked_replica(tmp_path, others=lake_as("lake_r"))
    good, bad = a_query("select 1 from `lake`.`t`"), a_query("select 1 from `lake`.`secret_t`")
    replica.projection.apply([replace(created(1, "v"), after=embedded(good)), changed(2, good, bad)])
    assert replica.target.tables == {}, "the view that it was is not what the source has"
    (status,) = list_unreplicated("p", replica.context)
    assert [(each.code, each.reason) for each in status.listed] == [
        ("view", "it reads lake.secret_t, which is not replicated to this target")
    ]
    replica.projection.apply([changed(3, bad, good)])
    assert list_unreplicated("p", replica.context) == ()
    assert replica.context.tables.loads.is_waiting("v")
    replica.projection.close()


def test_a_view_of_a_table_that_cannot_be_replicated_is_left_out_too_and_its_drop_is_replayed(
    replica: FakedReplica,
) -> None:
    view, inner = a_query("select 1 from `shop`.`inner_v`"), a_query("select 1 from `shop`.`orders`")
    inner.tableName, inner.dbName = "inner_v", "shop"
    replica.target.tables |= {"inner_v": inner, "orders": iceberg()}  # the fake is the source as well
    replica.projection.apply([replace(created(1, "v"), after=embedded(view))])
    entry = replica.context.tables.unreplicated.get("v")
    assert entry is not None
    assert "reads shop.inner_v" in entry.reason
    assert "Iceberg" in entry.reason
    replica.target.tables["v"] = view
    replica.projection.apply([replace(dropped(2, "v"), before=embedded(view))])
    assert "v" not in replica.target.tables
    assert replica.context.tables.unreplicated.get("v") is None


def test_a_view_that_was_left_out_is_loaded_once_a_policy_replicates_what_it_reads(tmp_path: Path) -> None:
    others: dict[str, tuple[Policy, ...]] = {}
    replica = faked_replica(tmp_path, others=lambda database: others.get(database, ()))
    view = a_query("select 1 from `lake`.`t`")
    replica.projection.apply([replace(created(1, "v"), after=embedded(view))])
    assert replica.context.tables.unreplicated.get("v") is not None
    others["lake"] = lake_as("lake_r")("lake")
    replica.target.tables["v"] = view  # the fake is the source as well
    replica.projection.open()
    assert replica.context.tables.unreplicated.get("v") is None
    assert replica.context.tables.loads.is_waiting("v")
    replica.projection.close()


ICEBERG = {"table_type": "ICEBERG", "metadata_location": "file:/source/t/metadata/1.json", "EXTERNAL": "TRUE"}


def iceberg(name: str = "orders") -> Table:
    return a_table(name, kind="EXTERNAL_TABLE", parameters=dict(ICEBERG))


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        (ICEBERG, "iceberg"),
        ({"table_type": "iceberg"}, "iceberg"),
        ({"metadata_location": "s3://a/1.json"}, "iceberg"),
        ({"storage_handler": "org.apache.iceberg.mr.hive.HiveIcebergStorageHandler"}, "iceberg"),
        ({"storage_handler": "org.apache.hadoop.hive.hbase.HBaseStorageHandler"}, "storage-handler"),
        ({"storage_handler": "org.apache.hadoop.hive.kudu.KuduStorageHandler"}, "storage-handler"),
        ({"storage_handler": "org.apache.hive.storage.jdbc.JdbcStorageHandler"}, "storage-handler"),
        ({"storage_handler": "io.delta.hive.DeltaStorageHandler"}, "delta"),
        ({"storage_handler": "org.apache.paimon.hive.PaimonStorageHandler"}, "paimon"),
        ({"storage_handler": "org.apache.hadoop.hive.druid.DruidStorageHandler"}, "storage-handler"),
        ({"table_type": "DELTA"}, "delta"),
        ({"table_type": "hudi"}, "hudi"),
        ({"spark.sql.sources.provider": "delta"}, "delta"),
        ({"spark.sql.sources.provider": "DELTA"}, "delta"),
        ({"spark.sql.sources.provider": "io.delta.sql.DeltaDataSource"}, "delta"),
        ({"spark.sql.sources.provider": "hudi"}, "hudi"),
        ({"spark.sql.sources.provider": "org.apache.hudi"}, "hudi"),
        ({"spark.sql.sources.provider": "iceberg"}, "iceberg"),
        ({"spark.sql.sources.provider": "paimon"}, "paimon"),
        ({"spark.sql.sources.provider": "jdbc"}, "spark-provider"),
        ({"spark.sql.sources.provider": "org.apache.spark.sql.jdbc"}, "spark-provider"),
        ({"spark.sql.sources.provider": "kafka"}, "spark-provider"),
        ({"spark.sql.sources.provider": "binaryFile"}, "spark-provider"),
        ({"spark.sql.sources.provider": "com.acme.parquet"}, "spark-provider"),
        ({"spark.sql.sources.provider": "parquetlike"}, "spark-provider"),
        ({"storage_handler": "", "table_type": "MANAGED"}, None),
        ({"transactional": "true"}, None),
        ({"spark.sql.sources.provider": ""}, None),
        *(
            ({"spark.sql.sources.provider": provider}, None)
            for provider in (
                "parquet",
                "ORC",
                "csv",
                "json",
                "text",
                "avro",
                "xml",
                "hive",
                "com.databricks.spark.csv",
                "org.apache.spark.sql.avro",
                "org.apache.spark.sql.hive.orc.OrcFileFormat",
                "org.apache.spark.sql.parquet.DefaultSource",
                "org.apache.spark.sql.execution.datasources.json.JsonFileFormat",
                "org.apache.spark.sql.execution.datasources.v2.parquet.ParquetDataSourceV2",
            )
        ),
    ],
)
def test_tables_whose_rows_are_elsewhere_are_not_replicable(
    parameters: dict[str, str], code: str | None
) -> None:
    table = a_table(parameters=parameters, kind="EXTERNAL_TABLE")
    found = find_obstacle(table)
    assert (None if found is None else found.code) == code
    assert found is None or may_have_obstacle(tjson.encode(table))


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat", "symlink"),
        ("com.acme.SymlinkParquetInputFormat", "symlink"),
        ("org.apache.hudi.hadoop.HoodieParquetInputFormat", "hudi"),
        ("org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat", "hudi"),
        ("com.uber.hoodie.hadoop.HoodieInputFormat", "hudi"),
        ("io.delta.hive.HiveInputFormat", "delta"),
        ("org.apache.paimon.hive.mapred.PaimonInputFormat", "paimon"),
        ("org.apache.iceberg.mr.hive.HiveIcebergInputFormat", "iceberg"),
        ("org.apache.hadoop.hive.hbase.HiveHBaseTableInputFormat", "input-format"),
        ("org.apache.carbondata.hive.MapredCarbonInputFormat", "input-format"),
        ("org.apache.hadoop.mapred.TextInputFormat", None),
        ("org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat", None),
        ("com.hadoop.mapred.DeprecatedLzoTextInputFormat", None),
    ],
)
def test_input_formats_that_read_more_than_visible_files_are_not_replicable(
    name: str, code: str | None
) -> None:
    table = a_table(kind="EXTERNAL_TABLE", parameters={})
    assert table.sd is not None
    table.sd.inputFormat = name
    found = find_obstacle(table)
    assert (None if found is None else found.code) == code
    assert found is None or may_have_obstacle(tjson.encode(table))
    partition = a_partition()
    assert partition.sd is not None
    partition.sd.inputFormat = name
    if code is None:
        to_target_partition(partition.copy(), POLICY, None)
        return
    with pytest.raises(Unsupported, match="a partition cannot be replicated"):
        to_target_partition(partition.copy(), POLICY, None)
    without_rows = replace(POLICY, metadata_only=("*",))
    assert find_obstacle(table, without_rows) is None
    to_target_partition(partition, without_rows, None)


POLICY = Policy(name="shop", source_db="shop", target_db="shop_r")


@pytest.mark.parametrize(
    ("path", "options", "kind", "base", "code"),
    [
        (None, {}, "EXTERNAL_TABLE", None, None),
        ("file:/files/orders", {}, "EXTERNAL_TABLE", None, "spark-path"),
        ("file:/files/orders", {}, "EXTERNAL_TABLE", "file:/base", None),
        ("file:/files/orders", {}, "MANAGED_TABLE", "file:/base", "spark-path"),
        (None, {"schemaFile": "s3a://other/x"}, "EXTERNAL_TABLE", "file:/base", "spark-path"),
        (None, {"schemaFile": "file:/source/shop.db/orders/x"}, "EXTERNAL_TABLE", None, None),
        (None, {"basePath": "file:/source/shop.db"}, "EXTERNAL_TABLE", "file:/base", None),
        (
            None,
            {"sep": "/", "dateFormat": "/yyyy", "comment": "see https://a/b"},
            "EXTERNAL_TABLE",
            None,
            None,
        ),
    ],
)
def test_a_table_that_spark_reads_elsewhere_needs_a_base(
    path: str | None, options: dict[str, str], kind: str, base: str | None, code: str | None
) -> None:
    table = a_spark_table(path=path, options=options, kind=kind)
    found = find_obstacle(table, replace(POLICY, external_base=base))
    assert (None if found is None else found.code) == code
    assert found is None or may_have_obstacle(tjson.encode(table))


def test_a_table_that_becomes_one_of_delta_lake_keeps_its_rows_until_it_is_dropped(
    replica: FakedReplica,
) -> None:
    plain, delta = a_spark_table(), a_spark_table(provider="delta")
    replica.projection.apply([as_created(1, plain), changed(2, plain, delta)])
    assert unreplicated(replica) == {"orders": ("delta", True)}
    replica.projection.apply([as_dropped(3, delta)])
    assert (replica.target.tables, unreplicated(replica)) == ({}, {})


def test_a_rename_after_which_a_table_cannot_be_replicated_renames_what_the_target_has(
    replica: FakedReplica,
) -> None:
    """Spark renames an external table of its own without its ``path``, and Hive 4 moves the directory of one
    whose data it owns."""
    before = a_spark_table()
    after = a_spark_table("sold", location="file:/source/shop.db/sold", path="file:/source/shop.db/orders")
    renamed = changed(2, before, after)
    replica.projection.apply([as_created(1, before), renamed])
    assert list(replica.target.tables) == ["sold"]
    assert unreplicated(replica) == {"sold": ("spark-path", True)}
    replica.projection.apply([as_created(3, a_spark_table())])
    assert sorted(replica.target.tables) == ["orders", "sold"]


def test_a_partition_of_another_format_quarantines_its_table(replica: FakedReplica) -> None:
    owner = a_table(kind="EXTERNAL_TABLE", parameters={}, partition_columns=("dt",))
    linked = a_partition()
    assert linked.sd is not None
    linked.sd.inputFormat = "org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat"
    added = PartitionsAdded(
        event_id=2,
        time_s=0,
        kind="ADD_PARTITION",
        db="shop",
        table="orders",
        owner=embedded(owner),
        partitions=(embedded(linked),),
    )
    replica.projection.apply([as_created(1, owner), added])
    assert replica.stored_quarantine() == {"orders": "unsupported"}


def as_created(event_id: int, table: Table) -> Event:
    return replace(created(event_id, table.tableName or ""), after=embedded(table))


def as_dropped(event_id: int, table: Table) -> TableDropped:
    return TableDropped(
        event_id=event_id,
        time_s=0,
        kind="DROP_TABLE",
        db="shop",
        table=table.tableName,
        before=embedded(table),
    )


def unreplicated(replica: FakedReplica) -> dict[str, tuple[str, bool]]:
    stored = UnreplicatedTables()
    stored.load(replica.store)
    return {each.table: (each.code, each.on_target) for each in stored.entries()}


def test_an_iceberg_table_is_left_out_and_reported_until_it_is_dropped(replica: FakedReplica) -> None:
    table = iceberg()
    replica.projection.apply([as_created(1, table), changed(2, table, table)])
    assert replica.target.tables == {}
    assert unreplicated(replica) == {"orders": ("iceberg", False)}
    (status,) = list_unreplicated("shop", replica.context)
    assert "Iceberg tables are not replicated" in UNREPLICATED.text((status,), 0.0)
    assert [sample.value for family in UNREPLICATED.families((status,)) for sample in family.samples] == [1.0]
    replica.projection.apply([as_dropped(3, table)])
    assert unreplicated(replica) == {}
    assert list_unreplicated("shop", replica.context) == ()
    assert replica.stored_quarantine() == {}


def test_a_table_that_becomes_an_iceberg_table_keeps_its_rows_until_it_is_dropped(
    replica: FakedReplica,
) -> None:
    before = a_table(parameters={}, kind="EXTERNAL_TABLE")
    replica.projection.apply([as_created(1, before), changed(2, before, iceberg())])
    assert list(replica.target.tables) == ["orders"]
    assert "table_type" not in (replica.target.tables["orders"].parameters or {})
    assert unreplicated(replica) == {"orders": ("iceberg", True)}
    replica.projection.apply([as_dropped(3, iceberg())])
    assert replica.target.tables == {}
    assert unreplicated(replica) == {}


def test_a_table_that_is_no_iceberg_table_any_more_is_loaded(replica: FakedReplica) -> None:
    replica.projection.apply([as_created(1, iceberg()), changed(2, iceberg(), a_table(parameters={}))])
    assert [load.table for load in replica.context.tables.loads.waiting()] == ["orders"]
    assert unreplicated(replica) == {}


def test_a_renamed_iceberg_table_is_reported_under_its_new_name(replica: FakedReplica) -> None:
    replica.projection.apply([as_created(1, iceberg()), changed(2, iceberg(), iceberg("sold"))])
    assert unreplicated(replica) == {"sold": ("iceberg", False)}
    assert replica.stored_quarantine() == {}


def test_an_entry_of_an_older_version_is_a_materialized_view(replica: FakedReplica) -> None:
    with replica.store.transaction() as txn:
        txn.put(b"materialized-view/mv", b'{"table":"mv","event_id":2}')
    assert unreplicated(replica) == {"mv": ("materialized-view", False)}


def test_transactional_tables_of_hive_2_3_are_quarantined_with_the_remedy(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(replica.target), "hive_version", HiveVersion(2, 3))
    replica.projection.apply([created(2), created(3, "plain", parameters={})])
    assert replica.stored_quarantine() == {"orders": "unsupported"}
    (entry,) = replica.context.tables.quarantine.entries()
    assert "Run a major compaction of the table, upgrade the source" in entry.reason
    assert set(replica.target.tables) == {"plain"}
