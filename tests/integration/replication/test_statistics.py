"""Statistics are equal on both sides after each kind of event that changes them, on real metastores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final

import pytest

from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from handlers.replication.policy.policy import Policy
from handlers.replication.target.objects import ACCURATE, KEEP_STATISTICS, build_statistics
from handlers.replication.verification.findings import TableResult
from handlers.structs.objects import Partition, Table
from state.errors import InvalidRequest
from tests.builders.replication.replica import Replica
from tests.builders.replication.small_workload import ACID, PLAIN, create_source, roll_back
from tests.builders.replication.verification import find_differences, verify


TABLES: Final = ("orders", "visits", "plain", "archive")
COLUMNS: Final = ["id", "item"]
Step = tuple[str, "Callable[[], object]"]


def steps(sql: Session, source: Metastore, db: str) -> Iterator[Step]:
    """Yield the steps with their names; each changes statistics by other events."""
    statements = {
        "insert into an ACID table": f"insert into {db}.orders values (1,'pen'),(2,'ink')",
        "update": f"update {db}.orders set item = 'INK' where id = 2",
        "insert into a new ACID partition": (
            f"insert into {db}.visits partition (dt='a') values (1,'x'),(2,'y')"
        ),
        "insert into a plain table": f"insert into {db}.plain values (1,'one'),(2,'two')",
        "insert into a new plain partition": f"insert into {db}.archive partition (dt='a') values (1,'x')",
        "analyze": f"analyze table {db}.orders compute statistics for columns",
        "add a column": f"alter table {db}.orders add columns (note string)",
        "truncate": f"truncate table {db}.visits partition (dt='a')",
    }
    for name, statement in statements.items():
        yield name, lambda statement=statement: sql.run(statement)  # type: ignore[misc]
    yield "delete of a table's column", lambda: source.delete_table_statistics(db, "plain", "id")
    yield (
        "delete of a partition's column",
        lambda: source.delete_partition_statistics(db, "archive", "dt=a", "item"),
    )
    yield "statistics after their deletion", lambda: sql.run(f"insert into {db}.plain values (3,'six')")


@pytest.mark.long
def test_statistics_are_equal_after_each_kind_of_event_that_changes_them(
    source_sql: Session, replica: Replica
) -> None:
    db = replica.policy.source_db
    create_source(source_sql, db)
    for table, kind in (("orders", ACID), ("plain", PLAIN)):
        source_sql.run(f"create table {db}.{table} (id int, item string) {kind}")
    for table, kind in (("visits", ACID), ("archive", PLAIN)):
        source_sql.run(f"create table {db}.{table} (id int, item string) partitioned by (dt string) {kind}")
    wrong: dict[str, dict[str, TableResult]] = {}
    for name, run in steps(source_sql, replica.source, db):
        run()
        replica.follow()
        results = verify(replica, *TABLES)
        found = {
            table: result
            for table, result in results.items()
            if result.differences or "statistics" in dict(result.not_compared)
        }
        if found:
            wrong[name] = found
    assert wrong == {}
    assert replica.quarantined() == {}
    assert column_names(replica.target, replica.policy.target_db, "archive") == {"id"}
    with pytest.raises(InvalidRequest):  # so that no source logs a deletion for a transactional table
        replica.source.delete_table_statistics(db, "orders", "id")


def column_names(metastore: Metastore, db: str, table: str) -> set[str]:
    """Return the columns of the partition ``dt=a`` that have statistics."""
    found = metastore.partition_statistics(db, table, ["dt=a"], COLUMNS)
    return {each.colName for each in found.get("dt=a", [])}


def test_a_change_outside_of_a_transaction_keeps_the_marks_that_rolled_back_rows_took_on_the_target(
    source_sql: Session, target_sql: Session, replica: Replica
) -> None:
    """Otherwise Hive would refuse the change, or count the rows that were rolled back."""
    db, target_db = replica.policy.source_db, replica.policy.target_db
    create_source(source_sql, db)
    for table, keys in (("orders", ""), ("visits", "partitioned by (dt string) ")):
        source_sql.run(f"create table {db}.{table} (id int, item string) {keys}{ACID}")
    source_sql.run(f"insert into {db}.orders values (1,'pen')")
    source_sql.run(f"insert into {db}.visits values (1,'x','a')")
    roll_back(source_sql, f"insert into {db}.orders values (666,'never')")
    roll_back(source_sql, f"insert into {db}.visits values (666,'never','a')")
    source_sql.run(f"alter table {db}.orders set tblproperties ('note'='0')")
    alter_under(replica.source, db, None)
    alter_under(replica.source, db, 2)  # as clients do that send back what they have read
    replica.follow()
    assert replica.quarantined() == {}
    for table in ("orders", "visits"):
        assert target_sql.rows(f"select count(*) from {target_db}.{table}") == [("1",)]
    assert ("note", "2") in parameters(replica.target.get_table(target_db, "orders"))
    assert ("note", "2") in parameters(replica.target.get_partition(target_db, "visits", ["a"]))


def test_statistics_that_a_client_writes_after_its_transaction_was_aborted_are_not_used_on_the_target(
    source_sql: Session, target_sql: Session, source: ClusterEndpoints, replica: Replica
) -> None:
    """A client does so if its metastore was down until Hive aborted the transaction. The target forgets that,
    and would count lost rows."""
    check_rows_are_counted(
        source_sql,
        target_sql,
        replica,
        lambda table: count_after_abort(source, replica.policy.source_db, table),
    )


def check_rows_are_counted(
    source_sql: Session, target_sql: Session, replica: Replica, write: Callable[[str], None]
) -> None:
    """Create a table of each kind with one row, let ``write`` change the statistics of both, and require that
    the target counts one row."""
    db, target_db = replica.policy.source_db, replica.policy.target_db
    create_source(source_sql, db)
    for table, keys in (("orders", ""), ("visits", "partitioned by (dt string) ")):
        source_sql.run(f"create table {db}.{table} (id int, item string) {keys}{ACID}")
        source_sql.run(f"insert into {db}.{table} values (1,'pen'{keys and ', ' + repr('a')})")
        write(table)
    replica.follow()
    assert replica.quarantined() == {}
    for table in ("orders", "visits"):
        assert target_sql.rows(f"select count(*) from {target_db}.{table}") == [("1",)]
    assert find_differences(replica, "orders", "visits") == {}


def count_after_abort(source: ClusterEndpoints, db: str, name: str) -> None:
    """Write statistics with one more row of a table, or of its partition, under the write id of a transaction
    that is aborted before."""
    with closing(WritingMetastore([source.metastore])) as writer:
        txn_id, write_id = writer.open_write(db, name)
        writer.abort_txn(txn_id)
        policy, snapshot = Policy(name=db, source_db=db, target_db=db), f"{write_id}:{2**63 - 1}:"
        valid = f"{db}.{name}:{snapshot}:"
        if writer.get_table(db, name).partitionKeys:
            columns = writer.partition_statistics(db, name, ["dt=a"], COLUMNS)["dt=a"]
            written = build_statistics(policy, name, columns, "dt=a")
            update = writer.update_partition_statistics
        else:
            written = build_statistics(policy, name, writer.table_statistics(db, name, COLUMNS))
            update = writer.update_table_statistics
        alter_rows(writer, db, name, write_id, snapshot)
        update(written, write_id=write_id, valid_write_ids=valid)


def count_two(item: Table | Partition, write_id: int) -> None:
    item.parameters = {**(item.parameters or {}), "numRows": "2"}
    item.writeId = write_id


@pytest.mark.parametrize("has_seen_the_insert", [pytest.param(True, marks=pytest.mark.long), False])
def test_a_truncation_that_began_during_an_insert_removes_the_mark_on_both_sides(
    source_sql: Session, source: ClusterEndpoints, replica: Replica, *, has_seen_the_insert: bool
) -> None:
    """Its snapshot does not contain the statistics of the insert; Hive logs the truncation as if they were
    still accurate."""
    db, target_db = replica.policy.source_db, replica.policy.target_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.orders (id int, item string) {ACID}")
    source_sql.run(f"create table {db}.visits (id int, item string) partitioned by (dt string) {ACID}")
    source_sql.run(f"insert into {db}.orders values (1,'pen')")
    source_sql.run(f"insert into {db}.visits values (1,'x','a'),(2,'y','b')")
    open_ids = "" if has_seen_the_insert else "1"
    truncate_at(source, db, "orders", None, f"{db}.orders:2:{open_ids or 2**63 - 1}:{open_ids}:")
    truncate_at(source, db, "visits", ["dt=a"], f"{db}.visits:2:{open_ids or 2**63 - 1}:{open_ids}:")
    replica.follow()
    assert replica.quarantined() == {}
    for metastore, name in ((replica.source, db), (replica.target, target_db)):
        table, partition = metastore.get_table(name, "orders"), metastore.get_partition(name, "visits", ["a"])
        for each in (table, partition):
            assert (ACCURATE in (each.parameters or {})) == has_seen_the_insert
        assert ACCURATE in (metastore.get_partition(name, "visits", ["b"]).parameters or {})
    assert find_differences(replica, "orders", "visits") == {}


def truncate_at(
    source: ClusterEndpoints, db: str, table: str, partitions: list[str] | None, snapshot: str
) -> None:
    """Truncate in a transaction of its own with this list of valid write ids, whose newest is the
    transaction's."""
    with closing(WritingMetastore([source.metastore])) as writer:
        txn_id, write_id = writer.open_write(db, table)
        writer.truncate_table(
            db, table, partition_names=partitions, write_id=write_id, valid_write_ids=snapshot
        )
        writer.commit_txn(txn_id)


