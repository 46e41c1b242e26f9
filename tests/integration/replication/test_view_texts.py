"""Views whose queries contain the name of their database in unusual forms, on real metastores."""

from __future__ import annotations

from typing import Final

from daemon.replica.status.unreplicated import list_unreplicated
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.replication.policy.policy import Policy
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.small_workload import ACID, create_source
from tests.builders.replication.verification import FollowedReplica, check_equal, verifier_of, verify_all


MASK: Final = "org.apache.hadoop.hive.ql.udf.UDFMd5"
VIEWS: Final = {
    "by_function": "select {db}.mask(v) as masked from {db}.t where {db}.MASK(v) is not null",
    "in_capitals": "select id from {capitals}.T",
    "of_namesake": "select {db}.id, {db}.s.a from {db}.{db} where {db}.id in (select {db}.id from {db}.{db})",
    "of_joined_namesake": (
        "select t.id, {db}.s from {db}.t join {db}.{db} on t.id = {db}.id, {db}.in_capitals c"
    ),
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


def test_views_read_the_replicas_of_other_databases_and_call_functions_as_hive_2_and_3_write_them(
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    database: str,
    source_sql: Session,
    target_sql: Session,
) -> None:
    db, lake = database, f"lake_{database}"
    for session, name in ((source_sql, lake), (target_sql, f"{lake}_r")):
        session.run(f"create database {name}")
        session.run(f"create table {name}.days as select 1 as id, 'one' as v")
    create_source(source_sql, db)
    source_sql.run(f"create function {db}.mask as '{MASK}'")
    source_sql.run(f"create table {db}.t as select 1 as id, 'x' as v")
    source_sql.run(
        f"create view {db}.joined as select t.id, d.v from {db}.t t join {lake}.days d on t.id = d.id"
    )
    source_sql.run(f"create view {db}.masked as select {db}.mask(v) as m from {db}.t")
    source_sql.run(f"create table {lake}.secret_days (id int)")
    source_sql.run(f"create view {db}.of_secret as select * from {lake}.secret_days")
    replica = build_replica(
        source.metastore,
        target.metastore,
        db=db,
        roots=[source.warehouse, source.external, source.cmroot],
        others=lambda name: (
            (Policy(name="lake", source_db=lake, target_db=f"{lake}_r", exclude=("secret*",)),)
            if name == lake
            else ()
        ),
    )
    masked = replica.source.get_table(db, "masked")
    masked.viewExpandedText = f"select `{db}.mask`(`t`.`v`) `m` from `{db}`.`t`"
    replica.source.alter_table(db, "masked", masked)
    replica.follow()
    (status,) = list_unreplicated("p", replica.context)
    assert [(each.name, each.code) for each in status.listed] == [(f"{db}.of_secret", "view")]
    target_sql.run("reload functions")
    for name in ("joined", "masked"):
        rows = source_sql.rows(f"select * from {db}.{name}")
        assert target_sql.rows(f"select * from {replica.policy.target_db}.{name}") == rows
    reasons = {"of_secret": status.listed[0].reason}
    with verifier_of(replica, FollowedReplica(replica, reasons=reasons)) as verifier:
        results = verify_all(verifier)
    assert {name: str(each.outcome) for name, each in results.items()} == {
        "": "equal",
        "joined": "equal",
        "masked": "equal",
        "of_secret": "not-followed",
        "t": "equal",
    }
    replica.projection.close()
