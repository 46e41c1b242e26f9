"""Compactions by Hive's own compactor on either side are no difference, and rows are still compared.

The shared stack has no compactor. Each side gets a worker in a process of its own, which takes too long for
every run of the CI.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive import servers
from dev.stack.hive.settings import ClusterSettings
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from handlers.replication.policy.policy import Policy
from handlers.structs.transactions import CompactionType
from tests.builders.daemon.loops import eventually
from tests.builders.daemon.tideline_process import tideline, write_config
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.small_workload import ACID, create_source, roll_back
from tests.builders.replication.verification import verify
from tests.integration.conftest import source, stack, target


__all__ = ["source", "stack", "target"]

pytestmark = pytest.mark.crash

TABLES = {"here": (True, False), "there": (False, True), "either": (True, True)}
"""Tables, and whether the source and the target compact them."""
KINDS = {"minor": CompactionType.MINOR, "major": CompactionType.MAJOR}
DONE = {"ready for cleaning", "succeeded"}


@pytest.fixture(scope="module")
def workers(
    source: ClusterEndpoints,  # noqa: F811 - a fixture asks for fixtures by their names
    target: ClusterEndpoints,  # noqa: F811 - likewise
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """Compaction workers of both clusters: further SQL engines with directories of their own."""
    with ExitStack() as running:
        for name, cluster in (("source", source), ("target", target)):
            layout = servers.Metastore(
                tmp_path_factory.mktemp(name), settings=ClusterSettings(compactor=True)
            )  # not started: only its directories and settings are used
            engine = servers.SqlEngine(layout, metastore_uri=cluster.metastore)
            engine.start()
            running.callback(engine.stop)
        yield


@pytest.fixture
def replica(source: ClusterEndpoints, target: ClusterEndpoints) -> Iterator[Replica]:  # noqa: F811 - likewise
    db = f"compacted_{uuid.uuid4().hex[:8]}"
    roots = [source.warehouse, source.external, source.cmroot]
    built = build_replica(source.metastore, target.metastore, db=db, roots=roots)
    with closing(built.projection), Session.connect(source.sql) as sql:
        create_source(sql, db)
        for table in TABLES:
            sql.run(f"create table {db}.{table} (id int, word string) partitioned by (dt string) {ACID}")
            sql.run(f"insert into {db}.{table} values (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y')")
            sql.run(f"delete from {db}.{table} where id = 1")
            roll_back(sql, f"insert into {db}.{table} values (9, 'never', 'x')")
            sql.run(f"insert overwrite table {db}.{table} partition (dt='y') values (3, 'over')")
            sql.run(f"insert into {db}.{table} values (4, 'd', 'x'), (5, 'e', 'y')")
        built.follow()
        yield built


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.usefixtures("workers")
def test_compactions_of_either_side_are_counted_and_hide_no_rows(
    kind: str,
    replica: Replica,
    source: ClusterEndpoints,  # noqa: F811 - likewise
    target: ClusterEndpoints,  # noqa: F811 - likewise
    tmp_path: Path,
) -> None:
    policy = replica.policy
    for table, (at_source, on_target) in TABLES.items():
        if at_source:
            compact(replica.source, policy.source_db, table, KINDS[kind])
        if on_target:
            compact(replica.target, policy.target_db, table, KINDS[kind])
    replica.follow()
    for result in verify(replica, *TABLES).values():
        assert result.differences == ()
        assert dict(result.not_compared)["files"] >= 1
    config = configure(policy, source, target, tmp_path)
    done = tideline(config, "verify", "shop", "--rows", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {each["table"]: each["rows"] for each in json.loads(done.stdout)["tables"] if each["table"]}
    assert rows == dict.fromkeys(TABLES, 4)


# F811: a fixture asks for fixtures by their names
def configure(policy: Policy, source: ClusterEndpoints, target: ClusterEndpoints, directory: Path) -> Path:  # noqa: F811
    """Write a configuration with the policy ``shop``, and return its file."""
    values = {
        "sources": {
            "lake": {
                "metastore": [source.metastore],
                "topic": "none",
                "read_roots": [f"file:{source.warehouse}"],
            }
        },
        "targets": {"dr": {"metastore": [target.metastore]}},
        "policies": {
            "shop": {
                "source": "lake",
                "target": "dr",
                "database": policy.source_db,
                "target_database": policy.target_db,
            }
        },
        "kafka": {"bootstrap": "127.0.0.1:1"},
    }
    return write_config(directory, values)


@pytest.mark.usefixtures("workers")
def test_the_command_compacts_the_target_and_readers_see_the_same_rows_before_during_and_after(
    replica: Replica,
    source: ClusterEndpoints,  # noqa: F811 - likewise
    target: ClusterEndpoints,  # noqa: F811 - likewise
    tmp_path: Path,
) -> None:
    policy = replica.policy
    config = configure(policy, source, target, tmp_path)
    query = f"select * from {policy.target_db}.there order by id"
    with Session.connect(target.sql) as reader, Session.connect(source.sql) as writer:
        before = reader.rows(query)
        assert len(before) == 4
        queued = json.loads(tideline(config, "compact", "shop", "there", "--json").stdout)
        assert [each["accepted"] for each in queued["requested"]] == [True, True]
        while not is_idle(replica.target, policy.target_db, "there"):
            assert reader.rows(query) == before
        assert reader.rows(query) == before
        listed = json.loads(tideline(config, "compact", "shop", "there", "--list", "--json").stdout)
        assert {each["state"] for each in listed["compactions"]} & DONE
        writer.run(f"insert into {policy.source_db}.there values (7, 'later', 'x')")
        replica.follow()
        assert reader.rows(query) == [*before, ("7", "later", "x")]
    shown = tideline(config, "compact", "shop").stdout
    assert "there" in shown


def compact(metastore: Metastore, db: str, table: str, kind: CompactionType) -> None:
    """Compact both partitions of a table, and wait until readers see the result."""
    for dt in ("x", "y"):
        metastore.compact(db, table, partition_name=f"dt={dt}", kind=kind)
    eventually(lambda: is_idle(metastore, db, table))
    states = {
        each.state for each in metastore.show_compactions() if (each.dbname, each.tablename) == (db, table)
    }
    assert states & DONE, states


def is_idle(metastore: Metastore, db: str, table: str) -> bool:
    """Whether no compaction of the table waits or works."""
    return not any(
        each.state in {"initiated", "working"}
        for each in metastore.show_compactions()
        if (each.dbname, each.tablename) == (db, table)
    )
