"""Replication between two clusters on HDFS: the whole workload, and files that only the change manager has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hdfs_native

from dev.demo.compare import Side, compare_databases
from dev.demo.workload import QUERIES, Step, steps
from dev.stack.errors import SqlFailed
from handlers.files.paths import parse_location
from tests.builders.replication.small_workload import ACID, create_source


if TYPE_CHECKING:
    from dev.stack.hive.sql_session import Session
    from dev.stack.servers.hdfs import Hdfs
    from tests.builders.replication.replica import Replica


def test_the_replica_of_the_whole_workload_equals_its_source(
    replica: Replica, source_sql: Session, target_sql: Session
) -> None:
    for step in steps(replica.policy.source_db):
        run(source_sql, step)
    replica.follow()
    assert replica.projection.quarantined() == ()
    assert differences(replica, source_sql, target_sql, QUERIES) == []
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


def run(session: Session, step: Step) -> None:
    for name, during, _ in step.settings:
        session.run(f"set {name}={during}")
    try:
        session.run(step.sql)
        assert not step.must_fail
    except SqlFailed:
        assert step.must_fail
    for name, _, after in step.settings:
        session.run(f"set {name}={after}")


def differences(replica: Replica, source: Session, target: Session, queries: dict[str, str]) -> list[str]:
    return compare_databases(
        Side(replica.source, source, replica.policy.source_db),
        Side(replica.target, target, replica.policy.target_db),
        queries,
    ).list_differences()
