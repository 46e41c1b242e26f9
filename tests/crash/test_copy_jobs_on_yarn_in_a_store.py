"""A copy job within an object store whose executors are containers of YARN;
one of them is killed while it copies.

``TIDELINE_TEST_S3`` names the store (``make s3`` starts one); without it there is nothing to run against.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from dev.stack.servers.yarn import Yarn
from tests.builders.components.availability import start_or_skip
from tests.builders.components.executor_python import OBJECT_STORE, make_python
from tests.builders.components.object_store import TestStore
from tests.builders.components.yarn_containers import kill_an_executor
from tests.builders.replication.copied_files import BYTES_PER_S, CopiedFiles
from tests.builders.replication.spark_jobs import JAVA, spark_jobs
from tests.integration.conftest import store


__all__ = ["store"]

pytestmark = pytest.mark.crash


@pytest.fixture
def yarn(
    store: TestStore,  # noqa: ARG001, F811 - without a store, nothing is started
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Yarn]:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    cluster = Yarn(tmp_path / "yarn")
    with start_or_skip("YARN"):
        cluster.start()
    monkeypatch.setenv("HADOOP_CONF_DIR", str(cluster.conf))
    yield cluster
    cluster.stop()


def test_containers_copy_within_a_store_although_one_is_killed(
    store: TestStore,  # noqa: F811 - a fixture asks for fixtures by their names
    yarn: Yarn,
    tmp_path: Path,
) -> None:
    options = {"s3a": store.arrow}
    files = CopiedFiles(f"{store.new_bucket()}/files", options)
    conf = {
        "spark.yarn.jars": f"local:{Path(pyspark.__path__[0])}/jars/*",
        "spark.yarn.stagingDir": f"file:{tmp_path}/staging",
        "spark.yarn.am.memory": "512m",
        "spark.pyspark.python": str(make_python(tmp_path / "environment", OBJECT_STORE)),
        "spark.driver.extraJavaOptions": JAVA,
        "spark.executor.extraJavaOptions": JAVA,
    }
    jobs = spark_jobs(
        [str(files.source)],
        master="yarn",
        spark={"executors": 2, "executor_cores": 1, "executor_memory": "512m", "conf": conf},
        options=options,
        bytes_per_s_max=BYTES_PER_S,
        files_at_once=2,
    )
    files.check(files.run(jobs, lambda: kill_an_executor(yarn)))
