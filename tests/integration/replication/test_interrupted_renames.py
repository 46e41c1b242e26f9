"""Renames during which the target's metastore is killed after it has moved the directory, before its database
commits."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.files.paths import parse_location
from handlers.metastore.client import Metastore
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.small_workload import ACID, PLAIN, create_source
from tests.builders.replication.stepped_loads import SteppedLoads
from tests.builders.replication.verification import check_equal


@pytest.mark.parametrize("kind", [ACID, PLAIN], ids=["transactional", "plain"])
def test_a_rename_of_which_only_the_directory_was_moved_is_completed(
    source_sql: Session, target_sql: Session, replica: Replica, kind: str
) -> None:
    """The metastore refuses to repeat such a rename, because the new directory exists."""
    db = replica.policy.source_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.sales (id int) partitioned by (dt string) {kind}")
    source_sql.run(f"insert into {db}.sales values (1,'a'),(2,'[1]')")
    replica.follow()
    source_sql.run(f"alter table {db}.sales rename to {db}.orders")
    place = Path(parse_location(replica.context.table_cache.location("sales")).path)
    place.rename(place.with_name("orders"))
    replica.follow()
    assert find_write_ids(replica.target, replica.policy.target_db) == find_write_ids(replica.source, db)
    source_sql.run(f"insert into {db}.orders values (3,'a'),(4,'c')")
    source_sql.run(f"create table {db}.sales (id int) partitioned by (dt string) {kind}")
    source_sql.run(f"insert into {db}.sales values (5,'a')")
    replica.follow()
    check_equal(replica, source_sql, target_sql)


@pytest.mark.parametrize("kind", [ACID, PLAIN], ids=["transactional", "plain"])
def test_a_rename_of_which_the_files_were_copied_in_part_is_repeated(
    source_sql: Session, target_sql: Session, replica: Replica, kind: str
) -> None:
    """An object store copies a directory object by object, and removes the originals after that."""
    db = replica.policy.source_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.sales (id int) partitioned by (dt string) {kind}")
    source_sql.run(f"insert into {db}.sales values (1,'a'),(2,'b')")
    replica.follow()
    source_sql.run(f"alter table {db}.sales rename to {db}.orders")
    place = Path(parse_location(replica.context.table_cache.location("sales")).path)
    shutil.copytree(place / "dt=a", place.with_name("orders") / "dt=a")
    replica.follow()
    source_sql.run(f"insert into {db}.orders values (3,'a'),(4,'c')")
    replica.follow()
    check_equal(replica, source_sql, target_sql)


@pytest.mark.parametrize("kind", [ACID, PLAIN], ids=["transactional", "plain"])
def test_a_rename_of_a_partition_of_which_the_files_were_copied_in_part_is_repeated(
    source_sql: Session, target_sql: Session, replica: Replica, kind: str
) -> None:
    db = replica.policy.source_db
    create_source(source_sql, db)
    source_sql.run(
        f"create table {db}.sales (id int) partitioned by (dt string) clustered by (id) into 2 buckets {kind}"
    )
    source_sql.run(f"insert into {db}.sales values (1,'a'),(2,'a'),(3,'a'),(4,'a'),(5,'b')")
    replica.follow()
    source_sql.run(f"alter table {db}.sales partition (dt='a') rename to partition (dt='c')")
    place = Path(parse_location(replica.context.table_cache.location("sales", "dt=a")).path)
    shutil.copytree(place, place.with_name("dt=c"))
    min(path for path in place.with_name("dt=c").rglob("*0000*") if path.is_file()).unlink()
    replica.follow()
    source_sql.run(f"insert into {db}.sales values (6,'c')")
    replica.follow()
    check_equal(replica, source_sql, target_sql)


def test_a_plain_table_whose_files_were_moved_in_part_gets_them_from_the_source(
    source_sql: Session, target_sql: Session, replica: Replica
) -> None:
    move_one_of_two_partitions(source_sql, replica, PLAIN)
    replica.follow()
    check_equal(replica, source_sql, target_sql)


def test_a_transactional_table_whose_files_were_moved_in_part_is_loaded_when_it_is_released(
    source_sql: Session, target_sql: Session, replica: Replica
) -> None:
    move_one_of_two_partitions(source_sql, replica, ACID)
    replica.follow()
    assert replica.quarantined() == {"orders": "invalid-request", "sales": "invalid-request"}
    for table in ("sales", "orders"):
        replica.projection.loads.release(table, lambda after, upto: replica.events(after, upto=upto))
    SteppedLoads(replica).finish()
    replica.follow()
    assert replica.quarantined() == {}
    check_equal(replica, source_sql, target_sql)


def move_one_of_two_partitions(sql: Session, replica: Replica, kind: str) -> None:
    """Rename a table at the source, and leave the target as a metastore that was killed in the middle of the
    same rename."""
    db = replica.policy.source_db
    create_source(sql, db)
    sql.run(f"create table {db}.sales (id int) partitioned by (dt string) {kind}")
    sql.run(f"insert into {db}.sales values (1,'a'),(2,'b')")
    replica.follow()
    sql.run(f"alter table {db}.sales rename to {db}.orders")
    place = Path(parse_location(replica.context.table_cache.location("sales")).path)
    place.with_name("orders").mkdir()
    (place / "dt=a").rename(place.with_name("orders") / "dt=a")


def find_write_ids(metastore: Metastore, db: str) -> dict[str, int | None]:
    """Return the write ids of the partitions of ``orders``, by their directories."""
    found = metastore.get_partitions(db, "orders", metastore.partition_names(db, "orders"))
    return {(each.sd.location or "").rpartition("/")[2]: each.writeId for each in found}


def test_the_same_below_a_base(
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    source_sql: Session,
    target_sql: Session,
    database: str,
) -> None:
    made = build_replica(
        source.metastore,
        target.metastore,
        db=database,
        roots=[source.warehouse, source.external, source.cmroot],
        external_base=str(parse_location(f"{target.external}/base_{database}")),
    )
    with closing(made.projection):
        create_source(source_sql, database)
        source_sql.run(f"create table {database}.sales (id int) partitioned by (dt string) {PLAIN}")
        source_sql.run(f"insert into {database}.sales values (1,'a'),(2,'[1]')")
        made.follow()
        source_sql.run(f"alter table {database}.sales rename to {database}.orders")
        place = Path(parse_location(made.context.table_cache.location("sales")).path)
        default = made.target.get_database(made.policy.target_db).locationUri
        assert default is not None
        place.rename(Path(parse_location(default).path) / "orders")
        made.follow()
        check_equal(made, source_sql, target_sql)
