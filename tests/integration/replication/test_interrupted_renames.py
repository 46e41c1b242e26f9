"""Renames during which the target's metastore is killed after it has moved the directory, before its database commits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from handlers.files.paths import parse_location
from tests.builders.replication.small_workload import ACID, create_source
from tests.builders.replication.verification import verify


if TYPE_CHECKING:
    from dev.stack.hive.sql_session import Session
    from tests.builders.replication.replica import Replica


def test_a_rename_of_a_transactional_table_of_which_only_the_directory_was_moved_is_completed(
    source_sql: Session, target_sql: Session, replica: Replica
) -> None:
    """The metastore refuses to repeat such a rename, because the new directory exists."""
    db, target_db = replica.policy.source_db, replica.policy.target_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.sales (id int) partitioned by (dt string) {ACID}")
    source_sql.run(f"insert into {db}.sales values (1,'a'),(2,'[1]')")
    replica.follow()
    source_sql.run(f"alter table {db}.sales rename to {db}.orders")
    place = Path(parse_location(replica.context.table_cache.location("sales")).path)
    place.rename(place.with_name("orders"))
    replica.follow()
    source_sql.run(f"insert into {db}.orders values (3,'a'),(4,'c')")
    source_sql.run(f"create table {db}.sales (id int) partitioned by (dt string) {ACID}")
    source_sql.run(f"insert into {db}.sales values (5,'a')")
    replica.follow()
    assert replica.quarantined() == {}
    for table in ("orders", "sales"):
        rows = [
            sorted(sql.rows(f"select * from {where}.{table}"))
            for sql, where in ((source_sql, db), (target_sql, target_db))
        ]
        assert rows[0] == rows[1]
    results = verify(replica, "orders", "sales")
    assert {table: each.differences for table, each in results.items() if each.differences} == {}
