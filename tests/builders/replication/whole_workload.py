"""The workload of the demonstration, run by tests: every kind of table and statement, and the comparison of
both sides."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from dev.demo.compare import Side, compare_databases
from dev.demo.workload import QUERIES, Step, steps
from dev.stack.errors import SqlFailed
from dev.stack.hive.sql_session import Session
from tests.builders.components.clusters import Pair
from tests.builders.replication.replica import Replica, build_replica


def write_workload(sql: Session, db: str) -> None:
    """Run all steps, and require that those fail that must."""
    for step in steps(db):
        _run(sql, step)


def build_replica_of(pair: Pair, files: Mapping[str, Mapping[str, object]] | None = None) -> Replica:
    """Build a replica from the source to the target of a pair, for a database that does not exist yet."""
    source = pair.source.endpoints()
    return build_replica(
        pair.source.metastore.uri,
        pair.target.metastore.uri,
        db=f"db_{uuid.uuid4().hex[:12]}",
        roots=[source.warehouse, source.external, source.cmroot],
        files=files,
    )


def replicate_workload(pair: Pair, files: Mapping[str, Mapping[str, object]] | None = None) -> Replica:
    """Write the workload at the source, follow it, and require that both sides are equal; ``files`` as for
    ``build_replica``."""
    replica = build_replica_of(pair, files)
    db = replica.policy.source_db
    with pair.source.sql() as ours, pair.target.sql() as theirs:
        write_workload(ours, db)
        replica.follow()
        assert replica.projection.quarantined() == ()
        assert find_differences(replica, ours, theirs) == []
    return replica


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
