"""Statements of kinds that the other modules do not run, replayed to two databases of a target, on real
metastores."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from handlers.structs.constraints import CONSTRAINT_KINDS
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.small_workload import ACID, PLAIN, create_source
from tests.builders.replication.verification import verify


pytestmark = pytest.mark.long


@dataclass(frozen=True)
class History:
    """Two source databases, and their part of the log."""

    shop: str
    other: str
    before: int
    last: int


@pytest.fixture(scope="module")
def history(source: ClusterEndpoints) -> History:
    shop = f"kinds_{uuid.uuid4().hex[:8]}"
    other = f"{shop}_b"
    with Session.connect(source.sql) as sql, closing(Metastore([source.metastore])) as metastore:
        before = metastore.current_event_id()
        create_source(sql, shop)
        create_source(sql, other)
        for statement in (
            *constraints(shop),
            *transaction_over_databases(shop, other),
            *views(shop),
            *plain_partitions(shop),
            *files_from_elsewhere(shop, source.external),
            *columns(shop),
            *created_again(shop),
            "create temporary table passing (id int)",
            f"alter database {shop} set dbproperties ('team'='sales')",
        ):
            sql.run(statement)
        return History(shop, other, before, metastore.current_event_id())


def constraints(db: str) -> Sequence[str]:
    return (
        (
            f"create table {db}.parent (id int, code string, primary key (id) disable novalidate rely, "
            f"unique (code) disable novalidate) {ACID}"
        ),
        (
            f"create table {db}.child (id int not null enable, parent int default 5, qty int check (qty > "
            "0) enable, "
            f"constraint fk_{db} foreign key (parent) references {db}.parent(id) disable novalidate rely, "
            f"constraint uk_{db} unique (id) disable novalidate) {ACID}"
        ),
        f"alter table {db}.child drop constraint uk_{db}",
    )


def transaction_over_databases(db: str, other: str) -> Sequence[str]:
    """One transaction that writes into tables of two databases."""
    return (
        f"create table {db}.sold (id int) {ACID}",
        f"create table {other}.booked (id int) {ACID}",
        (
            f"from (select explode(array(1, 2, 3)) as id) s insert into {db}.sold select id "
            f"insert into {other}.booked select id + 10"
        ),
    )


def views(db: str) -> Sequence[str]:
    return (
        f"create view {db}.recent as select id from {db}.sold where id > 1",
        f"alter view {db}.recent as select id, id * 2 as twice from {db}.sold",
        f"alter view {db}.recent set tblproperties ('note'='x')",
    )


def plain_partitions(db: str) -> Sequence[str]:
    return (
        f"create table {db}.archive (id int) partitioned by (at timestamp) {PLAIN}",
        f"create table {db}.staged (id int) partitioned by (at timestamp) {PLAIN}",
        f"insert into {db}.staged partition (at='2024-01-01 10:00:00') values (1)",
        f"alter table {db}.archive exchange partition (at='2024-01-01 10:00:00') with table {db}.staged",
    )


def files_from_elsewhere(db: str, external: str) -> Sequence[str]:
    lines = Path(external) / f"{db}_lines.txt"
    lines.write_text("7\n8\n")
    return (
        (
            f"create table {db}.lines (line string) stored as textfile "
            "tblproperties ('transactional'='true','transactional_properties'='insert_only')"
        ),
        f"load data local inpath '{lines}' into table {db}.lines",
        f"export table {db}.sold to 'file:{external}/{db}_export'",
        f"import table {db}.imported from 'file:{external}/{db}_export'",
    )


def columns(db: str) -> Sequence[str]:
    return (
        f"alter table {db}.sold change column id number int comment 'renamed'",
        f"alter table {db}.sold set owner user eve",
    )


def created_again(db: str) -> Sequence[str]:
    """Tables of the same name but of another kind, and with another type of partition column."""
    return (
        f"create table {db}.again (id int) {PLAIN}",
        f"insert into {db}.again values (1)",
        f"drop table {db}.again",
        f"create table {db}.again (id int) {ACID}",
        f"insert into {db}.again values (2)",
        f"create table {db}.cut (id int) partitioned by (p string) {ACID}",
        f"insert into {db}.cut partition (p='a') values (1)",
        f"drop table {db}.cut",
        f"create table {db}.cut (id int) partitioned by (p int) {ACID}",
        f"insert into {db}.cut partition (p=5) values (2)",
    )


@pytest.fixture(scope="module")
def replicas(
    source: ClusterEndpoints, target: ClusterEndpoints, history: History
) -> Iterator[dict[str, Replica]]:
    built = {
        db: build_replica(
            source.metastore,
            target.metastore,
            db=db,
            target_db=f"{db}_{uuid.uuid4().hex[:6]}",
            roots=[source.warehouse, source.external, source.cmroot],
            start=history.before,
        )
        for db in (history.shop, history.other)
    }
    for replica in built.values():
        replica.follow(upto=history.last)
    yield built
    for replica in built.values():
        replica.projection.close()


def test_statements_of_further_kinds_leave_both_sides_equal(replicas: dict[str, Replica]) -> None:
    for replica in replicas.values():
        assert replica.quarantined() == {}
        differences = {name: result.differences for name, result in verify(replica).items()}
        assert {name: found for name, found in differences.items() if found} == {}


def test_all_six_kinds_of_constraints_are_replicated(replicas: dict[str, Replica], history: History) -> None:
    replica = replicas[history.shop]
    kinds = {kind.event_type for kind in CONSTRAINT_KINDS}
    logged = {event.kind for event in replica.events(history.before, upto=history.last)}
    assert kinds | {"DROP_CONSTRAINT"} <= logged
    for table in ("parent", "child"):
        ours = replica.source.constraint_names(history.shop, table)
        theirs = replica.target.constraint_names(replica.policy.target_db, table)
        assert theirs == ours, table
        assert f"uk_{history.shop}" not in theirs


def test_a_transaction_over_two_databases_is_committed_in_each_by_its_policy(
    replicas: dict[str, Replica], history: History, target_sql: Session
) -> None:
    sold = target_sql.rows(
        f"select number from {replicas[history.shop].policy.target_db}.sold order by number"
    )
    booked = target_sql.rows(f"select id from {replicas[history.other].policy.target_db}.booked order by id")
    assert (sold, booked) == ([("1",), ("2",), ("3",)], [("11",), ("12",), ("13",)])


def test_views_files_and_partitions_from_elsewhere_are_read_on_the_target(
    replicas: dict[str, Replica], history: History, target_sql: Session
) -> None:
    db = replicas[history.shop].policy.target_db
    assert target_sql.rows(f"select line from {db}.lines order by line") == [("7",), ("8",)]
    assert target_sql.rows(f"select id from {db}.imported order by id") == [("1",), ("2",), ("3",)]
    assert target_sql.rows(f"select id, at from {db}.archive") == [("1", "2024-01-01 10:00:00")]
    assert target_sql.rows(f"select a.id, c.id, c.p from {db}.again a cross join {db}.cut c") == [
        ("2", "2", "5")
    ]
    assert "passing" not in replicas[history.shop].target.table_names(db)
    view = replicas[history.shop].target.get_table(db, "recent")
    assert f"`{db}`" in (view.viewExpandedText or "")
    assert (view.parameters or {})["note"] == "x"
