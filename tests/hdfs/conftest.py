"""Two Hive clusters whose warehouses and change managers are on HDFS, one set per session: six JVMs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dev.stack import cli, preflight
from dev.stack.cluster import Stack
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.settings import ClusterSettings
from dev.stack.hive.sql_session import Session
from dev.stack.servers.hdfs import Hdfs
from tests.builders.components import hdfs_files
from tests.builders.components.availability import start_or_skip
from tests.builders.replication.replica import Replica, build_replica
from tests.integration.conftest import database, topic
from tests.integration.flat.conftest import ignore_sockets, metastore, sockets_left, spark


__all__ = ["database", "metastore", "sockets_left", "spark", "topic"]

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything below this directory needs real components, whether it says so or not."""
    here = [item for item in items if item.path.is_relative_to(HERE)]
    for item in here:
        item.add_marker(pytest.mark.integration)
    ignore_sockets(here)


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    started = Hdfs(tmp_path_factory.mktemp("hdfs"))
    with start_or_skip("HDFS"):
        started.start()
    yield started
    started.stop()


def on_hdfs(uri: str, cluster: str) -> ClusterSettings:
    """Return the settings of a cluster with all its directories on HDFS."""
    return ClusterSettings(extra=hdfs_files.on_hdfs(uri, cluster))


@pytest.fixture(scope="session")
def clusters(hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    directory = tmp_path_factory.mktemp("clusters")
    preflight.check_all(directory)
    cli.fetch_all()
    running = Stack(directory, on_hdfs(hdfs.uri, "source"), on_hdfs(hdfs.uri, "target"))
    with start_or_skip("two clusters on HDFS"):
        running.start(engines=True)
    yield running
    running.stop()


@pytest.fixture
def source_sql(clusters: Stack) -> Iterator[Session]:
    with clusters.source.sql() as session:
        yield session


@pytest.fixture
def target_sql(clusters: Stack) -> Iterator[Session]:
    with clusters.target.sql() as session:
        yield session


@pytest.fixture
def replica(clusters: Stack, hdfs: Hdfs) -> Iterator[Replica]:
    """A policy for a database that does not exist yet."""
    built = build_replica(
        clusters.source.metastore.uri,
        clusters.target.metastore.uri,
        db=f"db_{uuid.uuid4().hex[:12]}",
        roots=[f"{hdfs.uri}/source"],
    )
    yield built
    built.projection.close()


@pytest.fixture(scope="session")
def source(clusters: Stack) -> ClusterEndpoints:
    """The cluster with the metastore of flat tables."""
    return clusters.source.endpoints()


@pytest.fixture(scope="session")
def kafka(clusters: Stack) -> str:
    """The broker's bootstrap address."""
    return clusters.kafka.bootstrap


@pytest.fixture
def place(hdfs: Hdfs, database: str) -> str:  # noqa: F811 - a fixture, by its name
    """A directory of the test on HDFS that does not exist yet."""
    return f"{hdfs.uri}/flat/{database}"


@pytest.fixture
def elsewhere(place: str) -> dict[str, Any]:
    """Table and checkpoint of flat tables on HDFS."""
    return {"location": f"{place}/table", "checkpoint": f"{place}/checkpoint"}
