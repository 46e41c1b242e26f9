"""Changes of transactional tables by Hive 3.1 that have no write id: truncations, drops and renames,
conversions, statistics, and transactions that time out without an event."""

from __future__ import annotations

from contextlib import closing

import pytest

from dev.stack.hive.sql_session import Session
from handlers.replication.target.objects import ACCURATE
from handlers.structs.objects import Partition, Table
from tests.builders.replication.hive_3_source import ACID, INSERT_ONLY, PLAIN, Hive3Source
from tests.builders.replication.replica import Replica
from tests.builders.replication.stepped_loads import SteppedLoads


pytestmark = [pytest.mark.old_hive, pytest.mark.long]

PARTITIONED = f"create table {{db}}.p (k int, v string) partitioned by (dt string) {ACID}"


@pytest.fixture
def tables(old: Hive3Source) -> Hive3Source:
    """A full-ACID table, one with three partitions, and an insert-only one, each with several writes."""
    old.run(
        f"create table {{db}}.t (k int, v string) {ACID}",
        PARTITIONED,
        f"create table {{db}}.lines (k int) {INSERT_ONLY}",
        "insert into {db}.t values (1, 'a'), (2, 'b'), (3, 'c')",
        "update {db}.t set v = 'u' where k = 1",
        "delete from {db}.t where k = 2",
        "insert into {db}.p partition (dt) values (1, 'a', 'a'), (2, 'b', 'b'), (3, 'c', 'c')",
        "delete from {db}.p where k = 3",
        "insert into {db}.lines values (1), (2)",
    )
    return old


def load(old: Hive3Source) -> Replica:
    """Return a replica whose tables are loaded."""
    replica = old.load()
    SteppedLoads(replica).finish()
    return replica


def read_counts(sql: Session, db: str) -> dict[str, str]:
    """Return the number of rows of each table; Hive answers from the statistics if they are marked."""
    names = [name for (name,) in sql.rows(f"show tables in {db}")]
    return {name: sql.rows(f"select count(*) from {db}.{name}")[0][0] for name in names}


def list_marked(replica: Replica) -> list[Table | Partition]:
    """Return the tables and partitions of the target with a mark of accurate statistics."""
    db = replica.policy.target_db
    items: list[Table | Partition] = []
    for name in replica.target.table_names(db):
        items.append(table := replica.target.get_table(db, name))
        if table.partitionKeys:
            names = replica.target.partition_names(db, name)
            items += replica.target.get_partitions(db, name, names)
    return [item for item in items if ACCURATE in (item.parameters or {})]


def test_truncations_remove_the_same_rows_of_the_target_without_a_load(
    tables: Hive3Source, target_sql: Session
) -> None:
    replica = load(tables)
    tables.run(
        "truncate table {db}.t",
        "truncate table {db}.p partition (dt = 'a')",
        "truncate table {db}.lines",
    )
    replica.follow()
    assert not replica.context.tables.loads.waiting()
    assert list_marked(replica) == []
    assert read_counts(target_sql, replica.policy.target_db) == {"t": "0", "p": "1", "lines": "0"}
    tables.assert_equal(replica, target_sql, "t", "p")


def test_a_table_without_write_ids_that_is_truncated_is_loaded(old: Hive3Source, target_sql: Session) -> None:
    old.run(f"create table {{db}}.t (k int, v string) {ACID}")
    replica = load(old)
    old.run("truncate table {db}.t")
    replica.follow()
    assert [each.table for each in replica.context.tables.loads.waiting()] == ["t"]
    SteppedLoads(replica).finish()
    old.assert_equal(replica, target_sql, "t")


def test_dropped_and_renamed_partitions_and_tables_are_followed(
    tables: Hive3Source, target_sql: Session
) -> None:
    replica = load(tables)
    tables.run(
        "alter table {db}.p drop partition (dt = 'a')",
        "alter table {db}.p partition (dt = 'b') rename to partition (dt = 'z')",
        "alter table {db}.p add partition (dt = 'empty')",
        "alter table {db}.t add columns (note string)",
        "alter table {db}.t rename to {db}.renamed",
        "alter table {db}.p rename to {db}.parts",
        "alter table {db}.renamed set tblproperties ('owner.team'='shop')",
    )
    replica.follow()
    assert not replica.context.tables.loads.waiting()
    names = replica.target.partition_names(replica.policy.target_db, "parts")
    assert sorted(names) == ["dt=c", "dt=empty", "dt=z"]
    tables.assert_equal(replica, target_sql, "renamed", "parts")


def test_statistics_are_followed_without_the_mark_that_hive_4_would_trust(
    tables: Hive3Source, target_sql: Session
) -> None:
    tables.run("analyze table {db}.t compute statistics for columns")
    replica = load(tables)
    assert list_marked(replica) == []
    tables.run(
        "analyze table {db}.t compute statistics",
        "analyze table {db}.p partition (dt) compute statistics",
        "analyze table {db}.t compute statistics for columns",
        "create table {db}.n (k int) " + ACID,
        "alter table {db}.p add partition (dt = 'new')",
    )
    replica.follow()
    assert list_marked(replica) == []
    db = replica.policy.target_db
    ours, theirs = tables.metastore.get_table(tables.db, "t"), replica.target.get_table(db, "t")
    assert (theirs.parameters or {})["numRows"] == (ours.parameters or {})["numRows"]
    assert read_counts(target_sql, db) == {"t": "2", "p": "2", "lines": "2", "n": "0"}
    tables.assert_equal(replica, target_sql, "t", "p", "n")


@pytest.mark.parametrize("kind", ["default", "insert_only"])
def test_a_plain_table_that_becomes_transactional_is_loaded(
    old: Hive3Source, target_sql: Session, kind: str
) -> None:
    """A full-ACID table keeps its files, and its write ids begin at 10,000,001; those of an insert-only one
    are moved into the directory of its first write."""
    old.run(
        f"create table {{db}}.t (k int, v string) {PLAIN}",
        f"create table {{db}}.p (k int, v string) partitioned by (dt string) {PLAIN}",
        "insert into {db}.t values (1, 'plain')",
        "insert into {db}.p partition (dt) values (1, 'a', 'a'), (2, 'b', 'b')",
    )
    replica = load(old)
    transactional = f"set tblproperties ('transactional'='true', 'transactional_properties'='{kind}')"
    old.run(f"alter table {{db}}.t {transactional}", f"alter table {{db}}.p {transactional}")
    old.run("insert into {db}.t values (2, 'transactional')", "truncate table {db}.p partition (dt = 'a')")
    replica.follow()
    SteppedLoads(replica).finish()
    if kind == "default":
        old.assert_equal(replica, target_sql, "t", "p")
    with closing(replica.projection):
        db = replica.policy.target_db
        assert replica.quarantined() == {}
        for name in ("t", "p"):
            query = "select * from {}." + name
            assert sorted(target_sql.rows(query.format(db))) == sorted(old.sql.rows(query.format(old.db)))
