"""Two tables in one directory, on real metastores.

Hive gives a table whose name has special characters a directory of another name, and leaves it there when the
table is renamed. The next table of the old name then gets the same directory, and the write event of its
CREATE TABLE AS SELECT names everything in it (``handlers.decoding.write_events``). If one of the two is
dropped, Hive removes the files of both.
"""

from __future__ import annotations

import pytest

from dev.stack.hive.sql_session import Session
from tests.builders.replication.replica import Replica
from tests.builders.replication.small_workload import ACID, INSERT_ONLY, create_source
from tests.builders.replication.verification import find_differences


def test_a_table_in_the_directory_of_a_renamed_one_keeps_its_rows(
    source_sql: Session, target_sql: Session, replica: Replica
) -> None:
    db, target_db = replica.policy.source_db, replica.policy.target_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.`a=b` (id int) partitioned by (dt string) {ACID}")
    source_sql.run(f"insert into {db}.`a=b` values (1,'x'), (2,'y')")
    source_sql.run(f"alter table {db}.`a=b` rename to {db}.old")
    source_sql.run(f"create table {db}.`a=b` {ACID} as select 10 as id")
    source_sql.run(f"insert into {db}.`a=b` values (11)")
    replica.follow()
    assert replica.quarantined() == {}
    for query in ("select * from {}.old", "select id from {}.`a=b` where id > 9"):
        rows = [
            sorted(sql.rows(query.format(name))) for sql, name in ((source_sql, db), (target_sql, target_db))
        ]
        assert rows[1] == rows[0] != [], (query, rows)


def test_a_truncation_of_one_keeps_the_rows_of_the_other(
    source_sql: Session, target_sql: Session, replica: Replica
) -> None:
    db, target_db = replica.policy.source_db, replica.policy.target_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.`a=b` (id int) {ACID}")
    # The rename takes write id 1, so that no two directories have one name.
    source_sql.run(f"alter table {db}.`a=b` rename to {db}.old")
    source_sql.run(f"insert into {db}.old values (1)")
    source_sql.run(f"create table {db}.`a=b` {INSERT_ONLY} as select 10 as id")
    source_sql.run(f"truncate table {db}.old")
    replica.follow()
    for query in ("select * from {}.old", "select * from {}.`a=b`"):
        rows = [
            sorted(sql.rows(query.format(name))) for sql, name in ((source_sql, db), (target_sql, target_db))
        ]
        assert rows[1] == rows[0], (query, rows)
    assert rows[1] == [("10",)]


@pytest.mark.parametrize("key", ["dt string", "dt string, h int"])
def test_a_table_whose_directory_was_removed_with_another_table_is_followed_further(
    source_sql: Session, target_sql: Session, replica: Replica, key: str
) -> None:
    db, target_db = replica.policy.source_db, replica.policy.target_db
    create_source(source_sql, db)
    more = ", 5" if "," in key else ""
    source_sql.run(f"create table {db}.other (id int) {ACID}")
    source_sql.run(f"create table {db}.`a=b` (id int) {ACID}")
    source_sql.run(f"alter table {db}.`a=b` rename to {db}.old")
    source_sql.run(f"create table {db}.`a=b` (id int) partitioned by ({key}) {ACID}")
    source_sql.run(f"insert into {db}.`a=b` values (1, 'x'{more}), (2, 'y'{more})")
    source_sql.run(f"drop table {db}.old")
    source_sql.run(f"insert into {db}.`a=b` values (3, 'x'{more}), (4, 'z'{more})")
    source_sql.run(f"insert into {db}.other values (5)")
    replica.follow()
    assert replica.quarantined() == {}
    for query in ("select * from {}.other", "select id from {}.`a=b` where dt in ('x', 'z')"):
        rows = [
            sorted(sql.rows(query.format(name))) for sql, name in ((source_sql, db), (target_sql, target_db))
        ]
        assert rows[1] == rows[0] != [], (query, rows)
    assert find_differences(replica, "a=b", "other") == {}
