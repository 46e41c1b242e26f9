"""Metastores and broker are killed and restarted while the daemon runs.
It recovers by itself, and the replica equals the source.

The test has its own stack, because the shared one must not be stopped. The target needs no SQL engine:
differences would show in its objects, write ids and files.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing

import pytest

from dev.stack import cli
from dev.stack.cluster import Stack
from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from tests.builders.daemon.running_daemon import RunningDaemon, configured
from tests.builders.replication.replica import build_replica
from tests.builders.replication.small_workload import ACID, PLAIN


DB = "rocky"


@pytest.fixture(scope="module")
def cluster(stack: Endpoints, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack that may be broken. It requests the shared one too, so that both are skipped on a machine
    without Java."""
    cli.fetch_all()
    with Stack(tmp_path_factory.mktemp("rocky")) as running:
        yield running


@pytest.fixture(scope="module")
def daemon(cluster: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDaemon]:
    made = configured(tmp_path_factory.mktemp("daemon"), cluster.endpoints(), topic="rocky", database=DB)
    made.bootstrap()
    with made:
        yield made


def insert(sql: Session, first: int, count: int) -> None:
    for number in range(first, first + count):
        sql.run(f"insert into {DB}.orders partition (dt='d{number % 2}') values ({number})")


def newest(cluster: Stack) -> int:
    return cluster.source.metastore.last_event_id()


def differences(cluster: Stack) -> list[str]:
    endpoints = cluster.endpoints()
    replica = build_replica(
        endpoints.source.metastore, endpoints.target.metastore, db=DB, roots=[], start=False
    )
    with closing(replica.projection):
        return replica.differences()


@pytest.mark.long
def test_restarts_of_every_component_are_survived(cluster: Stack, daemon: RunningDaemon) -> None:
    with cluster.source.sql() as sql:
        sql.run(f"create database if not exists {DB}")
        sql.run(f"create table {DB}.orders (id int) partitioned by (dt string) {ACID}")
        sql.run(f"create table {DB}.notes (id int) {PLAIN}")
        insert(sql, 0, 2)
        daemon.applied(newest(cluster))

        cluster.target.metastore.kill()
        insert(sql, 2, 4)
        cluster.target.metastore.start()
        behind = (
            daemon.status_when(lambda s: s.projections[0].state == "following").projections[0].event_id or 0
        )
        daemon.status_when(lambda s: (s.projections[0].event_id or 0) != behind)
        cluster.target.metastore.kill()
        cluster.target.metastore.start()

        cluster.source.metastore.restart()
    with cluster.source.sql() as sql:
        insert(sql, 6, 2)
        cluster.kafka.kill()
        sql.run(f"insert into {DB}.notes values (1)")
        cluster.kafka.start()
        sql.run(f"update {DB}.orders set id = 100 where id = 1")
        daemon.applied(newest(cluster))
    assert differences(cluster) == []
    status = daemon.status_when(lambda s: s.sources[0].relay_state == "following")
    assert status.projections[0].quarantined == ()


@pytest.mark.long
def test_a_killed_daemon_continues_at_its_position(cluster: Stack, daemon: RunningDaemon) -> None:
    with cluster.source.sql() as sql:
        sql.run(f"create database if not exists {DB}")
        sql.run(f"create table {DB}.later (id int) {ACID}")
        sql.run(f"insert into {DB}.later values (1)")
        daemon.end(signal.SIGKILL)
        sql.run(f"insert into {DB}.later values (2)")
        daemon.start()
        daemon.applied(newest(cluster))
        assert differences(cluster) == []
