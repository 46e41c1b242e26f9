"""The workload of the demonstration, run by tests: every kind of table and statement, and the comparison of both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dev.demo.compare import Side, compare_databases
from dev.demo.workload import QUERIES, Step, steps
from dev.stack.errors import SqlFailed


if TYPE_CHECKING:
    from dev.stack.hive.sql_session import Session
    from tests.builders.replication.replica import Replica


def write_workload(sql: Session, db: str) -> None:
    """Run all steps, and require that those fail that must."""
    for step in steps(db):
        _run(sql, step)


def find_differences(replica: Replica, source: Session, target: Session) -> list[str]:
    """Compare objects, parameters, statistics and the rows of every query."""
    return compare_databases(
        Side(replica.source, source, replica.policy.source_db),
        Side(replica.target, target, replica.policy.target_db),
        QUERIES,
    ).list_differences()


def _run(sql: Session, step: Step) -> None:
    for name, during, _ in step.settings:
        sql.run(f"set {name}={during}")
    try:
        sql.run(step.sql)
        assert not step.must_fail
    except SqlFailed:
        assert step.must_fail
    for name, _, after in step.settings:
        sql.run(f"set {name}={after}")
