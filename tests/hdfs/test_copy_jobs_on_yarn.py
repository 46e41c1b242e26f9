"""Copy jobs whose executors are containers of YARN, from HDFS to HDFS: killed executors, drivers and daemons.

The nodes have no configuration of HDFS and no Tideline. Their Python has only the packages that the
documentation names, and is either installed on the nodes or an archive on HDFS. The daemon's user of HDFS is
not the user that runs the containers.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hdfs_native
import pyspark
import pytest

from daemon.replica.copy_jobs.runner import SparkJobs
from daemon.replica.external.status import EXTERNAL
from daemon.status.model import DaemonStatus
from dev.stack.cluster import Stack
from dev.stack.hive.sql_session import Session
from dev.stack.servers.hdfs import Hdfs
from dev.stack.servers.yarn import Yarn
from handlers.files.paths import parse_location
from handlers.files.systems.schemes import open_file_systems
from state.errors import NotFound
from tests.builders.components.availability import start_or_skip
from tests.builders.components.executor_python import make_python, pack_python
from tests.builders.components.yarn_containers import (
    executors,
    kill_an_executor,
    kill_the_application,
    kill_the_application_master,
)
from tests.builders.daemon.loops import eventually
from tests.builders.daemon.running_daemon import configured
from tests.builders.replication.copied_files import BYTES_PER_S, CopiedFiles, kill_the_driver
from tests.builders.replication.small_workload import ACID, create_source
from tests.builders.replication.spark_jobs import JAVA, spark_jobs


DEADLINE_S = 600.0
"""How long a failing test waits; generous, because a busy machine must not fail a test."""
USER = "tideline"
SPARK = {"master": "yarn", "executors": 2, "executor_cores": 1, "executor_memory": "512m"}
CONF = {
    # Nodes that have Spark need not receive its 400 MB of jars.
    "spark.yarn.jars": f"local:{Path(pyspark.__path__[0])}/jars/*",
    "spark.yarn.am.memory": "512m",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.extraJavaOptions": JAVA,
}


@pytest.fixture(scope="module")
def yarn(hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    """A cluster of one node, whose default file system is HDFS."""
    cluster = Yarn(tmp_path_factory.mktemp("yarn"), {"fs.defaultFS": hdfs.uri})
    with pytest.MonkeyPatch.context() as environment, start_or_skip("YARN"):
        environment.delenv("PYTHONPATH", raising=False)
        cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_python(tmp_path_factory.mktemp("python") / "environment")


@pytest.fixture
def on_yarn(yarn: Yarn, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a daemon on a machine that has Hadoop's configuration."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn.conf))
    monkeypatch.delenv("PYTHONPATH", raising=False)


@pytest.fixture
def home(hdfs: Hdfs, on_yarn: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """The directory of the daemon's user on HDFS, who is not the administrator."""
    administrator, directory = hdfs_native.Client(hdfs.uri), f"/user/{USER}"
    administrator.mkdirs(directory, 0o755, create_parent=True)
    administrator.set_owner(directory, USER)
    monkeypatch.setenv("HADOOP_USER_NAME", USER)
    return f"{hdfs.uri}{directory}"


def jobs_of(files: CopiedFiles, conf: Mapping[str, str]) -> SparkJobs:
    spark = {**SPARK, "conf": {**CONF, **conf}}
    given: dict[str, Any] = {"bytes_per_s_max": BYTES_PER_S, "files_at_once": 2}
    return spark_jobs([str(files.source)], master="yarn", spark=spark, **given)


def staged(home: str) -> list[str]:
    """Return the files that Spark has uploaded for applications."""
    client = hdfs_native.Client(home)
    return [each.path for each in client.list_status(f"/user/{USER}/.sparkStaging", recursive=True)]


@pytest.mark.parametrize("kill", [kill_an_executor, kill_the_application_master])
def test_a_job_completes_although_a_container_is_killed_and_all_files_belong_to_the_daemons_user(
    home: str, yarn: Yarn, python: Path, kill: Callable[[Yarn], int]
) -> None:
    files = CopiedFiles(f"{home}/{kill.__name__}")
    jobs = jobs_of(files, {"spark.pyspark.python": str(python)})
    files.check(files.run(jobs, lambda: kill(yarn)))
    assert jobs.counters.failed == 0
    for each in hdfs_native.Client(home).list_status(f"{files.target.path}/t"):
        assert (each.owner, stat.S_IMODE(each.permission)) == (USER, 0o644)
    assert staged(home) == []


