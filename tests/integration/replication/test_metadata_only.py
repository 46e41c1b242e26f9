"""Tables of which only the metadata is replicated, on real metastores: by events, by loads, and when the
patterns change."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from tests.builders.replication.loads import load_waiting_tables
from tests.builders.replication.replica import Replica, build_replica, files_below
from tests.builders.replication.small_workload import ACID, PLAIN, create_source
from tests.builders.replication.verification import verify


@dataclass(frozen=True)
class Shop:
    """A source database with one table of each kind, and its part of the log."""

    db: str
    before: int
    last: int


@pytest.fixture(scope="module")
def shop(source: ClusterEndpoints) -> Shop:
    db = f"meta_{uuid.uuid4().hex[:8]}"
    with Session.connect(source.sql) as sql, closing(Metastore([source.metastore])) as metastore:
        before = metastore.current_event_id()
        create_source(sql, db)
        sql.run(f"create table {db}.whole (id int) {ACID}")
        sql.run(f"create table {db}.big (id int not null disable) partitioned by (dt string) {ACID}")
        sql.run(f"create table {db}.plain (id int) {PLAIN}")
        sql.run(
            f"from (select 1 id) s insert into {db}.whole select id "
            f"insert into {db}.big partition (dt='a') select id insert into {db}.plain select id"
        )
        sql.run(f"alter table {db}.big add columns (note string)")
        sql.run(f"alter table {db}.big add partition (dt='b')")
        sql.run(f"truncate table {db}.plain")
        sql.run(f"insert into {db}.plain values (2)")
        return Shop(db, before, metastore.current_event_id())


@pytest.fixture
def build(source: ClusterEndpoints, target: ClusterEndpoints, shop: Shop) -> Iterator[Any]:
    """A function that returns a replica of the shop under a name of its own."""
    made: list[Replica] = []

    def build_one(name: str, **options: Any) -> Replica:
        replica = build_replica(
            source.metastore,
            target.metastore,
            db=shop.db,
            target_db=f"{shop.db}_{name}",
            roots=[source.warehouse, source.external, source.cmroot],
            **options,
        )
        made.append(replica)
        return replica

    yield build_one
    for replica in made:
        replica.projection.close()


def require_metadata_only(replica: Replica, sql: Session, *tables: str) -> None:
    """Assert that the tables have no rows, files, write ids or statistics, and are otherwise those of the
    source."""
    db = replica.policy.target_db
    for name in tables:
        table = replica.target.get_table(db, name)
        assert files_below(table.sd.location or "") == {}
        assert not {"numRows", "COLUMN_STATS_ACCURATE"} & set(table.parameters or {})
        assert sql.rows(f"select * from {db}.{name}") == []
        assert replica.target.highest_write_id(db, name) == 0
    results = verify(replica, *tables)
    assert {name: result.differences for name, result in results.items() if result.differences} == {}
    assert {result.outcome.value for result in results.values()} == {"equal"}


def test_definitions_and_partitions_are_replicated_without_rows_beside_tables_with_rows(
    build: Any, shop: Shop, target_sql: Session
) -> None:
    replica = build("events", start=shop.before, metadata_only=("big*", "plain"))
    replica.follow(upto=shop.last)
    assert replica.quarantined() == {}
    require_metadata_only(replica, target_sql, "big", "plain")
    db = replica.policy.target_db
    assert replica.target.partition_names(db, "big") == ["dt=a", "dt=b"]
    assert target_sql.rows(f"select id from {db}.whole") == [("1",)], "of the same transaction"
    assert len(replica.context.tables.write_ids.open_txns()) == 0


def test_a_change_of_the_patterns_loads_the_tables_with_or_without_rows(
    build: Any, shop: Shop, target_sql: Session
) -> None:
    first = build("patterns", start=shop.before, metadata_only=("*",))
    first.follow(upto=shop.last)
    require_metadata_only(first, target_sql, "big", "plain", "whole")
    db = first.policy.target_db
    with_rows = build("patterns", start=False, store=first.store, metadata_only=("plain",))
    with_rows.projection.open()
    assert load_waiting_tables(with_rows) == ["big", "whole"]
    assert target_sql.rows(f"select id, dt from {db}.big") == [("1", "a")]
    assert target_sql.rows(f"select id from {db}.whole") == [("1",)]
    require_metadata_only(with_rows, target_sql, "plain")
    without = build("patterns", start=False, store=first.store, metadata_only=("big", "plain"))
    without.projection.open()
    assert load_waiting_tables(without) == ["big"]
    require_metadata_only(without, target_sql, "big")
    assert target_sql.rows(f"select id from {db}.whole") == [("1",)]
