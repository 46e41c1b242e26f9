"""A replica between the two clusters of the session's stack, for tests of replay without Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from dev.demo.compare import Comparison, Side, compare_databases
from tests.builders.replica import Replica, build_replica


if TYPE_CHECKING:
    from dev.stack.endpoints import ClusterEndpoints
    from dev.stack.sql import Session


@pytest.fixture
def replica(source: ClusterEndpoints, target: ClusterEndpoints, database: str) -> Iterator[Replica]:
    """A policy for a database that does not exist yet."""
    built = build_replica(
        source.metastore,
        target.metastore,
        db=database,
        roots=[source.warehouse, source.external, source.cmroot],
    )
    yield built
    built.projection.close()


Compare = Callable[[dict[str, str]], Comparison]


@pytest.fixture
def compare(replica: Replica, source_sql: Session, target_sql: Session) -> Compare:
    """Compare both sides of the replica; takes the queries by table."""

    def run(queries: dict[str, str]) -> Comparison:
        ours = Side(replica.source, source_sql, replica.policy.source_db)
        theirs = Side(replica.target, target_sql, replica.policy.target_db)
        return compare_databases(ours, theirs, queries)

    return run
