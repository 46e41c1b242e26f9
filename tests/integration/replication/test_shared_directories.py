"""Two tables in one directory, on real metastores.

Hive gives a table whose name has special characters a directory of another name, and leaves it there when the table is renamed. The next table
of the old name then gets the same directory, and the write event of its CREATE TABLE AS SELECT names everything in it
(``handlers.decoding.written_files``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.builders.replication.small_workload import ACID, create_source


if TYPE_CHECKING:
    from dev.stack.hive.sql_session import Session
    from tests.builders.replication.replica import Replica


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
