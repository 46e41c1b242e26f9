"""A flat table in an object store while daemon, driver, JVM and executors are killed;
its source is a topic or a directory of the store.

``make s3`` runs these tests with a store; without one they are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dev.stack.downloads.jars import locate_jars, read_lock
from dev.stack.endpoints import ClusterEndpoints
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database
from tests.builders.components.object_store import TestStore, hadoop_jars, hive_with_store
from tests.builders.components.remote_files import open_directory
from tests.builders.components.spark_cluster import SparkCluster
from tests.builders.flat.configured_table import ConfiguredTable
from tests.builders.flat.feeds import DirectoryFeed, Feed, TopicFeed
from tests.builders.flat.kills.archived_spark import _use_archived_spark, archived_spark
from tests.builders.flat.kills.daemon_kills import VICTIMS, KilledDaemon, survive_random_kills
from tests.builders.flat.kills.driver_kills import Killed
from tests.builders.flat.kills.executor_kills import ROWS, survive_executor_kills
from tests.builders.flat.kills.step_kills import (
    survive_kills_in_a_narrowing,
    survive_kills_in_a_promotion,
    survive_kills_in_a_reuse,
    survive_kills_in_batches,
    survive_kills_in_seals,
)
from tests.integration.conftest import database, kafka, stack, store, topic


__all__ = ["_use_archived_spark", "archived_spark", "database", "kafka", "stack", "store", "topic"]

pytestmark = pytest.mark.crash
SEED = 44
ROUNDS = 10


@pytest.fixture(scope="module")
def source(
    store: TestStore,  # noqa: F811 - fixtures, by their names
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ClusterEndpoints]:
    """A cluster whose metastore and engine have the object store's client among their jars."""
    with hive_with_store(store, tmp_path_factory.mktemp("hive")) as endpoints:
        yield endpoints


@pytest.fixture
def bucket(store: TestStore) -> str:  # noqa: F811 - a fixture, by its name
    return store.new_bucket()


@pytest.fixture(params=["directory", "topic"])
def feed(
    request: pytest.FixtureRequest,
    bucket: str,
    kafka: str,  # noqa: F811 - fixtures, by their names
    topic: str,  # noqa: F811
) -> Feed:
    """A directory of the store, or a topic."""
    if request.param == "directory":
        open_directory(bucket).write("landing/.created", b"")
        return DirectoryFeed(f"{bucket}/landing")
    return TopicFeed(kafka, topic, records=2 * ROWS + 4 if request.param == "large batches" else 30)


@pytest.fixture
def given(  # noqa: PLR0917
    feed: Feed,
    bucket: str,
    store: TestStore,  # noqa: F811 - fixtures, by their names
    source: ClusterEndpoints,
    database: str,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, Any]:
    """The arguments of a table; its processes find the keys of the store in their environment."""
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    with closing(Metastore(source.metastore)) as metastore:
        metastore.create_database(Database(name=database))
    return {
        "base": tmp_path / "base",
        "database": database,
        "metastore_uri": source.metastore,
        "sql": source.sql,
        "feed": feed,
        "elsewhere": {"location": f"{bucket}/table", "checkpoint": f"{bucket}/checkpoint"},
        "conf": {"spark.jars": ",".join(map(str, hadoop_jars())), **store.configured},
    }


@pytest.fixture
def killed(given: dict[str, Any]) -> Killed:
    """A table whose driver is killed."""
    table = Killed(**given)
    # The test's own program replaces Tideline's choice of jars.
    table.conf["spark.jars"] += "," + ",".join(map(str, locate_jars(read_lock("spark-kafka"))))
    return table


@pytest.mark.parametrize("feed", ["topic"], indirect=True)
def test_killed_at_every_step_of_a_batch_no_row_is_lost_or_duplicated(killed: Killed) -> None:
    survive_kills_in_batches(killed)


@pytest.mark.parametrize("feed", ["directory"], indirect=True)
def test_killed_at_every_step_of_a_seal_no_row_is_lost_or_duplicated(killed: Killed) -> None:
    survive_kills_in_seals(killed)


@pytest.mark.parametrize("feed", ["topic"], indirect=True)
def test_killed_at_every_step_of_a_promotion_values_stay_correct(killed: Killed) -> None:
    survive_kills_in_a_promotion(killed)


@pytest.mark.parametrize("feed", ["directory"], indirect=True)
def test_killed_at_every_step_of_a_narrowing_values_stay_correct(killed: Killed) -> None:
    survive_kills_in_a_narrowing(killed)


@pytest.mark.parametrize("feed", ["topic"], indirect=True)
def test_killed_at_every_step_of_a_slots_reuse_no_reader_sees_the_old_keys_values(killed: Killed) -> None:
    survive_kills_in_a_reuse(killed)


def test_random_victims_are_killed_at_random_steps_and_no_row_is_lost_or_duplicated(
    given: dict[str, Any], tmp_path: Path
) -> None:
    table = KilledDaemon(**given, directory=tmp_path / "daemon")
    try:
        killed = survive_random_kills(table, Random(SEED), ROUNDS)  # noqa: S311 - a test
    finally:
        table.stop()
    assert {victim for _, victim in killed} == set(VICTIMS)


@pytest.mark.parametrize("feed", ["large batches"], indirect=True)
def test_no_row_is_lost_or_duplicated_if_an_executor_and_the_driver_are_killed(
    given: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "daemon").mkdir()
    with SparkCluster(tmp_path / "cluster", cores=3) as cluster:
        table = ConfiguredTable(**given, directory=tmp_path / "daemon")
        survive_executor_kills(table, cluster.master.url, cluster.worker.executors, cluster.kill_an_executor)
