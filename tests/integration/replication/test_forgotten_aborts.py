"""What an aborted transaction has left at the source, and readers see when Hive has forgotten the abort."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.errors import SqlFailed
from dev.stack.hive.sql_session import Session
from handlers.files.paths import parse_location
from tests.builders.daemon.killed_stack import wait_until
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.small_workload import ACID, create_source, remembers_abort, roll_back
from tests.builders.replication.verification import find_differences, verify


pytestmark = pytest.mark.long


@pytest.fixture
def load(
    source: ClusterEndpoints, target: ClusterEndpoints, database: str
) -> Iterator[Callable[[], Replica]]:
    """A function that makes a second replica, by loading what the source has now."""
    with ExitStack() as stack:

        def run() -> Replica:
            loaded = build_replica(
                source.metastore,
                target.metastore,
                db=database,
                target_db=f"{database}_loaded",
                roots=[source.warehouse, source.external, source.cmroot],
            )
            stack.callback(loaded.projection.close)
            loaded.follow()
            return loaded

        yield run


def test_a_replica_does_not_show_them_and_verify_reports_them_and_a_load_takes_them_over(
    source_sql: Session, target_sql: Session, database: str, replica: Replica, load: Callable[[], Replica]
) -> None:
    """Hive refuses the changed partitions for the ``=`` that the rename put into the directory,
    after their files are in place.

    The branch for new rows, which are none, has by then removed the only record that the transaction writes
    into the table.
    """
    table = f"{database}.`eq=al`"
    create_source(source_sql, database)
    source_sql.run(f"create table {database}.sales (id int, v string) partitioned by (dt string) {ACID}")
    source_sql.run(f"alter table {database}.sales rename to {table}")
    source_sql.run(f"insert into {table} partition (dt='a') values (1, 'old'), (2, 'old')")
    with pytest.raises(SqlFailed, match="Exception when loading"):
        source_sql.run(
            f"merge into {table} t using (select 9 as id) s on t.id % 2 = 1 when matched and t.id > 7 then "
            "delete "
            "when matched then update set v = 'new' when not matched then insert values (s.id, 'new', 'c')"
        )
    source_sql.run(f"insert into {table} partition (dt='b') values (3, 'old')")
    wait_until(lambda: not remembers_abort(replica.source, database, "eq=al"))
    replica.follow()
    assert read(source_sql, database) == ["1new", "2old", "3old"]
    assert read(target_sql, replica.policy.target_db) == ["1old", "2old", "3old"]
    (differing,) = find_differences(replica, "eq=al").values()
    assert {each.kind for each in differing} >= {"write-ids", "file"}
    loaded = load()
    assert find_differences(loaded, "eq=al") == {}
    assert read(target_sql, loaded.policy.target_db) == ["1new", "2old", "3old"]


def test_statistics_that_the_target_ignores_until_it_also_forgets_an_abort_are_not_compared(
    source_sql: Session, database: str, replica: Replica
) -> None:
    """The rename gives its write id to the partitions."""
    create_source(source_sql, database)
    source_sql.run(f"create table {database}.sales (id int) partitioned by (dt string) {ACID}")
    source_sql.run(f"insert into {database}.sales values (1, 'a'), (2, 'b')")
    replica.follow()
    roll_back(source_sql, f"alter table {database}.sales rename to {database}.orders")
    source_sql.run(f"create table {database}.newer (id int) {ACID}")
    source_sql.run(f"insert into {database}.newer values (1)")  # Hive forgets all but the newest transaction
    wait_until(lambda: not remembers_abort(replica.source, database, "orders"))
    replica.follow()
    while remembers_abort(replica.target, replica.policy.target_db, "orders"):
        assert find_differences(replica, "orders") == {}
    (result,) = verify(replica, "orders").values()
    assert (result.differences, result.not_compared) == ((), ())


def test_files_of_a_write_that_the_table_does_not_know_are_neither_copied_nor_compared(
    source_sql: Session, target_sql: Session, database: str, replica: Replica, load: Callable[[], Replica]
) -> None:
    """They lie where an insert leaves them whose table, a partitioned one of the same name, is renamed before
    it ends."""
    create_source(source_sql, database)
    source_sql.run(f"create table {database}.older (id int) partitioned by (dt string) {ACID}")
    source_sql.run(f"insert into {database}.older values (1, 'a')")
    source_sql.run(f"create table {database}.`eq=al` (id int, v string) {ACID}")
    source_sql.run(f"insert into {database}.`eq=al` values (2, 'own')")
    older, newer = (
        Path(parse_location(replica.source.get_table(database, name).sd.location or "").path)
        for name in ("older", "eq=al")
    )
    left = newer / "dt=a" / "delta_0000036_0000036_0000"
    shutil.copytree(older / "dt=a" / "delta_0000001_0000001_0000", left)
    replica.follow()
    assert read(source_sql, database) == read(target_sql, replica.policy.target_db) == ["2own"]
    assert find_differences(replica, "eq=al") == {}
    loaded = load()
    assert find_differences(loaded, "eq=al") == {}
    place = parse_location(loaded.context.table_cache.location("eq=al"))
    assert [each.name for each in loaded.files.of(place).list(place)] == ["delta_0000001_0000001_0000"]


def read(sql: Session, db: str) -> list[str]:
    return sorted(each for (each,) in sql.rows(f"select concat(id, v) from {db}.`eq=al`"))