def test_a_mark_that_hive_removes_from_the_wrong_partition_of_an_insert_is_removed_on_the_target(
    source_sql: Session, source: ClusterEndpoints, replica: Replica
) -> None:
    """Which one depends on the order of a hash map; of these partitions, one loses its mark in most
    orders."""
    db = replica.policy.source_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.visits (id int, item string) partitioned by (dt string) {ACID}")
    source_sql.run(f"insert into {db}.visits values (1,'x','a'),(2,'y','two words')")
    loaded = f"file:{source.external}/{db}-loaded"
    source_sql.run(f"insert overwrite directory '{loaded}' stored as orc select 9, 'loaded'")
    source_sql.run(f"load data inpath '{loaded}' overwrite into table {db}.visits partition (dt='a')")
    new = [f"n{number}" for number in range(8)]
    rows = ", ".join(f"({number},'z','{name}')" for number, name in enumerate(("a", "two words", *new)))
    source_sql.run(f"insert into {db}.visits values {rows}")
    marked = {
        (each.values or [""])[0]
        for each in replica.source.all_partitions(db, "visits")
        if ACCURATE in (each.parameters or {})
    }
    assert len(marked.intersection(new)) == len(new) - 1, "what Hive does"
    replica.follow()
    assert replica.quarantined() == {}
    assert find_differences(replica, "visits") == {}


