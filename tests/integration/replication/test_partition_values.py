"""Values of partitions that Hive allows but that are no ordinary names: each is one directory, and is
replicated like any other."""

from __future__ import annotations

from contextlib import closing

import pytest

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from tests.builders.replication.replica import build_replica
from tests.builders.replication.small_workload import ACID, INSERT_ONLY, PLAIN, create_source
from tests.builders.replication.stepped_loads import SteppedLoads
from tests.builders.replication.verification import check_equal


VALUES = (
    "\x85",
    "\x92",
    "\u2028",
    "\u2029",
    "/../x",
    "../..",
    "..",
    "%00",
    "a\\tb",
    "a\\nb",
    "a\\\\b",
    "é" * 100,
)
"""As SQL writes them. Hive escapes a slash, tab or backslash in the name of the directory, and none of the
others."""


@pytest.mark.parametrize(
    "kind",
    [ACID, *(pytest.param(kind, marks=pytest.mark.long) for kind in (INSERT_ONLY, PLAIN))],
    ids=["acid", "insert_only", "plain"],
)
def test_partitions_of_unusual_values_are_replicated_and_loaded(
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    source_sql: Session,
    target_sql: Session,
    database: str,
    kind: str,
) -> None:
    with closing(Metastore([source.metastore])) as metastore:
        before = metastore.current_event_id()
    create_source(source_sql, database)
    source_sql.run(f"create table {database}.t (id int) partitioned by (p string) {kind}")
    for number, value in enumerate(VALUES[:4]):
        source_sql.run(f"insert into {database}.t partition (p='{value}') values ({number})")
    rows = ", ".join(f"({number}, '{value}')" for number, value in enumerate(VALUES[4:], 4))
    source_sql.run(f"insert into {database}.t partition (p) values {rows}")
    roots = [source.warehouse, source.external, source.cmroot]
    replica = build_replica(
        source.metastore,
        target.metastore,
        db=database,
        roots=roots,
        start=before,
        external_base=f"{target.external}/base_{database}",
    )
    with closing(replica.projection):
        replica.follow()
        check_equal(replica, source_sql, target_sql)
        assert len(target_sql.rows(f"select * from {database}_r.t")) == len(VALUES)
        replica.projection.loads.request(["t"], "repair")
        SteppedLoads(replica).finish()
        check_equal(replica, source_sql, target_sql)
