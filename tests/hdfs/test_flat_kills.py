"""A flat table on HDFS of a running daemon and with remote executors, while daemon, driver, JVM and executors
are killed."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from dev.stack.endpoints import ClusterEndpoints
from handlers.metastore.client import Metastore
from tests.builders.components.remote_files import open_directory
from tests.builders.components.spark_cluster import SparkCluster
from tests.builders.flat.configured_table import ConfiguredTable
from tests.builders.flat.feeds import DirectoryFeed, Feed, TopicFeed
from tests.builders.flat.kills.archived_spark import _use_archived_spark, archived_spark
from tests.builders.flat.kills.daemon_kills import VICTIMS, KilledDaemon, survive_random_kills
from tests.builders.flat.kills.executor_kills import ROWS, survive_executor_kills


__all__ = ["_use_archived_spark", "archived_spark"]

SEED = 40
ROUNDS = 10


@pytest.fixture(params=["directory", "topic"])
def feed(request: pytest.FixtureRequest, place: str, kafka: str, topic: str) -> Feed:
    """A directory on HDFS, or a topic."""
    if request.param == "directory":
        open_directory(place).write("landing/.created", b"")
        return DirectoryFeed(f"{place}/landing")
    return TopicFeed(kafka, topic, records=2 * ROWS + 4 if request.param == "large batches" else 30)


@pytest.fixture
def given(
    feed: Feed, elsewhere: dict[str, Any], source: ClusterEndpoints, metastore: Metastore, tmp_path: Path
) -> dict[str, Any]:
    """The arguments of a table; ``metastore`` has made its database."""
    del metastore
    (tmp_path / "daemon").mkdir()
    return {
        "base": tmp_path / "base",
        "metastore_uri": source.metastore,
        "sql": source.sql,
        "feed": feed,
        "elsewhere": elsewhere,
        "directory": tmp_path / "daemon",
    }


def test_random_victims_are_killed_at_random_steps_and_no_row_is_lost_or_duplicated(
    given: dict[str, Any], database: str
) -> None:
    table = KilledDaemon(database=database, **given)
    try:
        killed = survive_random_kills(table, Random(SEED), ROUNDS)  # noqa: S311 - a test
    finally:
        table.stop()
    assert {victim for _, victim in killed} == set(VICTIMS)


@pytest.mark.parametrize("feed", ["large batches"], indirect=True)
def test_no_row_is_lost_or_duplicated_if_an_executor_and_the_driver_are_killed(
    given: dict[str, Any], database: str, tmp_path: Path
) -> None:
    with SparkCluster(tmp_path / "cluster", cores=3) as cluster:
        table = ConfiguredTable(database=database, **given)
        survive_executor_kills(table, cluster.master.url, cluster.worker.executors, cluster.kill_an_executor)
