"""Bucketed insert-only tables, of which Hive's write events lack the files of buckets without rows."""

from __future__ import annotations

from pathlib import Path

from dev.stack.hive.sql_session import Session
from handlers.files.paths import parse_location
from tests.builders.replication.replica import Replica
from tests.builders.replication.small_workload import create_source
from tests.builders.replication.verification import check_equal


INSERT_ONLY = "tblproperties ('transactional'='true', 'transactional_properties'='insert_only')"


def create(sql: Session, db: str, file_format: str) -> None:
    create_source(sql, db)
    sql.run(
        f"create table {db}.t (id int) partitioned by (dt string) clustered by (id) into 3 buckets "
        f"stored as {file_format} {INSERT_ONLY}"
    )


def find_buckets(replica: Replica, partition: str) -> list[str]:
    """Return the names of the files of a partition on the target."""
    place = Path(parse_location(replica.context.table_cache.location("t", partition)).path)
    return sorted(path.name for path in place.rglob("0*") if path.is_file())


def test_the_files_of_buckets_without_rows_are_copied(
    source_sql: Session, target_sql: Session, replica: Replica
) -> None:
    db = replica.policy.source_db
    create(source_sql, db, "parquet")
    source_sql.run(f"insert into {db}.t values (9,'a'),(8,'b')")
    source_sql.run(f"insert overwrite table {db}.t partition (dt) select 7, 'b'")
    replica.follow()
    check_equal(replica, source_sql, target_sql)
    assert find_buckets(replica, "dt=a") == ["000000_0", "000001_0", "000002_0"]


def test_no_file_of_another_table_of_the_same_name_is_copied(
    source_sql: Session, target_sql: Session, replica: Replica
) -> None:
    db = replica.policy.source_db
    create(source_sql, db, "textfile")
    source_sql.run(f"insert into {db}.t values (3,'a')")
    source_sql.run(f"alter table {db}.t rename to {db}.former")
    source_sql.run(f"create table {db}.t like {db}.former")
    source_sql.run(f"insert into {db}.t values (1,'a'),(2,'a'),(3,'a'),(4,'a')")
    replica.follow()
    assert replica.quarantined() == {}
    for name in ("t", "former"):
        rows = source_sql.rows(f"select id from {db}.{name} order by id")
        assert target_sql.rows(f"select id from {replica.policy.target_db}.{name} order by id") == rows != []
