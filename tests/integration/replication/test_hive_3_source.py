"""Transactional tables of a Hive 3.1 source with a target of Hive 4.2, through the relay's own encoder."""

from __future__ import annotations

from contextlib import closing

import pytest

from dev.fixtures.writing_client import WritingMetastore
from dev.stack.hive.sql_session import Session
from handlers.events import FilesWritten
from handlers.files.listing import list_write
from handlers.files.systems.schemes import open_file_systems
from tests.builders.components.hive_3 import compact, stream
from tests.builders.replication.hive_3_source import ACID, INSERT_ONLY, PLAIN, Hive3Source
from tests.builders.replication.small_workload import roll_back
from tests.builders.replication.stepped_loads import SteppedLoads


pytestmark = [pytest.mark.old_hive, pytest.mark.long]


def test_a_compaction_that_is_named_after_an_aborted_write_is_loaded(
    old: Hive3Source, target_sql: Session
) -> None:
    old.run(f"create table {{db}}.t (k int, v string) {ACID}", "insert into {db}.t values (1, 'a'), (2, 'b')")
    roll_back(old.sql, f"insert into {old.db}.t values (666, 'aborted')")
    compact(old.metastore, old.db, "t")
    assert [path.name for path in old.location("t").iterdir() if path.is_dir()] == ["base_0000002"]
    old.assert_equal(old.load(), target_sql, "t")


def test_a_write_whose_files_a_compaction_has_merged_is_not_listed_as_one_without_files(
    old: Hive3Source,
) -> None:
    old.run(f"create table {{db}}.t (k int, v string) {ACID}", "insert into {db}.t values (1, 'a')")
    roll_back(old.sql, f"insert into {old.db}.t values (666, 'aborted')")
    compact(old.metastore, old.db, "t")
    listing = list_write(open_file_systems(), f"file:{old.location('t')}", 1)
    assert listing.files == ()
    assert not listing.conclusive


def test_a_compaction_is_not_listed_as_the_files_of_the_write_that_it_is_named_after(
    old: Hive3Source,
) -> None:
    old.run(
        f"create table {{db}}.t (k int, v string) {ACID}",
        "insert into {db}.t values (1, 'a')",
        "insert into {db}.t values (2, 'b')",
    )
    compact(old.metastore, old.db, "t")
    listing = list_write(open_file_systems(), f"file:{old.location('t')}", 2)
    assert listing.files == (), "the base also has the rows of write 1"


def test_writes_are_replayed(old: Hive3Source, target_sql: Session) -> None:
    old.run(
        f"create table {{db}}.t (k int, v string) {ACID}",
        f"create table {{db}}.p (k int, v string) partitioned by (dt string) {ACID}",
        "insert into {db}.t values (1, 'a'), (2, 'b'), (3, 'c')",
        "insert into {db}.p partition (dt = 'new') values (1, 'a')",
        "insert into {db}.p partition (dt = 'new') values (2, 'b')",
        "insert into {db}.p partition (dt) select k, v, concat('d', k) from {db}.t",
        "update {db}.t set v = 'u' where k = 1",
        "delete from {db}.p where k = 2",
        "insert overwrite table {db}.t select k, v from {db}.t where k < 3",
    )
    old.assert_equal(old.replay(), target_sql, "t", "p")


def test_insert_only_tables_are_replayed_without_a_table_for_hives_second_allocation(
    old: Hive3Source, target_sql: Session
) -> None:
    """CREATE TABLE AS SELECT also allocates a write id of the table "db.table", which does not exist."""
    old.run(
        f"create table {{db}}.lines {INSERT_ONLY} as select 1 as k",
        "insert into {db}.lines values (2)",
        "insert overwrite table {db}.lines select k + 1 from {db}.lines",
        relay=True,
    )
    replica = old.replay()
    with closing(replica.projection):
        assert replica.quarantined() == {}
        found = target_sql.rows(f"select * from {replica.policy.target_db}.lines")
        assert sorted(found) == sorted(old.sql.rows(f"select * from {old.db}.lines"))


