"""Loads of tables that Hive's own compactor has compacted, and compacts meanwhile. The source is a cluster of this test."""

from __future__ import annotations

import time
import uuid
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from dev.demo.compare import Side, compare_databases
from dev.stack import cli, preflight
from dev.stack.cluster import HiveCluster
from dev.stack.hive.settings import ClusterSettings
from dev.stack.hive.sql_session import Session
from handlers.replication.loading.load_table import load_table
from handlers.structs.objects import Database
from handlers.structs.transactions import CompactionType
from tests.builders.replication.loads import RecordedProgress, load_all, load_tools, waiting_load
from tests.builders.replication.many_tables import path_of
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.small_workload import ACID, create_source, roll_back
from tests.integration.conftest import stack, target


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dev.stack.endpoints import ClusterEndpoints

__all__ = ["stack", "target"]

pytestmark = pytest.mark.crash

QUERIES = {name: f"select * from {{db}}.{name} order by id" for name in ("major", "minor", "later")}
TIMEOUT_S = 90.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveCluster]:
    directory = tmp_path_factory.mktemp("compacting")
    preflight.check_all(directory)
    cli.fetch_all()
    made = HiveCluster(directory, ClusterSettings(compactor=True))
    made.metastore.start()
    try:
        made.engine.start()
        yield made
    finally:
        made.engine.stop()
        made.metastore.stop()


@pytest.fixture
def replica(cluster: HiveCluster, target: ClusterEndpoints) -> Iterator[Replica]:  # noqa: F811 - a fixture asks for fixtures by their names
    db = f"comp_{uuid.uuid4().hex[:8]}"
    layout = cluster.metastore.layout
    built = build_replica(
        cluster.metastore.uri,
        target.metastore,
        db=db,
        roots=[f"file:{layout.warehouse}", f"file:{layout.external}", f"file:{layout.cmroot}"],
        start=False,
    )
    built.target.create_database(Database(name=built.policy.target_db))
    with closing(built.projection):
        yield built


def compact(replica: Replica, table: str, kind: CompactionType) -> None:
    """Compact a table and wait until the replaced directories are removed."""
    db = replica.policy.source_db
    assert replica.source.compact(db, table, kind=kind).accepted
    root = path_of(replica.source.get_table(db, table))
    wait_until(lambda: all("_v" in path.name for path in root.iterdir() if path.name.startswith(("d", "b"))))


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def differences(replica: Replica, ours: Session, target: ClusterEndpoints) -> list[str]:  # noqa: F811 - likewise
    with Session.connect(target.sql) as theirs:
        sides = (
            Side(replica.source, ours, replica.policy.source_db),
            Side(replica.target, theirs, replica.policy.target_db),
        )
        return compare_databases(*sides, QUERIES).list_differences()


def test_compacted_tables_are_loaded_also_if_a_compaction_replaces_the_listed_files(
    cluster: HiveCluster,
    replica: Replica,
    target: ClusterEndpoints,  # noqa: F811 - likewise
) -> None:
    db = replica.policy.source_db
    with cluster.sql() as sql:
        create_source(sql, db)
        for table in QUERIES:
            sql.run(f"create table {db}.{table} (id int) {ACID}")
            for number in (1, 2, 3):
                sql.run(f"insert into {db}.{table} values ({number})")
            sql.run(f"delete from {db}.{table} where id = 2")
        roll_back(sql, f"insert into {db}.major values (666)")
        compact(replica, "major", CompactionType.MAJOR)
        compact(replica, "minor", CompactionType.MINOR)
        load_all(replica)
        assert differences(replica, sql, target) == []

        class Compacting(RecordedProgress):
            def listed(self, table: str, files: int, size_bytes: int) -> None:  # noqa: ARG002 - part of the port
                if not self.restarts:
                    compact(replica, "later", CompactionType.MAJOR)

        progress = Compacting()
        load_table(waiting_load("later"), load_tools(replica), progress)
        assert progress.restarts
        found = differences(replica, sql, target)
        # The compactor renews the statistics afterwards; replay brings them.
        assert [line for line in found if not line.startswith("later: statistics")] == []
