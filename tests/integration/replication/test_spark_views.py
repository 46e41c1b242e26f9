"""Views of Spark, read by Spark on a replica of another name."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from daemon.replica.status.unreplicated import list_unreplicated
from dev.stack.endpoints import ClusterEndpoints
from handlers.replication.policy.policy import Policy
from tests.builders.components.availability import start_or_skip
from tests.builders.endpoint.endpoint_process import EndpointProcess
from tests.builders.endpoint.spark_session import SparkSession, spark_at
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.verification import find_differences


pytestmark = pytest.mark.long

MASK: Final = "org.apache.hadoop.hive.ql.udf.UDFMd5"
VIEWS: Final = {
    "joined": "select o.id, v from {db}.orders o join {db}.items using (id)",
    "by_columns": "select {db}.orders.id, i.v from {db}.orders, {db}.items i where {db}.orders.id = i.id",
    "of_catalog": "with c as (select * from spark_catalog.{db}.orders) select c.id, s.{db}.x from c",
    "of_session": "select orders.id, {db}.items.v from orders join items on orders.id = items.id",
    "of_table": "table {db}.items",
    "of_pipe": "from {db}.orders |> where id > 1 |> select id",
    "of_view": "select id from joined where v = '{db}.items' -- {db}.items",
    "of_function": "select {db}.mask(v) m from {db}.items",
    "of_sql_function": "select {db}.plus(id) p, plus(1) q from items where v <> 'plus(1)'",
    "of_alias": "select {db}.s.{db}.x from {db}.orders {db}",
    "of_other": "select i.v, d.n from items i join {lake}.days d on d.id = i.id",
}
LEFT_OUT: Final = {
    "by_text": ("select id from identifier('{db}.orders')", "IDENTIFIER"),
    "of_secret": ("select id from {lake}.secret", "which is not replicated to this target"),
    "of_left_function": (
        "select {db}.far(id) x from {db}.items",
        "which is not replicated: it reads elsewhere",
    ),
    "of_far_function": (
        "select {elsewhere}.mask(v) x from {db}.items",
        "which is not replicated to this target",
    ),
    "of_elsewhere": ("select id from {elsewhere}.t", "which is not replicated to this target"),
}


def write(spark: SparkSession, names: dict[str, str]) -> None:
    db = names["db"]
    for each in names.values():
        spark.run(f"create database {each}")
    spark.run(f"create table {db}.orders (id int, s struct<{db}:struct<x:int>>) stored as orc")
    spark.run(f"insert into {db}.orders select id, struct(struct(id)) from range(1, 4)")
    spark.run(f"create table {db}.items (id int, v string) stored as orc")
    spark.run(f"insert into {db}.items values (1, 'a'), (2, '{db}.items'), (3, 'c')")
    for table in ("lake.days", "lake.secret", "elsewhere.t"):
        schema, _, name = table.partition(".")
        spark.run(f"create table {names[schema]}.{name} (id int, n string) stored as orc")
        spark.run(f"insert into {names[schema]}.{name} values (1, 'one'), (2, 'two')")
    for each in (db, names["elsewhere"]):
        spark.run(f"create function {each}.mask as '{MASK}'")
    for function, table in (("plus", f"{db}.orders"), ("far", f"{names['elsewhere']}.t")):
        body = f"x + (select max({table}.id) from {table})"
        spark.run(f"create function {db}.{function}(x int) returns int return {body}")


def create_views(spark: SparkSession, names: dict[str, str]) -> None:
    spark.run(f"use {names['db']}")
    for name, query in {**VIEWS, **{name: query for name, (query, _) in LEFT_OUT.items()}}.items():
        if name == "of_table":
            spark.run("use default")  # the database of the session does not matter any more
        if name == "of_view":
            spark.run(f"use {names['db']}")
        spark.run(f"create view {names['db']}.{name} as {query.format(**names)}")


def build(
    source: ClusterEndpoints, target: ClusterEndpoints, names: dict[str, str], db: str, warehouse: Path
) -> Replica:
    others = {
        name: (Policy(name=name, source_db=name, target_db=f"{name}_r", exclude=exclude),)
        for name, exclude in ((names["db"], ()), (names["lake"], ("secret",)))
    }
    return build_replica(
        source.metastore,
        target.metastore,
        db=db,
        roots=[source.warehouse, str(warehouse)],
        others=lambda name: others.get(name, ()),
    )


def test_spark_reads_its_views_on_a_replica_of_another_name(
    source: ClusterEndpoints, target: ClusterEndpoints, database: str, tmp_path: Path
) -> None:
    names = {"db": database, "lake": f"lake_{database}", "elsewhere": f"elsewhere_{database}"}
    with ExitStack() as stack:
        ends = [
            EndpointProcess(tmp_path / side, uri.removeprefix("thrift://"))
            for side, uri in (("source", source.metastore), ("target", target.metastore))
        ]
        for end in ends:
            with start_or_skip("the endpoint"):
                end.start()
            stack.callback(end.stop)
        with spark_at(ends[0].uri, tmp_path / "at_source") as spark:
            write(spark, names)
            create_views(spark, names)
            expected = {name: sorted(spark.run(f"select * from {names['db']}.{name}")) for name in VIEWS}
            replicas = [build(source, target, names, names[each], tmp_path) for each in ("lake", "db")]
            for replica in replicas:
                replica.follow()
            spark.run(f"create view {names['db']}.later as select max(id) n from {names['db']}.joined")
            expected["later"] = spark.run(f"select * from {names['db']}.later")
        replicas[1].follow()
        replica, db = replicas[1], replicas[1].policy.target_db
        (status,) = list_unreplicated("p", replica.context)
        reasons = {each.name.partition(".")[2]: each.reason for each in status.listed}
        assert "reads elsewhere" in reasons.pop("far()")
        assert reasons.keys() == LEFT_OUT.keys()
        assert all(text in reasons[name] for name, (_, text) in LEFT_OUT.items()), reasons
        assert replica.quarantined() == {}
        differences = find_differences(replica, *VIEWS, "later")
        assert not differences, differences
        with spark_at(ends[1].uri, tmp_path / "on_target") as spark:
            for name, rows in expected.items():
                assert sorted(spark.run(f"select * from {db}.{name}")) == rows, name
        for view in map(replica.target.get_table, [db] * len(expected), expected):
            parameters = {k: v for k, v in (view.parameters or {}).items() if k.startswith("view.cat")}
            assert names["db"] not in " ".join(parameters.values()).replace(db, ""), view.tableName
        for each in replicas:
            each.projection.close()
