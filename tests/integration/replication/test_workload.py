"""The demo's workload, replayed on a second real cluster and compared with the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dev.demo.workload import QUERIES, Step, steps
from dev.stack.errors import SqlFailed


if TYPE_CHECKING:
    from dev.stack.hive.sql_session import Session
    from tests.builders.replication.replica import Replica
    from tests.integration.replication.conftest import Compare


def run_steps(session: Session, todo: tuple[Step, ...]) -> None:
    for step in todo:
        for name, during, _ in step.settings:
            session.run(f"set {name}={during}")
        if step.must_fail:
            with pytest.raises(SqlFailed):
                session.run(step.sql)
        else:
            session.run(step.sql)
        for name, _, after in step.settings:
            session.run(f"set {name}={after}")


def test_the_replica_of_the_whole_workload_equals_its_source(
    replica: Replica, source_sql: Session, compare: Compare, database: str
) -> None:
    run_steps(source_sql, steps(database))
    replica.follow()
    assert replica.projection.quarantined() == ()
    assert compare(QUERIES).list_differences() == []
