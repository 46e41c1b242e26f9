"""A flat table with executors in separate processes:
a Spark cluster on one machine, run by the product's own command.

Nothing of this works in the driver itself any more: tasks read the topic, split and write in other JVMs,
which have neither Python nor Spark's Kafka source. All of them know a secret, and encrypt. One executor is
killed in the middle of a batch, then the driver; at the end everything that the topic holds is in the table
or in the dead letters, once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dev.stack.endpoints import ClusterEndpoints
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database
from tests.builders.components.spark_cluster import (
    AUTHENTICATED,
    SparkCluster,
    use_spark_of_image,
    write_secret,
)
from tests.builders.flat.feeds import TopicFeed
from tests.builders.flat.kills.executor_kills import ROWS, LocalTable, survive_executor_kills
from tests.integration.conftest import database, kafka, source, stack, topic


__all__ = ["database", "kafka", "source", "stack", "topic"]

pytestmark = pytest.mark.crash


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkCluster]:
    """More cores than the table may use, and a secret for all, as docs/FLAT.md describes it."""
    conf_dir = write_secret(tmp_path / "conf")
    monkeypatch.setenv("SPARK_CONF_DIR", str(conf_dir))
    with SparkCluster(tmp_path / "cluster", cores=3, conf_dir=conf_dir) as running:
        yield running


@pytest.fixture
def spark_with_kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PySpark as in the image, with the Kafka source among its jars; executors have one without."""
    use_spark_of_image(tmp_path / "packages", monkeypatch)


@pytest.fixture
def table(  # noqa: PLR0917
    source: ClusterEndpoints,  # noqa: F811 - fixtures, by their names
    database: str,  # noqa: F811
    kafka: str,  # noqa: F811
    topic: str,  # noqa: F811
    tmp_path: Path,
) -> LocalTable:
    with closing(Metastore(source.metastore)) as metastore:
        metastore.create_database(Database(name=database))
    feed = TopicFeed(kafka, topic, records=2 * ROWS + 4)
    base = Path(source.external) / database
    return LocalTable(base, database, source.metastore, source.sql, feed=feed, directory=tmp_path)


def test_no_row_is_lost_or_duplicated_if_an_executor_and_the_driver_are_killed(
    cluster: SparkCluster, spark_with_kafka: None, table: LocalTable
) -> None:
    table.conf = {**table.conf, **AUTHENTICATED}
    survive_executor_kills(table, cluster.master.url, cluster.worker.executors, cluster.kill_an_executor)
