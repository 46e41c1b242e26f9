"""Transactional tables whose rows come with their files instead of by a write event: restored backups, and
directories that are shown later."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.files.paths import parse_location
from handlers.metastore.client import Metastore
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.small_workload import ACID, INSERT_ONLY, PLAIN, create_source
from tests.builders.replication.stepped_loads import SteppedLoads
from tests.builders.replication.verification import check_equal


@pytest.fixture
def follower(source: ClusterEndpoints, target: ClusterEndpoints, database: str) -> Iterator[Replica]:
    """A replica of a database that does not exist yet, and whose creation it replays."""
    with closing(Metastore([source.metastore])) as metastore:
        before = metastore.current_event_id()
    roots = [source.warehouse, source.external, source.cmroot]
    replica = build_replica(source.metastore, target.metastore, db=database, roots=roots, start=before)
    with closing(replica.projection):
        yield replica


def directory(replica: Replica, table: str) -> Path:
    table_object = replica.source.get_table(replica.policy.source_db, table)
    return Path(parse_location(table_object.sd.location or "").path)


def loaded(replica: Replica) -> list[str]:
    """Follow the source, finish the loads that replay requests, and return their tables."""
    replica.follow()
    assert replica.quarantined() == {}
    tables = sorted(load.table for load in replica.context.tables.loads.waiting())
    SteppedLoads(replica).finish()
    return tables


@pytest.mark.parametrize(
    "kind", [ACID, pytest.param(INSERT_ONLY, marks=pytest.mark.long)], ids=["acid", "insert_only"]
)
def test_partitions_that_come_with_their_files_are_loaded_with_their_write_ids(
    follower: Replica, source_sql: Session, target_sql: Session, kind: str
) -> None:
    """A backup that is restored by a copy and MSCK REPAIR, into a new table and beside rows; ADD PARTITION;
    and later inserts."""
    db = follower.policy.source_db
    create_source(source_sql, db)
    for table in ("backed_up", "restored", "filled"):
        source_sql.run(f"create table {db}.{table} (id int) partitioned by (dt string) {kind}")
    for day in "ab":
        source_sql.run(f"insert into {db}.backed_up partition (dt='{day}') values (1)")
    source_sql.run(f"insert into {db}.filled partition (dt='z') values (2)")
    backup = directory(follower, "backed_up")
    for day in "ab":
        shutil.copytree(backup / f"dt={day}", directory(follower, "restored") / f"dt={day}")
    source_sql.run(f"msck repair table {db}.restored")
    shutil.copytree(backup / "dt=a", directory(follower, "filled") / "dt=a")
    source_sql.run(f"alter table {db}.filled add partition (dt='a')")
    assert loaded(follower) == ["filled", "restored"]
    assert len(target_sql.rows(f"select * from {follower.policy.target_db}.restored")) == 2
    source_sql.run(f"insert into {db}.restored partition (dt='b') values (3)")
    source_sql.run(f"insert into {db}.restored partition (dt='c') values (4)")
    source_sql.run(f"alter table {db}.filled add partition (dt='empty')")
    assert loaded(follower) == [], "rows with write events are replayed"
    shutil.copytree(backup / "dt=b", directory(follower, "filled") / "dt=b")
    source_sql.run(f"msck repair table {db}.filled")
    source_sql.run(f"insert into {db}.filled partition (dt='b') values (5)")
    assert loaded(follower) == ["filled"]
    check_equal(follower, source_sql, target_sql)


@pytest.mark.long
def test_tables_that_show_files_of_other_tables_are_loaded(
    follower: Replica, source_sql: Session, target_sql: Session
) -> None:
    """CREATE TABLE over files, conversions and SET LOCATION. Hive allows these in a database that is not
    marked as replicated."""
    db = follower.policy.source_db
    source_sql.run(f"create database {db}")  # a policy that follows it marks it
    for table in ("plain", "converted"):
        source_sql.run(f"create table {db}.{table} (id int) {PLAIN}")
        source_sql.run(f"insert into {db}.{table} values (1)")
    for table in ("parts", "other"):
        source_sql.run(f"create table {db}.{table} (id int) partitioned by (dt string) {ACID}")
        source_sql.run(f"insert into {db}.{table} partition (dt='a') values (2)")
    shutil.copytree(directory(follower, "plain"), directory(follower, "parts").parent / "created")
    source_sql.run(f"create table {db}.created (id int) {ACID}")
    source_sql.run(f"alter table {db}.converted set tblproperties ('EXTERNAL'='FALSE')")
    source_sql.run(f"alter table {db}.converted set tblproperties ('transactional'='true')")
    source_sql.run(f"insert into {db}.converted values (3)")
    place = f"file:{directory(follower, 'other')}/dt=a"
    source_sql.run(f"alter table {db}.parts partition (dt='a') set location '{place}'")
    assert loaded(follower) == ["converted", "created", "parts"]
    check_equal(follower, source_sql, target_sql)
    assert target_sql.rows(f"select * from {follower.policy.target_db}.created") == [("1",)]
