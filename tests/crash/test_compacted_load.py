"""Loads of tables that Hive's own compactor has compacted, and compacts meanwhile. The source is a cluster of
this test."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from dev.demo.compare import Side, compare_databases
from dev.stack import cli, preflight
from dev.stack.cluster import HiveCluster
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.settings import ClusterSettings
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from handlers.replication.loading.bootstrap_run import BootstrapOptions, SilentBootstrap
from handlers.replication.loading.table.tools import LoadSettings
from handlers.structs.transactions import CompactionType
from tests.builders.replication.many_tables import path_of
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.small_workload import ACID, create_source, roll_back
from tests.integration.conftest import stack, target


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


@dataclass
class Compacting(SilentBootstrap):
    """Compacts the table ``later`` once its files are listed and not copied yet."""

    compact_later: Callable[[], None]
    restarts: list[str] = field(default_factory=list)

    def listed(self, table: str, files: int, size_bytes: int) -> None:  # noqa: ARG002 - part of the port
        if table == "later" and not self.restarts:
            self.compact_later()

    def restarted(self, table: str, reason: str) -> None:
        self.restarts.append(f"{table}: {reason}")


def compact(source: Metastore, db: str, table: str, kind: CompactionType) -> None:
    """Compact a table and wait until the replaced directories are removed."""
    assert source.compact(db, table, kind=kind).accepted
    root = path_of(source.get_table(db, table))
    wait_until(lambda: all("_v" in path.name for path in root.iterdir() if path.name.startswith(("d", "b"))))


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def follow_and_compare(replica: Replica, ours: Session, theirs: Session) -> list[str]:
    """Replay everything and return the differences.

    The statistics of ``major`` are those of its aborted write id. The load leaves out their mark of accuracy;
    the source takes them for accurate again once the compaction has made it forget the abort, for which there
    is no event.
    """
    replica.follow()
    sides = (
        Side(replica.source, ours, replica.policy.source_db),
        Side(replica.target, theirs, replica.policy.target_db),
    )
    found = compare_databases(*sides, QUERIES).list_differences()
    forgotten = ("major: parameter COLUMN_STATS_ACCURATE", "major: statistics of")
    return [line for line in found if not line.startswith(forgotten)]


def test_compacted_tables_are_loaded_also_if_a_compaction_replaces_the_listed_files(
    cluster: HiveCluster,
    target: ClusterEndpoints,  # noqa: F811 - a fixture asks for fixtures by their names
) -> None:
    db = f"comp_{uuid.uuid4().hex[:8]}"
    with cluster.sql() as sql, closing(Metastore([cluster.metastore.uri])) as compactor:
        create_source(sql, db)
        for table in QUERIES:
            sql.run(f"create table {db}.{table} (id int) {ACID}")
            for number in (1, 2, 3):
                sql.run(f"insert into {db}.{table} values ({number})")
            sql.run(f"delete from {db}.{table} where id = 2")
        roll_back(sql, f"insert into {db}.major values (666)")
        compact(compactor, db, "major", CompactionType.MAJOR)
        compact(compactor, db, "minor", CompactionType.MINOR)
        progress = Compacting(lambda: compact(compactor, db, "later", CompactionType.MAJOR))
        layout = cluster.metastore.layout
        replica = build_replica(
            cluster.metastore.uri,
            target.metastore,
            db=db,
            roots=[f"file:{layout.warehouse}", f"file:{layout.external}", f"file:{layout.cmroot}"],
            bootstrap=BootstrapOptions(LoadSettings(poll_s=0.05), progress=progress),
        )
        with closing(replica.projection), Session.connect(target.sql) as theirs:
            replica.projection.open()
            assert progress.restarts
            for table, query in QUERIES.items():
                rows = theirs.rows(query.format(db=replica.policy.target_db))
                assert rows == [("1",), ("3",)], table
            # The compactor renews the statistics some time after a compaction; replay brings them.
            deadline = time.monotonic() + TIMEOUT_S
            while found := follow_and_compare(replica, sql, theirs):
                assert time.monotonic() < deadline, found
