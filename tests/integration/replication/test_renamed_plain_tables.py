"""Plain tables and partitions that were renamed or replaced at
the source before the replica read their files, on real metastores.

Hive 4 calls them external and moves their directories with a rename, and the change manager keeps nothing of
them.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Final

import pytest

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.files.paths import parse_location
from tests.builders.replication.external import ExternalCopies
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.small_workload import PLAIN, create_source
from tests.builders.replication.verification import check_equal


HISTORIES: Final = {
    "table": (
        "create table {db}.sales (id int) " + PLAIN,
        "insert into {db}.sales values (1)",
        "alter table {db}.sales rename to {db}.orders",
        "insert into {db}.orders values (2)",
        "alter table {db}.orders rename to {db}.bought",
    ),
    "partitioned table": (
        "create table {db}.sales (id int) partitioned by (dt string) " + PLAIN,
        "insert into {db}.sales values (1,'a'),(2,'b')",
        "insert into {db}.sales values (3,'a'),(4,'c')",
        "alter table {db}.sales rename to {db}.orders",
        "insert overwrite table {db}.orders partition (dt='b') values (5)",
    ),
    "table that is replaced": (
        "create table {db}.sales (id int) " + PLAIN,
        "insert into {db}.sales values (1)",
        "create table {db}.orders (id int) " + PLAIN,
        "insert into {db}.orders values (2)",
        "alter table {db}.sales rename to {db}.older",
        "alter table {db}.orders rename to {db}.sales",
        "insert into {db}.sales values (3)",
        "create table {db}.orders (id int) " + PLAIN,
        "insert into {db}.orders values (4)",
    ),
    "partition": (
        "create table {db}.sales (id int) partitioned by (dt string) " + PLAIN,
        "insert into {db}.sales values (1,'a'),(2,'b')",
        "alter table {db}.sales partition (dt='a') rename to partition (dt='c')",
        "insert into {db}.sales values (3,'a')",
        "alter table {db}.sales partition (dt='b') rename to partition (dt='d')",
        "alter table {db}.sales partition (dt='a') rename to partition (dt='b')",
        "insert into {db}.sales values (4,'a')",
    ),
    "tables where external ones left their files": (
        "create external table {db}.sales (id int) stored as orc",
        "create external table {db}.visits (id int) partitioned by (dt string) stored as orc",
        *["insert into {db}.sales values (1)"] * 3,
        *["insert into {db}.visits values (1,'a'),(2,'b')"] * 3,
        "drop table {db}.sales",
        "drop table {db}.visits",
        "create table {db}.sales " + PLAIN + " as select 2 as id",
        "create table {db}.visits partitioned by (dt) " + PLAIN + " as select 3 as id, 'a' as dt",
        "insert into {db}.sales values (4)",
        "insert into {db}.visits values (5,'b')",
    ),
}

LONG: Final = {
    "exchanged tables": (
        "create table {db}.sales (id int) partitioned by (dt string) " + PLAIN,
        "insert into {db}.sales values (1,'a'),(2,'[1]')",
        "create table {db}.orders (id int) partitioned by (dt string) " + PLAIN,
        "insert into {db}.orders values (3,'a'),(4,'b')",
        "alter table {db}.sales rename to {db}.older",
        "alter table {db}.orders rename to {db}.sales",
        "alter table {db}.older rename to {db}.orders",
        "insert into {db}.orders values (5,'a')",
    ),
    "table of an earlier table's name": (
        "create table {db}.sales (id int) partitioned by (dt string) " + PLAIN,
        "insert into {db}.sales values (1,'a'),(2,'b')",
        "drop table {db}.sales",
        "create table {db}.sales (id int) partitioned by (dt string) " + PLAIN,
        "insert into {db}.sales values (3,'a')",
    ),
    "exchanged partition": (
        "create table {db}.sales (id int) partitioned by (dt string) " + PLAIN,
        "create table {db}.orders (id int) partitioned by (dt string) " + PLAIN,
        "insert into {db}.sales values (1,'a'),(2,'b')",
        "insert into {db}.sales values (3,'a')",
        "alter table {db}.orders exchange partition (dt='a') with table {db}.sales",
        "insert into {db}.sales values (4,'a')",
        "insert into {db}.orders values (5,'a')",
        "alter table {db}.orders partition (dt='a') rename to partition (dt='b')",
        "alter table {db}.orders rename to {db}.bought",
    ),
}


FOLLOWED: Final = {"tables where external ones left their files": 8}
"""Number of statements that are replayed before the others are executed; 2 unless stated here."""
COPIED_AHEAD: Final = ("partition", *FOLLOWED)
"""Histories that are tested in this way in each run."""


@pytest.mark.parametrize(
    "history", [*HISTORIES, *(pytest.param(each, marks=pytest.mark.long) for each in LONG)]
)
def test_rows_of_a_plain_table_survive_what_happened_to_it_before_they_were_copied(
    source_sql: Session, target_sql: Session, replica: Replica, history: str
) -> None:
    check(source_sql, target_sql, replica, history)


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(each, marks=() if each == "exchanged tables" else pytest.mark.long)
        for each in [*HISTORIES, *LONG]
    ],
)
def test_the_same_with_copies_of_external_tables_below_a_base(
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    source_sql: Session,
    target_sql: Session,
    database: str,
    history: str,
) -> None:
    with closing(build_based(source, target, database)) as made:
        check(source_sql, target_sql, made.replica, history, made.copies)


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(each, marks=() if each in COPIED_AHEAD else pytest.mark.long)
        for each in [*HISTORIES, *LONG]
    ],
)
def test_the_same_if_files_are_copied_to_their_new_places_before_the_renames_are_replayed(
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    source_sql: Session,
    target_sql: Session,
    database: str,
    history: str,
) -> None:
    with closing(build_based(source, target, database)) as made:
        check(source_sql, target_sql, made.replica, history, made.copies, is_copied_ahead=True)


@dataclass(frozen=True)
class BasedReplica:
    """A replica whose external tables lie below a base, where copies of them go."""

    replica: Replica
    copies: ExternalCopies

    def close(self) -> None:
        self.replica.projection.close()


def build_based(source: ClusterEndpoints, target: ClusterEndpoints, database: str) -> BasedReplica:
    replica = build_replica(
        source.metastore,
        target.metastore,
        db=database,
        roots=[source.warehouse, source.external, source.cmroot],
        external_base=str(parse_location(f"{target.external}/base_{database}")),
    )
    return BasedReplica(replica, ExternalCopies(replica.context))


def check(
    source_sql: Session,
    target_sql: Session,
    replica: Replica,
    history: str,
    copies: ExternalCopies | None = None,
    *,
    is_copied_ahead: bool = False,
) -> None:
    db = replica.policy.source_db
    create_source(source_sql, db)
    followed = FOLLOWED.get(history, 2)
    for number, statement in enumerate((HISTORIES | LONG)[history]):
        if number == followed and is_copied_ahead:
            replica.follow()
        source_sql.run(statement.format(db=db))
        if number >= followed and is_copied_ahead and copies is not None:
            copies.run()
    replica.follow()
    if copies is not None:
        assert copies.run().is_complete
    check_equal(replica, source_sql, target_sql)
