"""Drops whose files stay on the target:
a metastore logs a failed deletion and answers success, and one that is killed repeats none.

Hive drops a table or partition in its database first and removes the files after that
(``HMSHandler.drop_table_core``). A test therefore puts the files back after the drop.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dev.stack.hive.sql_session import Session
from handlers.files.paths import parse_location
from tests.builders.replication.replica import Replica
from tests.builders.replication.small_workload import ACID, INSERT_ONLY, PLAIN, create_source
from tests.builders.replication.verification import check_equal


KINDS = {"acid": ACID, "insert-only": INSERT_ONLY, "plain": PLAIN}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_a_new_table_does_not_show_the_files_of_a_dropped_one(
    source_sql: Session, target_sql: Session, replica: Replica, kind: str, tmp_path: Path
) -> None:
    db = replica.policy.source_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.t (id int) clustered by (id) into 2 buckets {kind}")
    source_sql.run(f"insert into {db}.t values (1), (2), (3), (4)")
    replica.follow()
    place = Path(parse_location(replica.context.table_cache.location("t")).path)
    shutil.copytree(place, tmp_path / "t")
    source_sql.run(f"drop table {db}.t")
    replica.follow()
    shutil.copytree(tmp_path / "t", place)
    source_sql.run(f"create table {db}.t (id int) {kind}")
    replica.follow()
    assert target_sql.rows(f"select * from {replica.policy.target_db}.t") == []
    source_sql.run(f"insert into {db}.t values (9)")
    replica.follow()
    check_equal(replica, source_sql, target_sql)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_a_new_partition_does_not_show_the_files_of_a_dropped_one(
    source_sql: Session, target_sql: Session, replica: Replica, kind: str, tmp_path: Path
) -> None:
    db = replica.policy.source_db
    create_source(source_sql, db)
    source_sql.run(
        f"create table {db}.t (id int) partitioned by (dt string) clustered by (id) into 2 buckets {kind}"
    )
    source_sql.run(f"insert into {db}.t values (1,'a'), (2,'a'), (3,'a'), (4,'a')")
    replica.follow()
    place = Path(parse_location(replica.context.table_cache.location("t", "dt=a")).path)
    shutil.copytree(place, tmp_path / "a")
    source_sql.run(f"alter table {db}.t drop partition (dt='a')")
    replica.follow()
    shutil.copytree(tmp_path / "a", place)
    source_sql.run(f"alter table {db}.t add partition (dt='a')")
    replica.follow()
    assert target_sql.rows(f"select * from {replica.policy.target_db}.t") == []
    source_sql.run(f"insert into {db}.t values (9,'a')")
    replica.follow()
    check_equal(replica, source_sql, target_sql)


def test_a_directory_that_another_table_uses_is_kept(
    source_sql: Session, target_sql: Session, replica: Replica
) -> None:
    """A table that was renamed before a failover may still be in the directory of its former name."""
    db = replica.policy.source_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.kept (id int) {ACID}")
    source_sql.run(f"insert into {db}.kept values (1), (2)")
    replica.follow()
    kept = replica.target.get_table(replica.policy.target_db, "kept")
    place = Path(parse_location(replica.context.table_cache.location("kept")).path)
    place.rename(place.with_name("t"))
    kept.sd.location = f"file:{place.with_name('t')}"
    replica.target.alter_table(replica.policy.target_db, "kept", kept)
    source_sql.run(f"create table {db}.t (id int) partitioned by (dt string) {ACID}")
    replica.follow()
    assert sorted(target_sql.rows(f"select id from {replica.policy.target_db}.kept")) == [("1",), ("2",)]
