"""Directories of plain tables and partitions that have no file: the target needs them as well, because Hive
refuses to truncate what has none."""

from __future__ import annotations

from contextlib import closing
from typing import Final

import pytest

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.files.paths import parse_location
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.small_workload import ACID, PLAIN, create_source
from tests.builders.replication.verification import check_equal


PARTITIONED: Final = "create table {db}.sales (id int) partitioned by (dt string) " + PLAIN
EMPTY: Final = (PARTITIONED, "alter table {db}.sales add partition (dt='a') partition (dt='b')")
HISTORIES: Final = {
    "partition of a renamed table": (
        *EMPTY,
        "alter table {db}.sales rename to {db}.orders",
        "truncate table {db}.orders partition (dt='a')",
    ),
    "partitioned table that is renamed": (
        *EMPTY,
        "alter table {db}.sales rename to {db}.orders",
        "truncate table {db}.orders",
    ),
    "renamed table": (
        "create table {db}.sales (id int) " + PLAIN,
        "alter table {db}.sales rename to {db}.orders",
        "truncate table {db}.orders",
    ),
    "renamed partition": (
        *EMPTY,
        "alter table {db}.sales partition (dt='a') rename to partition (dt='c')",
        "truncate table {db}.sales partition (dt='c')",
    ),
    "moved table": (
        "create table {db}.sales (id int) " + PLAIN,
        (
            "create table {db}.orders (id int) stored as orc location '{outside}/orders' tblproperties "
            "('transactional'='false')"
        ),
        "alter table {db}.sales set location '{outside}/orders'",
        "truncate table {db}.sales",
    ),
    "moved partition": (
        *EMPTY,
        "alter table {db}.sales add partition (dt='c') location '{outside}/c'",
        "alter table {db}.sales partition (dt='a') set location '{outside}/c'",
        "truncate table {db}.sales partition (dt='a')",
    ),
}


@pytest.mark.parametrize("is_based", [True, False], ids=["external base", "no base"])
@pytest.mark.parametrize("lag", [True, False], ids=["with lag", "at once"])
@pytest.mark.parametrize("history", HISTORIES)
def test_what_has_no_file_is_truncated_on_the_target_as_well(  # noqa: PLR0913 - fixtures
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    source_sql: Session,
    target_sql: Session,
    database: str,
    history: str,
    lag: bool,
    is_based: bool,
) -> None:
    base = str(parse_location(f"{target.external}/base_{database}")) if is_based else None
    replica = build_replica(
        source.metastore,
        target.metastore,
        db=database,
        roots=[source.warehouse, source.external, source.cmroot],
        external_base=base,
    )
    with closing(replica.projection):
        outside = parse_location(f"{source.external}/outside_{database}")
        create_source(source_sql, database)
        for statement in HISTORIES[history]:
            source_sql.run(statement.format(db=database, outside=outside))
            if not lag:
                replica.follow()
        replica.follow()
        check_equal(replica, source_sql, target_sql)


@pytest.mark.parametrize("kind", [ACID, PLAIN], ids=["transactional", "plain"])
@pytest.mark.parametrize("partition", ["", " partition (dt='a')"], ids=["table", "partition"])
def test_what_lost_its_directory_on_the_target_is_truncated(
    source_sql: Session, target_sql: Session, replica: Replica, kind: str, partition: str
) -> None:
    db = replica.policy.source_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.single (id int) {kind}")
    source_sql.run(f"create table {db}.sales (id int) partitioned by (dt string) {kind}")
    source_sql.run(f"insert into {db}.single values (1)")
    source_sql.run(f"insert into {db}.sales values (1,'a'),(2,'b')")
    replica.follow()
    for table in ("single", "sales") if not partition else ("sales",):
        place = parse_location(replica.context.table_cache.location(table, "dt=a" if partition else ""))
        replica.files.of(place).remove_tree(place)
        source_sql.run(f"truncate table {db}.{table}{partition}")
    replica.follow()
    source_sql.run(f"insert into {db}.sales values (3,'a')")
    replica.follow()
    check_equal(replica, source_sql, target_sql)
