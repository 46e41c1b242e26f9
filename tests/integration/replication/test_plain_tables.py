"""Plain tables whose files are in sub-directories or move, and objects that a policy leaves out, on real
metastores."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from tests.builders.replication.replica import Replica, build_replica, files_below
from tests.builders.replication.small_workload import ACID, PLAIN, create_source
from tests.builders.replication.verification import verify


UNION_IN_SUB_DIRECTORIES = {
    "hive.optimize.union.remove": "true",
    "hive.mapred.supports.subdirectories": "true",
    "mapreduce.input.fileinputformat.input.dir.recursive": "true",
    "hive.merge.mapfiles": "false",
    "hive.merge.mapredfiles": "false",
    "hive.merge.tezfiles": "false",
    "hive.stats.autogather": "false",
    "hive.materializedview.rewriting": "false",
}
"""With these, each branch of a union writes files of the same names into a directory of its own."""


@dataclass(frozen=True)
class History:
    """A source database, and its part of the log."""

    db: str
    before: int
    last: int


@pytest.fixture(scope="module")
def history(source: ClusterEndpoints) -> History:
    db = f"plain_{uuid.uuid4().hex[:8]}"
    with Session.connect(source.sql) as sql, closing(Metastore([source.metastore])) as metastore:
        before = metastore.current_event_id()
        create_source(sql, db)
        sql.run(f"create table {db}.numbers (id int) {ACID}")
        sql.run(f"insert into {db}.numbers values (1),(2)")
        write_moves(sql, db, source.external)
        write_what_is_left_out(sql, db)
        write_unions(sql, db)
        return History(db, before, metastore.current_event_id())


def write_moves(sql: Session, db: str, external: str) -> None:
    sql.run(f"create table {db}.moved (id int) {PLAIN}")
    sql.run(f"insert into {db}.moved values (1)")
    sql.run(f"create table {db}.parts (id int) partitioned by (dt string) {PLAIN}")
    sql.run(f"insert into {db}.parts partition (dt='a') values (1)")
    sql.run(f"insert into {db}.parts partition (dt='b') values (2)")
    for number in range(3):
        sql.run(f"alter table {db}.parts add partition (dt='x{number}')")
    sql.run(f"alter table {db}.parts drop partition (dt >= 'x0')")
    sql.run(f"alter table {db}.moved set location 'file:{external}/{db}_elsewhere/moved'")
    sql.run(f"insert into {db}.moved values (10)")
    sql.run(f"alter table {db}.parts partition (dt='a') set location 'file:{external}/{db}_elsewhere/a'")
    sql.run(f"insert into {db}.parts partition (dt='a') values (20)")


def write_what_is_left_out(sql: Session, db: str) -> None:
    sql.run(
        f"create materialized view {db}.totals {ACID} as select id, count(*) c from {db}.numbers group by id"
    )
    sql.run(f"insert into {db}.numbers values (3)")
    sql.run(f"alter materialized view {db}.totals rebuild")
    sql.run(f"create table {db}.tmp_parent (id int, primary key (id) disable novalidate rely) {ACID}")
    sql.run(
        f"create table {db}.child (id int, parent int, constraint fk_{db} foreign key (parent) "
        f"references {db}.tmp_parent(id) disable novalidate rely) {ACID}"
    )
    sql.run(f"insert into {db}.child values (1,1)")


def write_unions(sql: Session, db: str) -> None:
    union = f"select id from {db}.numbers group by id union all select id + 10 from {db}.numbers group by id"
    sql.run(f"create table {db}.united (id int) {PLAIN}")
    sql.run(
        f"create table {db}.united_acid (id int) stored as orc "
        "tblproperties ('transactional'='true','transactional_properties'='insert_only')"
    )
    for name, value in UNION_IN_SUB_DIRECTORIES.items():
        sql.run(f"set {name}={value}")
    sql.run(f"insert overwrite table {db}.united {union}")
    sql.run(f"insert into {db}.united_acid {union}")


@pytest.fixture(scope="module", params=["default location", "external base"])
def replica(
    request: pytest.FixtureRequest, source: ClusterEndpoints, target: ClusterEndpoints, history: History
) -> Iterator[Replica]:
    base = f"file:{target.external}/base_{history.db}" if request.param == "external base" else None
    built = build_replica(
        source.metastore,
        target.metastore,
        db=history.db,
        target_db=f"{history.db}_{uuid.uuid4().hex[:6]}",
        roots=[source.warehouse, source.external, source.cmroot],
        start=history.before,
        exclude=("tmp_*",),
        external_base=base,
    )
    built.follow(upto=history.last)
    yield built
    built.projection.close()


def test_moved_and_nested_files_are_replicated_and_what_is_left_out_quarantines_nothing(
    replica: Replica, target_sql: Session
) -> None:
    db = replica.policy.target_db
    assert replica.quarantined() == {}
    assert sorted(replica.target.table_names(db)) == [
        "child",
        "moved",
        "numbers",
        "parts",
        "united",
        "united_acid",
    ]
    for table in ("united", "united_acid"):
        files = files_below(replica.target.get_table(db, table).sd.location or "")
        assert len(files) == 2, files
        assert all("HIVE_UNION_SUBDIR_" in path for path in files)
        target_sql.run("set mapreduce.input.fileinputformat.input.dir.recursive=true")
        rows = target_sql.rows(f"select id from {db}.{table} order by id")
        assert rows == [("1",), ("2",), ("3",), ("11",), ("12",), ("13",)]
    assert target_sql.rows(f"select id from {db}.moved") == [("10",)]
    assert target_sql.rows(f"select id, dt from {db}.parts order by id") == [("2", "b"), ("20", "a")]
    assert target_sql.rows(f"select * from {db}.child") == [("1", "1")]
    assert replica.target.constraint_names(db, "child") == set()
    verified = verify(replica, "moved", "parts", "united", "united_acid", "numbers")
    assert {name: result.differences for name, result in verified.items() if result.differences} == {}
    totals = replica.target.valid_write_ids([f"{db}.totals"])[0]
    assert totals.high_water_mark <= 1, "a rebuild allocates no write id"


def test_applying_the_events_of_plain_tables_once_more_changes_nothing(
    replica: Replica, history: History, target_sql: Session
) -> None:
    db = replica.policy.target_db
    before = files_below(replica.target.get_table(db, "united").sd.location or "")
    moved = replica.target.get_table(db, "moved").sd.location
    plain = [
        event
        for event in replica.events(history.before, upto=history.last)
        if event.table in {"moved", "parts", "united"}
        and event.kind in {"ALTER_TABLE", "ALTER_PARTITIONS", "INSERT"}
    ]
    for event in plain:
        replica.projection._replay._dispatcher.apply(event)
    assert replica.quarantined() == {}
    assert files_below(replica.target.get_table(db, "united").sd.location or "") == before
    assert replica.target.get_table(db, "moved").sd.location == moved
    assert target_sql.rows(f"select id from {db}.moved") == [("10",)]
