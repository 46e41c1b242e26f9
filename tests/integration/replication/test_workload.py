"""The demo's workload, replayed on a second real cluster and compared with the first."""

from __future__ import annotations

from dev.demo.workload import QUERIES
from dev.stack.hive.sql_session import Session
from tests.builders.replication.replica import Replica
from tests.builders.replication.whole_workload import write_workload
from tests.integration.replication.conftest import Compare


def test_the_replica_of_the_whole_workload_equals_its_source(
    replica: Replica, source_sql: Session, compare: Compare, database: str
) -> None:
    write_workload(source_sql, database)
    replica.follow()
    assert replica.projection.quarantined() == ()
    assert compare(QUERIES).list_differences() == []