def test_basic_statistics_that_hive_marks_without_knowing_them_are_not_marked_on_the_target(
    source_sql: Session, replica: Replica
) -> None:
    db, target_db, source = replica.policy.source_db, replica.policy.target_db, replica.source
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.archive (id int, item string) partitioned by (dt string) {PLAIN}")
    source_sql.run(f"insert into {db}.archive values (1,'x','a')")
    partition = source.get_partition(db, "archive", ["a"])
    partition.parameters = {k: v for k, v in (partition.parameters or {}).items() if k != ACCURATE}
    source.alter_partitions(db, "archive", [partition], environment=KEEP_STATISTICS)
    found = source.partition_statistics(db, "archive", ["dt=a"], COLUMNS)["dt=a"]
    policy = Policy(name=db, source_db=db, target_db=db)
    source.set_partition_statistics([build_statistics(policy, "archive", found, "dt=a")])
    replica.follow()
    ours, theirs = (
        dict(parameters(metastore.get_partition(name, "archive", ["a"])))[ACCURATE]
        for metastore, name in ((source, db), (replica.target, target_db))
    )
    assert "BASIC_STATS" in ours, "what Hive does"
    assert "COLUMN_STATS" in theirs
    assert "BASIC_STATS" not in theirs
    assert find_differences(replica, "archive") == {}


def test_statistics_of_overlapping_inserts_are_not_used_on_the_target(
    source_sql: Session, target_sql: Session, source: ClusterEndpoints, replica: Replica
) -> None:
    """The second one's do not count the rows of the first. The source's metastore removes the mark, but logs
    the change with it."""
    check_rows_are_counted(
        source_sql, target_sql, replica, lambda table: overlap(source, replica.policy.source_db, table)
    )


