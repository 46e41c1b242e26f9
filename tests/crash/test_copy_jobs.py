"""Copy jobs on a Spark cluster with executors in separate processes, which are killed while they copy.

Copies are slowed down, so that every kill meets some that are not finished.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from state.errors import ConfigError
from tests.builders.components.spark_cluster import SparkCluster
from tests.builders.replication.copied_files import BYTES_PER_S, CopiedFiles, kill_the_driver
from tests.builders.replication.spark_jobs import spark_jobs


pytestmark = pytest.mark.crash

DEADLINE_S = 600.0
"""How long a failing test waits; generous, because a busy machine must not fail a test."""
EXECUTORS = {"executors": 2, "executor_cores": 1, "executor_memory": "512m"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path / "cluster", cores=3) as running:
        yield running


@pytest.fixture
def files(tmp_path: Path) -> CopiedFiles:
    return CopiedFiles(f"file:{tmp_path}")


def test_a_job_completes_although_an_executor_is_killed(cluster: SparkCluster, files: CopiedFiles) -> None:
    jobs = spark_jobs(
        [str(files.source)],
        master=cluster.master.url,
        spark=EXECUTORS,
        bytes_per_s_max=BYTES_PER_S,
        files_at_once=2,
    )
    files.check(files.run(jobs, cluster.kill_an_executor))
    assert jobs.counters.failed == 0


def test_a_job_completes_although_its_driver_is_killed(cluster: SparkCluster, files: CopiedFiles) -> None:
    jobs = spark_jobs(
        [str(files.source)],
        master=cluster.master.url,
        spark=EXECUTORS,
        bytes_per_s_max=BYTES_PER_S,
        files_at_once=2,
    )
    files.check(files.run(jobs, kill_the_driver))
    deadline = time.monotonic() + DEADLINE_S
    while cluster.worker.executors():  # they end by themselves, once their driver has
        assert time.monotonic() < deadline


def test_a_job_on_one_machine_completes_although_its_driver_is_killed(files: CopiedFiles) -> None:
    jobs = spark_jobs([str(files.source)], bytes_per_s_max=BYTES_PER_S, files_at_once=2)
    files.check(files.run(jobs, kill_the_driver))


def test_executors_without_python_are_a_wrong_setting_that_is_named(
    cluster: SparkCluster, files: CopiedFiles
) -> None:
    conf = {"spark.pyspark.python": "/there/is/no/python"}
    jobs = spark_jobs([str(files.source)], master=cluster.master.url, spark={**EXECUTORS, "conf": conf})
    with pytest.raises(ConfigError, match=r"/there/is/no/python.*Set spark\.pyspark\.python"):
        jobs.run(files.copies, guard=lambda: None, stopping=threading.Event())
    assert files.published() == {}
    assert files.hidden() == []
