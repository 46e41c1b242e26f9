"""Views whose queries contain the name of their database in unusual forms, on real metastores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.builders.replication.small_workload import ACID, create_source
from tests.builders.replication.verification import check_equal


if TYPE_CHECKING:
    from dev.stack.hive.sql_session import Session
    from tests.builders.replication.replica import Replica


MASK: Final = "org.apache.hadoop.hive.ql.udf.UDFMd5"
VIEWS: Final = {
    "by_function": "select {db}.mask(v) as masked from {db}.t where {db}.MASK(v) is not null",
    "in_capitals": "select id from {capitals}.T",
    "of_namesake": "select {db}.id, {db}.s.a from {db}.{db} where {db}.id in (select {db}.id from {db}.{db})",
    "of_joined_namesake": "select t.id, {db}.s from {db}.t join {db}.{db} on t.id = {db}.id, {db}.in_capitals c",
    "of_alias": "select {db}.id from {db}.t {db} where extract(year from {db}.d) > 1999",
    "with_text": "select id, '`{db}`.t {db}.mask(v)' as v from {db}.t -- it''s `{db}`.t\nwhere v = 'x'",
}


def test_views_read_the_tables_and_call_the_functions_of_the_target_in_whatever_form_they_name_them(
    source_sql: Session, target_sql: Session, replica: Replica
) -> None:
    db = replica.policy.source_db
    create_source(source_sql, db)
    source_sql.run(f"create function {db}.mask as '{MASK}'")
    for table, columns in (("t", "id int, v string, d date"), (db, "id int, s struct<a:int>")):
        source_sql.run(f"create table {db}.{table} ({columns}) {ACID}")
    source_sql.run(f"insert into {db}.t values (1,'x','2000-01-01')")
    source_sql.run(f"insert into {db}.{db} select 1, named_struct('a',5)")
    for name, query in VIEWS.items():
        source_sql.run(f"create view {db}.{name} as {query.format(db=db, capitals=db.upper())}")
    replica.follow()
    target_sql.run("reload functions")
    check_equal(replica, source_sql, target_sql)
