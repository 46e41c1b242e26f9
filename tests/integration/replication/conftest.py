"""A replica between the two clusters of the stack, for tests of replay without Kafka."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from dev.demo.compare import Comparison, Side, compare_databases
from dev.stack.cluster import HiveCluster
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.old_metastore import OldMetastore
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from tests.builders.components.availability import start_or_skip
from tests.builders.replication.hive_3_source import Hive3Source, open_hive_3_source
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.small_workload import Written, write_all


@pytest.fixture(scope="session")
def written(source: ClusterEndpoints) -> Written:
    """The small workload, written once and replayed by many tests to their own targets."""
    with Session.connect(source.sql) as session, closing(Metastore([source.metastore])) as metastore:
        return write_all(session, metastore, f"replay_{uuid.uuid4().hex[:8]}")


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


@pytest.fixture(scope="module", params=["2.3", "3.1"])
def old_metastore(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OldMetastore]:
    """A source of an older Hive version."""
    server = OldMetastore(tmp_path_factory.mktemp("source"), request.param)
    with start_or_skip(f"metastore of Hive {request.param}"):
        server.start()
    yield server
    server.stop()


@pytest.fixture
def old(hive_3: HiveCluster, target: ClusterEndpoints, database: str) -> Iterator[Hive3Source]:
    """An empty database of Hive 3.1."""
    with open_hive_3_source(hive_3, target, database) as source:
        yield source


Compare = Callable[[dict[str, str]], Comparison]


@pytest.fixture
def compare(replica: Replica, source_sql: Session, target_sql: Session) -> Compare:
    """A function that compares both sides of the replica; it takes the queries by table."""

    def run(queries: dict[str, str]) -> Comparison:
        ours = Side(replica.source, source_sql, replica.policy.source_db)
        theirs = Side(replica.target, target_sql, replica.policy.target_db)
        return compare_databases(ours, theirs, queries)

    return run
