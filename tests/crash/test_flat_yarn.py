"""A flat table whose executors are containers of YARN; one of them is killed in a batch, then the driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyspark
import pytest

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.servers.yarn import Yarn
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database
from tests.builders.components.availability import start_or_skip
from tests.builders.components.spark_cluster import use_spark_of_image
from tests.builders.components.yarn_containers import executors, kill_an_executor
from tests.builders.flat.feeds import TopicFeed
from tests.builders.flat.kills.executor_kills import ROWS, LocalTable, survive_executor_kills
from tests.integration.conftest import database, kafka, source, stack, topic


__all__ = ["database", "kafka", "source", "stack", "topic"]

pytestmark = pytest.mark.crash


@pytest.fixture
def yarn(tmp_path: Path) -> Iterator[Yarn]:
    """A cluster of one node."""
    cluster = Yarn(tmp_path / "yarn")
    with start_or_skip("YARN"):
        cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
def table(  # noqa: PLR0913, PLR0917 - fixtures
    source: ClusterEndpoints,  # noqa: F811 - fixtures, by their names
    database: str,  # noqa: F811
    kafka: str,  # noqa: F811
    topic: str,  # noqa: F811
    yarn: Yarn,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> LocalTable:
    use_spark_of_image(tmp_path / "packages", monkeypatch)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn.conf))
    with closing(Metastore(source.metastore)) as metastore:
        metastore.create_database(Database(name=database))
    (tmp_path / "daemon").mkdir()
    return LocalTable(
        Path(source.external) / database,
        database,
        source.metastore,
        source.sql,
        feed=TopicFeed(kafka, topic, records=2 * ROWS + 4),
        directory=tmp_path / "daemon",
        conf={
            # Nodes that have Spark need not receive its 400 MB of jars.
            "spark.yarn.jars": f"local:{Path(pyspark.__path__[0])}/jars/*",
            "spark.yarn.stagingDir": f"file:{tmp_path}/staging",
            "spark.yarn.am.memory": "512m",
        },
    )


def test_no_row_is_lost_or_duplicated_if_an_executor_and_the_driver_are_killed(
    table: LocalTable, yarn: Yarn
) -> None:
    survive_executor_kills(table, "yarn", lambda: executors(yarn), lambda: kill_an_executor(yarn))
