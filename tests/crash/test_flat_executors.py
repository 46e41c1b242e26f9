"""A flat table with executors in separate processes: a Spark cluster on one machine, run by the product's own command.

Nothing of this works in the driver itself any more: tasks read the topic, split and write in other JVMs, which have neither Python
nor Spark's Kafka source of their own. One of them is killed in the middle of a batch, then the driver; at the end everything that
the topic holds is in the table or in the dead letters, once.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
import yaml

from daemon.process.children.child import Child
from dev.stack.downloads.jars import locate_jars, read_lock
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database
from tests.builders.components.spark_cluster import SparkCluster
from tests.builders.flat.driver_kills import TABLE, Killed
from tests.builders.flat.feeds import TopicFeed
from tests.crash.programs.flat_program import SHORT_LIVED
from tests.integration.conftest import database, kafka, source, stack, topic


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from dev.stack.endpoints import ClusterEndpoints

__all__ = ["database", "kafka", "source", "stack", "topic"]

pytestmark = pytest.mark.crash
DEADLINE_S = 600.0
"""How long a failing test waits; generous, because a busy machine must not fail a test."""
ROWS = 5_000
PAD = "x" * 1_000
JAVA = SHORT_LIVED["spark.driver.extraJavaOptions"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    """More cores than the table may use."""
    with SparkCluster(tmp_path / "cluster", cores=3) as running:
        yield running


@pytest.fixture
def spark_with_kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PySpark as in the image, with the Kafka source among its jars; executors have one without."""
    own, image = Path(pyspark.__path__[0]), tmp_path / "packages" / "pyspark"
    (image / "jars").mkdir(parents=True)
    for entry in own.iterdir():
        if entry.name != "jars":
            (image / entry.name).symlink_to(entry)
    (image / "find_spark_home.py").unlink()  # it asks where it really is
    shutil.copy(own / "find_spark_home.py", image)
    for jar in [*(own / "jars").iterdir(), *locate_jars(read_lock("spark-kafka"))]:
        (image / "jars" / jar.name).symlink_to(jar)
    monkeypatch.setenv("PYTHONPATH", str(image.parent))
    monkeypatch.setenv("PYSPARK_PYTHON", "/there/is/no/python")


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
    return OnCluster(base, database, source.metastore, source.sql, feed=feed, commands=tmp_path)


@dataclass
class OnCluster(Killed):
    """A table whose driver has remote executors."""

    commands: Path = Path()
    master: str = ""

    def run(self, failpoint: str = "", *, follow: bool = False) -> int:
        """Run the product's command until the source is exhausted."""
        assert not failpoint
        assert not follow
        return self.ordered("run", "--once")

    def ordered(self, *words: str) -> int:
        """Run a command to its end; return its exit code."""
        command = self.command(*words)
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]
        return done.returncode

    def command(self, word: str, *options: str) -> list[str]:
        """Return a command after writing its configuration for the current table."""
        path = self.commands / "tideline.yaml"
        path.write_text(yaml.safe_dump(self.configuration()))
        return [sys.executable, "-m", "daemon", "split", word, "events", *options, "-c", str(path)]

    def configuration(self) -> dict[str, Any]:
        feed, events = self.source, self.commands / "spark-events"
        events.mkdir(exist_ok=True)
        assert isinstance(feed, TopicFeed)
        return {
            "targets": {"lake": {"metastore": [self.metastore_uri]}},
            "kafka": {"bootstrap": feed.bootstrap},
            "flat": {
                "events": {
                    "table": f"{self.database}.{TABLE}",
                    "raw_table": f"{self.database}.events",
                    "raw_files": f"file:{self.base}/raw",
                    "cluster": "lake",
                    "location": f"file:{self.base}/table",
                    "source": {"kind": "kafka", "topic": feed.topic, "records_per_batch": feed.records},
                    "event_time": {"key": "epoch", "lateness_s": 0},
                    "rules": {"whitelist": list(self.keys)},
                    "trigger_s": 0,
                    "spark": {
                        "master": self.master,
                        "driver_memory": "1g",
                        "executors": 2,
                        "executor_cores": 1,
                        "executor_memory": "1g",
                        "conf": {
                            "spark.driver.extraJavaOptions": JAVA,
                            "spark.executor.extraJavaOptions": JAVA,
                            "spark.eventLog.enabled": True,
                            "spark.eventLog.dir": f"file:{events}",
                            "spark.eventLog.compress": False,
                            "spark.eventLog.rolling.enabled": False,
                        },
                    },
                }
            },
            "state": {"dir": str(self.commands / "state")},
        }

    def is_writing(self) -> bool:
        """Whether a task of a batch has begun to write a file."""
        return any((self.base / "table").glob(".staging/*/_temporary/0/_temporary/attempt_*/to=*/part-*.orc"))

    def staged(self) -> list[str]:
        """Return the content of the staging directory."""
        return sorted(path.name for path in (self.base / "table" / ".staging").iterdir())

    def tasks_lost(self) -> list[str]:
        """Return why tasks failed in all runs, according to Spark's event log."""
        ends = [
            json.loads(line)["Task End Reason"]["Reason"]
            for log in (self.commands / "spark-events").iterdir()
            for line in log.read_text().splitlines()
            if '"Event":"SparkListenerTaskEnd"' in line and line.endswith("}")
        ]
        return [reason for reason in ends if reason != "Success"]


def listened(
    driver: Child,
    until: Callable[[Mapping[str, Any]], bool] | None,
    now: Callable[[], bool] | None = None,
) -> None:
    """Read the driver's events until one arrives, or ``now`` returns true."""
    deadline, heard = time.monotonic() + DEADLINE_S, []
    while time.monotonic() < deadline and driver.exit_code is None:
        events, output = driver.listen(0.02)
        heard += output
        if (now is not None and now()) or (until is not None and any(map(until, events))):
            return
    raise AssertionError("\n".join(heard[-40:]))


def test_no_row_is_lost_or_duplicated_if_an_executor_and_the_driver_are_killed(
    cluster: SparkCluster, spark_with_kafka: None, table: OnCluster
) -> None:
    table.master = cluster.master.url
    table.land(range(2), lambda n: n % 100, count=ROWS, pad=PAD, late="x")
    with Child(table.command("run")) as driver:
        listened(driver, None, table.is_writing)
        assert set(cluster.worker.executors()) == {0, 1}
        first = cluster.kill_an_executor()
        listened(
            driver, lambda event: sum(event.get("lag", {}).values()) == 0 and event["event"] == "progress"
        )
        table.finished = table.check()
        assert table.finished == set(table.events) | table.lost
        assert "ExecutorLostFailure" in table.tasks_lost()
        assert table.staged() == []
        assert first not in cluster.worker.executors()

        table.land(range(2, 4), lambda n: 10**5 * n, count=ROWS, pad=PAD, late="x")
        listened(driver, None, table.is_writing)
    table.check()

    table.land(range(4, 5), lambda n: "007" if n == 7 else n)
    table.ends_well()
    table.keys = [*table.keys, "late"]
    table.land(range(5, 7), lambda n: n, late="y")
    table.run()
    raw = table.base / "raw"
    raw.mkdir()
    (raw / "all.json").write_text("".join(f"{line}\n" for line in table.source.sent()))
    table.ordered("backfill")
    table.ends_well()
    assert table.staged() == []
