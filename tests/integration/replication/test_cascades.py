"""Changes of columns with CASCADE, which the metastore applies to all partitions and logs for the table only,
on real metastores."""

from __future__ import annotations

from typing import Final

import pytest

from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from tests.builders.replication.replica import Replica
from tests.builders.replication.small_workload import ACID, PLAIN, create_source
from tests.builders.replication.verification import find_differences


KINDS: Final = {"orders": ACID, "archive": PLAIN}
QUERY: Final = "select * from {}.{}"


def columns_of(metastore: Metastore, db: str, table: str) -> dict[str, list[str]]:
    return {
        (each.values or [""])[0]: [column.name or "" for column in each.sd.cols or []]
        for each in metastore.all_partitions(db, table)
    }


@pytest.mark.parametrize("cascade", [" cascade", ""])
def test_columns_of_partitions_change_with_the_table_only_if_they_did_so_at_the_source(
    source_sql: Session, target_sql: Session, replica: Replica, cascade: str
) -> None:
    db, target_db = replica.policy.source_db, replica.policy.target_db
    create_source(source_sql, db)
    for table, kind in KINDS.items():
        source_sql.run(f"create table {db}.{table} (id int) partitioned by (dt string) {kind}")
        source_sql.run(f"insert into {db}.{table} values (1,'a'),(2,'b')")
        source_sql.run(f"alter table {db}.{table} add columns (item string){cascade}")
        source_sql.run(f"alter table {db}.{table} set tblproperties ('note'='x')")
        source_sql.run(f"insert into {db}.{table} values (3,'three','a'),(4,'four','c')")
        source_sql.run(f"alter table {db}.{table} drop partition (dt='b')")
    replica.follow()
    assert replica.quarantined() == {}
    for table in KINDS:
        expected = columns_of(replica.source, db, table)
        assert (expected["a"] == expected["c"]) == bool(cascade), "what the source does"
        assert columns_of(replica.target, target_db, table) == expected
        rows = sorted(source_sql.rows(QUERY.format(db, table)))
        assert sorted(target_sql.rows(QUERY.format(target_db, table))) == rows
    assert find_differences(replica, *KINDS) == {}


SWAPPED: Final = "alter table {db}.{table}_other rename to {db}.{table}"


@pytest.mark.parametrize(
    ("cascade", "later"),
    [
        (" cascade", SWAPPED),
        pytest.param(" cascade", "", marks=pytest.mark.long),
        pytest.param("", SWAPPED, marks=pytest.mark.long),
        pytest.param("", "", marks=pytest.mark.long),
    ],
)
def test_the_same_for_tables_that_were_renamed_before_the_change_was_replayed(
    source_sql: Session, target_sql: Session, replica: Replica, cascade: str, later: str
) -> None:
    db, target_db = replica.policy.source_db, replica.policy.target_db
    create_source(source_sql, db)
    for table, kind in KINDS.items():
        if later:
            source_sql.run(f"create table {db}.{table}_other (n string) partitioned by (dt string) {kind}")
            source_sql.run(f"insert into {db}.{table}_other values ('n','a'),('o','untouched')")
        source_sql.run(f"create table {db}.{table} (id int) partitioned by (dt string) {kind}")
        source_sql.run(f"insert into {db}.{table} values (1,'a'),(2,'b'),(9,'untouched')")
        source_sql.run(f"alter table {db}.{table} add columns (item string){cascade}")
        source_sql.run(f"insert into {db}.{table} values (3,'three','a'),(4,'four','c')")
        source_sql.run(f"alter table {db}.{table} rename to {db}.{table}_renamed")
        if later:
            source_sql.run(later.format(db=db, table=table))
        source_sql.run(f"insert into {db}.{table}_renamed values (5,'five','b')")
    replica.follow()
    assert replica.quarantined() == {}
    names = replica.source.table_names(db)
    for table in names:
        assert columns_of(replica.target, target_db, table) == columns_of(replica.source, db, table)
        rows = sorted(source_sql.rows(QUERY.format(db, table)))
        assert sorted(target_sql.rows(QUERY.format(target_db, table))) == rows
    assert find_differences(replica, *names) == {}


def test_partitions_of_several_write_ids_get_their_columns_after_a_rename_that_moves_no_directory(
    source_sql: Session, replica: Replica
) -> None:
    """Hive moves no directory of a table with a special name, so that the rename gives the partitions no
    common write id."""
    db, target_db = replica.policy.source_db, replica.policy.target_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.`a=b` (id int) partitioned by (dt string) {ACID}")
    for number, partition in enumerate(("a", "b", "b", "c")):
        source_sql.run(f"insert into {db}.`a=b` values ({number},'{partition}'),({number},'a')")
    source_sql.run(f"alter table {db}.`a=b` add columns (item string) cascade")
    source_sql.run(f"alter table {db}.`a=b` rename to {db}.orders")
    replica.follow()
    assert replica.quarantined() == {}
    assert columns_of(replica.target, target_db, "orders") == columns_of(replica.source, db, "orders")
    assert find_differences(replica, "orders") == {}
