"""Replication between two clusters on HDFS: the whole workload, and files that only the change manager
has."""

from __future__ import annotations

import hdfs_native

from dev.stack.hive.sql_session import Session
from dev.stack.servers.hdfs import Hdfs
from handlers.files.paths import parse_location
from tests.builders.replication.replica import Replica
from tests.builders.replication.small_workload import ACID, create_source
from tests.builders.replication.whole_workload import find_differences, write_workload


def test_the_replica_of_the_whole_workload_equals_its_source(
    replica: Replica, source_sql: Session, target_sql: Session
) -> None:
    write_workload(source_sql, replica.policy.source_db)
    replica.follow()
    assert replica.projection.quarantined() == ()
    assert find_differences(replica, source_sql, target_sql) == []
    counters = replica.context.copies.counters()
    assert counters.files > 0
    assert counters.mismatches == 0


def test_files_that_were_dropped_at_the_source_come_from_the_change_manager(
    replica: Replica, source_sql: Session, target_sql: Session
) -> None:
    db = replica.policy.source_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.t (id int) {ACID}")
    source_sql.run(f"insert into {db}.t values (1), (2)")
    upto = replica.source.current_event_id()
    source_sql.run(f"drop table {db}.t")
    replica.follow(upto=upto)
    assert replica.projection.quarantined() == ()
    assert target_sql.rows(f"select id from {db}_r.t order by id") == [("1",), ("2",)]
    assert replica.context.copies.counters().from_change_manager == 1
    replica.follow()
    assert replica.target.table_names(f"{db}_r") == []


def test_a_file_that_was_overwritten_at_the_source_is_not_copied(
    replica: Replica, hdfs: Hdfs, source_sql: Session
) -> None:
    db = replica.policy.source_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.t (id int) {ACID}")
    # No other test writes this row: the change manager may have an equal file of another table.
    source_sql.run(f"insert into {db}.t values (987654321)")
    table = replica.source.get_table(db, "t").sd.location or ""
    client = hdfs_native.Client(hdfs.uri)
    (file,) = [
        each.path
        for each in client.list_status(parse_location(table).path, recursive=True)
        if "/bucket_" in each.path
    ]
    with client.create(file, hdfs_native.WriteOptions(overwrite=True)) as stream:
        stream.write(b"x" * 100)
    replica.follow()
    assert replica.quarantined() == {"t": "file-lost"}