def test_the_second_allocation_for_an_insert_only_table_makes_no_table(old: Hive3Source) -> None:
    old.run(f"create table {{db}}.lines {INSERT_ONLY} as select 1 as k")
    replica = old.replay()
    with closing(replica.projection):
        assert set(replica.quarantined()) <= {"lines"}
        assert replica.target.table_names(replica.policy.target_db) == ["lines"]


def test_a_write_and_a_truncation_are_replayed(old: Hive3Source, target_sql: Session) -> None:
    create = f"create table {{db}}.t (k int, v string) {ACID}"
    old.run(create, "insert into {db}.t values (1, 'a')", "truncate table {db}.t")
    old.assert_equal(old.replay(), target_sql, "t")


def test_a_table_that_becomes_transactional_is_replicated(old: Hive3Source, target_sql: Session) -> None:
    """Write ids begin at 10,000,001; the files from before are originals."""
    old.run(
        f"create table {{db}}.t (k int, v string) {PLAIN}",
        "insert into {db}.t values (1, 'plain')",
        "alter table {db}.t set tblproperties ('transactional'='true')",
        "insert into {db}.t values (2, 'acid')",
    )
    replica = old.replay()
    SteppedLoads(replica).finish()
    old.assert_equal(replica, target_sql, "t")


def test_writes_that_a_compaction_has_replaced_before_they_are_relayed_come_from_the_change_manager(
    old: Hive3Source, target_sql: Session
) -> None:
    old.run(
        f"create table {{db}}.t (k int, v string) {ACID}",
        "insert into {db}.t values (1, 'a'), (2, 'b')",
        "insert into {db}.t values (3, 'c')",
        "delete from {db}.t where k = 2",
    )
    compact(old.metastore, old.db, "t")
    assert [path.name for path in old.location("t").iterdir() if path.is_dir()] == ["base_0000003"]
    old.assert_equal(old.replay(), target_sql, "t")


def test_streams_into_an_existing_partition_are_replicated_although_no_event_names_it(
    old: Hive3Source, target_sql: Session
) -> None:
    old.run(
        "create table {db}.s (k int, v string) partitioned by (dt string) "
        f"clustered by (k) into 1 buckets {ACID}",
        "insert into {db}.s partition (dt = 'old') values (1, 'x')",
    )
    stream(old.cluster, old.db, "s", ["2,s,old", "3,s,new"])
    old.assert_equal(old.replay(), target_sql, "s")


def test_files_of_another_engine_in_a_partition_outside_of_its_table_are_replicated(
    old: Hive3Source, target_sql: Session
) -> None:
    """As Impala writes into insert-only tables, without any event between allocation and commit."""
    far = old.cluster.metastore.layout.external / f"{old.db}-far"
    old.run(
        "create table {db}.i (k int) partitioned by (dt string) stored as textfile "
        + INSERT_ONLY.removeprefix("stored as orc "),
        "alter table {db}.i add partition (dt = 'far')",
        f"alter table {{db}}.i partition (dt = 'far') set location 'file:{far}'",
    )
    with WritingMetastore(old.cluster.metastore.uri) as client:
        (txn,) = client.open_txns(1)
        client.allocate_write_ids(old.db, "i", [txn])
        delta = far / "delta_0000001_0000001_0000"
        delta.mkdir(parents=True)
        (delta / "000000_0").write_text("5\n6\n")
        client.commit_txn(txn)
    replica = old.replay()
    events = old.events(old.start, old.metastore.current_event_id())
    (write,) = [event for event in events if isinstance(event, FilesWritten)]
    assert [file.uri for file in write.files] == [f"file:{delta}/000000_0"]
    assert write.incomplete is None
    SteppedLoads(replica, old.events).finish()  # the partition was moved
    rows = target_sql.rows(f"select k from {replica.policy.target_db}.i where dt = 'far' order by k")
    assert rows == [("5",), ("6",)]
    old.assert_equal(replica, target_sql, "i")