def test_a_job_completes_although_its_driver_is_killed_and_leaves_nothing_on_the_cluster(
    home: str, yarn: Yarn, python: Path
) -> None:
    packed = pack_python(python.parents[1])
    files = CopiedFiles(f"{home}/killed_driver")
    archive = f"/user/{USER}/python.tar.gz"
    with hdfs_native.Client(home).create(archive) as writer:
        writer.write(packed.read_bytes())
    conf = {
        "spark.archives": f"{home}/python.tar.gz#environment",
        "spark.pyspark.python": "./environment/bin/python",
    }
    files.check(files.run(jobs_of(files, conf), kill_the_driver))
    eventually(lambda: executors(yarn) == [], DEADLINE_S)
    eventually(lambda: staged(home) == [], DEADLINE_S)


@pytest.mark.usefixtures("home")
def test_a_job_on_mounted_directories_completes_although_an_administrator_kills_its_application(
    yarn: Yarn, python: Path, tmp_path: Path
) -> None:
    files = CopiedFiles(f"file:{tmp_path}")
    jobs = jobs_of(files, {"spark.pyspark.python": str(python)})
    files.check(files.run(jobs, lambda: kill_the_application(yarn)))


EXT_FILES = 16
ROWS = ["x" * 99] * 1_000


@dataclass
class Shop:
    """A database with a transactional table of several writes, and an external table that another program
    fills."""

    clusters: Stack
    database: str

    def __post_init__(self) -> None:
        source, target = self.clusters.source.endpoints(), self.clusters.target.endpoints()
        self.root = f"{source.external}/{self.database}/ext"
        self.base = f"{target.external}/base_{self.database}"
        self.copied = parse_location(f"{self.base}{parse_location(self.root).path}")
        self.files = open_file_systems().of(self.copied)

    def create(self, sql: Session) -> None:
        create_source(sql, self.database)
        sql.run(f"create table {self.database}.orders (id int, item string) {ACID}")
        for number in range(4):
            sql.run(f"insert into {self.database}.orders values ({number}, 'item {number}')")
        sql.run(f"create external table {self.database}.ext (line string) location '{self.root}'")
        content = "".join(f"{row}\n" for row in ROWS).encode()
        for number in range(EXT_FILES):
            location = parse_location(f"{self.root}/{number}.txt")
            with self.files.create(location, len(content)) as writer:
                writer.write(memoryview(content))
                writer.publish()

    def published(self) -> list[str]:
        """Return the names of the files of the external table on the target, hidden ones included."""
        try:
            return [entry.name for entry in self.files.list(self.copied)]
        except NotFound:
            return []

    def is_half_copied(self) -> bool:
        visible = [name for name in self.published() if not name.startswith("._")]
        return len(visible) in range(3, EXT_FILES - 2)


def test_a_daemon_that_is_killed_while_containers_copy_for_it_completes_bootstrap_and_cycle(
    on_yarn: None,
    clusters: Stack,
    yarn: Yarn,
    python: Path,
    topic: str,
    database: str,
    source_sql: Session,
    target_sql: Session,
    tmp_path: Path,
) -> None:
    shop = Shop(clusters, database)
    shop.create(source_sql)
    policy = {
        "external_base": shop.base,
        "bootstrap": "auto",
        "external": {"every_s": 1},
        "copy_jobs": {
            "files_min": 1,
            "files_at_once": 1,
            "bytes_per_s_max": 150_000,
            "spark": {
                **SPARK,
                "driver_memory": "512m",
                "conf": {**CONF, "spark.pyspark.python": str(python)},
            },
        },
    }
    daemon = configured(tmp_path, clusters.endpoints(), topic=topic, database=database, policy=policy)
    with daemon:
        eventually(lambda: executors(yarn) != [], DEADLINE_S, pause_s=0.1)
    with daemon:
        eventually(shop.is_half_copied, DEADLINE_S, pause_s=0.1)
    eventually(lambda: executors(yarn) == [], DEADLINE_S, pause_s=0.1)
    assert len(shop.published()) < EXT_FILES + 2, "the kill met a job at work"
    with daemon:
        daemon.status_when(is_complete, DEADLINE_S)
        assert sorted(shop.published()) == sorted(f"{number}.txt" for number in range(EXT_FILES))
        for query in ("select * from {db}.orders order by id", "select line from {db}.ext"):
            rows = source_sql.rows(query.format(db=database))
            assert rows
            assert target_sql.rows(query.format(db=f"{database}_r")) == rows
        assert daemon.status_when(lambda _: True).needs_operator == ()
        verified = daemon.command("verify", "shop")
        assert verified.returncode == 0, verified.stdout + verified.stderr
        assert daemon.end() == 0


def is_complete(status: DaemonStatus) -> bool:
    """Whether the last cycle over external tables saw all files and found nothing to copy."""
    external = EXTERNAL.of(status)[0]
    return external.state == "idle" and external.files == EXT_FILES and external.failing == 0