def overlap(source: ClusterEndpoints, db: str, name: str) -> None:
    """Write statistics with one more row in each of two transactions, of which the second does not see the
    first."""
    with closing(WritingMetastore([source.metastore])) as writer:
        first, second = writer.open_txns(2)
        ids = writer.allocate_write_ids(db, name, [first, second])
        alter_rows(writer, db, name, ids[first], f"{ids[first]}:{2**63 - 1}:")
        alter_rows(writer, db, name, ids[second], f"{ids[second]}:{ids[first]}:{ids[first]}")
        writer.commit_txn(first)
        writer.commit_txn(second)


def alter_rows(writer: WritingMetastore, db: str, name: str, write_id: int, snapshot: str) -> None:
    """Set the number of rows of a table or of its partition to 2."""
    table, valid = writer.get_table(db, name), f"{db}.{name}:{snapshot}:"
    if table.partitionKeys:
        partition = writer.get_partition(db, name, ["a"])
        count_two(partition, write_id)
        writer.alter_partitions(
            db, name, [partition], write_id=write_id, valid_write_ids=valid, environment=KEEP_STATISTICS
        )
    else:
        count_two(table, write_id)
        writer.alter_table(
            db, name, table, write_id=write_id, valid_write_ids=valid, environment=KEEP_STATISTICS
        )


def alter_under(source: Metastore, db: str, write_id: int | None) -> None:
    """Write a property of a table and of a partition, as a client that sends this write id and leaves the
    statistics alone."""
    table, partition = source.get_table(db, "orders"), source.get_partition(db, "visits", ["a"])
    for each in (table, partition):
        each.parameters = {**(each.parameters or {}), "note": str(write_id)}
        each.writeId = write_id
    source.alter_table(db, "orders", table, environment=KEEP_STATISTICS)
    source.alter_partitions(db, "visits", [partition], environment=KEEP_STATISTICS)


def test_a_client_that_drops_the_mark_of_accurate_statistics_drops_it_on_the_target(
    source_sql: Session, replica: Replica
) -> None:
    db, target_db = replica.policy.source_db, replica.policy.target_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.orders (id int, item string) {ACID}")
    source_sql.run(f"insert into {db}.orders values (1,'pen')")
    table = replica.source.get_table(db, "orders")
    table.parameters = {**(table.parameters or {}), "note": "1"}
    table.writeId = None
    replica.source.alter_table(db, "orders", table)
    replica.follow()
    assert replica.quarantined() == {}
    ours = parameters(replica.source.get_table(db, "orders"))
    theirs = parameters(replica.target.get_table(target_db, "orders"))
    assert ("note", "1") in ours
    assert ("note", "1") in theirs
    assert "COLUMN_STATS_ACCURATE" not in dict(ours)
    assert "COLUMN_STATS_ACCURATE" not in dict(theirs)


def parameters(item: Table | Partition) -> set[tuple[str, str]]:
    return set((item.parameters or {}).items())


def test_a_truncation_removes_the_mark_although_table_or_partition_were_renamed_before_replay(
    source_sql: Session, source: ClusterEndpoints, replica: Replica
) -> None:
    """Nothing at the source has the names that the events of the truncations have."""
    db, target_db = replica.policy.source_db, replica.policy.target_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.orders (id int, item string) {ACID}")
    source_sql.run(f"create table {db}.visits (id int, item string) partitioned by (dt string) {ACID}")
    source_sql.run(f"insert into {db}.orders values (1,'pen')")
    source_sql.run(f"insert into {db}.visits values (1,'x','a'),(2,'y','b'),(3,'z','d')")
    replica.follow()
    truncate_at(source, db, "orders", None, f"{db}.orders:2:1:1:")
    truncate_at(source, db, "visits", ["dt=a", "dt=b"], f"{db}.visits:2:1:1:")
    source_sql.run(f"alter table {db}.orders rename to {db}.sold")
    source_sql.run(f"alter table {db}.visits partition (dt='b') rename to partition (dt='c')")
    source_sql.run(f"alter table {db}.visits rename to {db}.midway")
    source_sql.run(f"alter table {db}.midway rename to {db}.seen")
    replica.follow()
    assert replica.quarantined() == {}
    for metastore, name in ((replica.source, db), (replica.target, target_db)):
        partitions = {
            "/".join(each.values or []): each
            for each in metastore.get_partitions(name, "seen", ["dt=a", "dt=c", "dt=d"])
        }
        marked = {each for each, partition in partitions.items() if ACCURATE in (partition.parameters or {})}
        assert (name, set(partitions), marked) == (name, {"a", "c", "d"}, {"d"})
    assert find_differences(replica, "sold", "seen") == {}
