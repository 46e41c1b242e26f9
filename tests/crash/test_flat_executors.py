"""A flat table with executors in separate processes: a Spark cluster on one machine, run by the product's own command.

Nothing of this works in the driver itself any more: tasks read the topic, split and write in other JVMs, which have neither Python
nor Spark's Kafka source of their own. One of them is killed in the middle of a batch, then the driver; at the end everything that
the topic holds is in the table or in the dead letters, once.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from daemon.process.children.child import Child
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database
from tests.builders.components.spark_cluster import EXECUTORS, SparkCluster, use_spark_of_image
from tests.builders.flat.configured_table import ConfiguredTable, has_caught_up, listen
from tests.builders.flat.feeds import TopicFeed
from tests.integration.conftest import database, kafka, source, stack, topic


if TYPE_CHECKING:
    from collections.abc import Iterator

    from dev.stack.endpoints import ClusterEndpoints

__all__ = ["database", "kafka", "source", "stack", "topic"]

pytestmark = pytest.mark.crash
ROWS = 5_000
PAD = "x" * 1_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    """More cores than the table may use."""
    with SparkCluster(tmp_path / "cluster", cores=3) as running:
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
) -> OnCluster:
    with closing(Metastore(source.metastore)) as metastore:
        metastore.create_database(Database(name=database))
    feed = TopicFeed(kafka, topic, records=2 * ROWS + 4)
    base = Path(source.external) / database
    return OnCluster(base, database, source.metastore, source.sql, feed=feed, directory=tmp_path)


@dataclass
class OnCluster(ConfiguredTable):
    """A table whose driver has remote executors, on a disk."""

    def is_writing(self) -> bool:
        """Whether a task of a batch has begun to write a file."""
        return any((self.base / "table").glob(".staging/*/_temporary/0/_temporary/attempt_*/to=*/part-*.orc"))

    def staged(self) -> list[str]:
        """Return the content of the staging directory."""
        return sorted(path.name for path in (self.base / "table" / ".staging").iterdir())


def test_no_row_is_lost_or_duplicated_if_an_executor_and_the_driver_are_killed(
    cluster: SparkCluster, spark_with_kafka: None, table: OnCluster
) -> None:
    table.spark = {"master": cluster.master.url, **EXECUTORS}
    table.land(range(2), lambda n: n % 100, count=ROWS, pad=PAD, late="x")
    with Child(table.command("run")) as driver:
        listen(driver, None, table.is_writing)
        assert set(cluster.worker.executors()) == {0, 1}
        first = cluster.kill_an_executor()
        listen(driver, has_caught_up)
        assert "ExecutorLostFailure" in table.tasks_lost()
        assert table.staged() == []
        assert first not in cluster.worker.executors()
    # Not while a driver runs, which would remove files that it replaces while Hive reads them.
    table.finished = table.check()
    assert table.finished == set(table.events) | table.lost
    with Child(table.command("run")) as driver:
        table.land(range(2, 4), lambda n: 10**5 * n, count=ROWS, pad=PAD, late="x")
        listen(driver, None, table.is_writing)
    table.check()

    table.land(range(4, 5), lambda n: "007" if n == 7 else n)
    table.ends_well()
    table.keys = [*table.keys, "late"]
    table.land(range(5, 7), lambda n: n, late="y")
    table.run()
    raw = table.base / "raw"
    raw.mkdir()
    (raw / "all.json").write_text("".join(f"{line}\n" for line in table.source.sent()))
    table.complete("backfill")
    table.ends_well()
    assert table.staged() == []
