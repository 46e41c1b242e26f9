"""Copy jobs: what executors get from the machine of the driver, and what is said about executors and clusters
that are not prepared."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from daemon.config.model import Config
from daemon.replica.copy_jobs.policy_jobs import copy_job_problems
from dev.stack.servers.hdfs import render_site
from handlers.events import SourceFile
from handlers.files.copying.copies import CopyTask
from handlers.files.copying.jobs import SizedTask, create_fence
from handlers.files.paths import parse_location
from handlers.files.systems.schemes import open_file_systems
from state.errors import ConfigError, Transient
from streaming.copyjob import job
from streaming.copyjob.job import JobSettings, run_job, share_environment
from streaming.copyjob.share import ShareSettings, copy_share, write_copy
from streaming.driver import session
from streaming.settings import SparkSettings


@contextmanager
def umask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def settings(
    master: str = "yarn",
    options: Mapping[str, Mapping[str, object]] | None = None,
    conf: Mapping[str, str] | None = None,
) -> JobSettings:
    return JobSettings(ShareSettings((), "file:/f", options or {}), SparkSettings(master, conf=conf or {}))


@pytest.fixture
def hadoop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory with Hadoop's configuration on the machine of the daemon."""
    (tmp_path / "core-site.xml").write_text(render_site({"fs.defaultFS": "hdfs://lake", "x": "y"}))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("HADOOP_USER_NAME", "tideline")
    return tmp_path


@pytest.mark.usefixtures("hadoop")
def test_executors_get_the_settings_of_hdfs_the_user_and_the_umask_of_the_daemon() -> None:
    with umask(0o027):
        shared = share_environment(settings(options={"hdfs": {"dfs.replication": 1}, "s3a": {"region": "r"}}))
    assert shared.share.options == {
        "hdfs": {"fs.defaultFS": "hdfs://lake", "dfs.replication": 1},
        "viewfs": {"fs.defaultFS": "hdfs://lake"},
        "s3a": {"region": "r"},
    }
    assert shared.spark.conf["spark.executorEnv.HADOOP_USER_NAME"] == "tideline"
    assert shared.share.umask == 0o027


@pytest.mark.usefixtures("hadoop")
def test_configured_values_take_precedence() -> None:
    conf = {"spark.executorEnv.HADOOP_USER_NAME": "me", "spark.executorEnv.HADOOP_CONF_DIR": "/etc/hadoop"}
    given = settings(options={"hdfs": {"fs.defaultFS": "hdfs://mine"}}, conf=conf)
    shared = share_environment(given)
    assert (shared.share.options, shared.spark.conf) == (given.share.options, conf)


def test_the_content_of_a_configured_directory_replaces_its_path(hadoop: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "hdfs-site.xml").write_text(render_site({"dfs.nameservices": "pond"}))
    shared = share_environment(settings(options={"hdfs": {"config_dir": str(other)}}))
    assert shared.share.options["hdfs"] == {"dfs.nameservices": "pond"}
    assert shared.share.options["viewfs"] == {"fs.defaultFS": "hdfs://lake"}
    assert hadoop == tmp_path


@pytest.mark.usefixtures("hadoop")
def test_executors_inside_of_the_driver_have_its_environment_already() -> None:
    given = settings("local[2]")
    assert share_environment(given) is given


def test_copies_get_the_mode_that_the_daemon_would_give_them(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"x")
    target = f"file:{tmp_path}/out"
    fence = create_fence(open_file_systems(), parse_location(target))
    task = SizedTask(CopyTask(SourceFile(f"file:{tmp_path}/in/a"), f"{target}/t/a", target), 1)
    with umask(0o077):  # that of a container
        given = ShareSettings((f"file:{tmp_path}/in",), str(fence), umask=0o022)
        copy_share(given, [(0, write_copy(task))])
    found = [(tmp_path / "out" / path).stat().st_mode & 0o777 for path in ("t", "t/a")]
    assert found == [0o755, 0o644]


@pytest.mark.parametrize(
    ("text", "message", "context"),
    [
        (
            'Cannot run program "/opt/x/python": error=2, No such file or directory',
            "do not have this Python",
            {"path": "/opt/x/python"},
        ),
        (
            (
                "Exception: Python in worker has different version: 3.9 than that in driver: 3.11, PySpark "
                "cannot run"
            ),
            "another version of Python",
            {"reason": "Python in worker has different version: 3.9 than that in driver: 3.11"},
        ),
        (
            "ModuleNotFoundError: No module named 'hdfs_native'",
            "lack a Python package",
            {"package": "hdfs_native"},
        ),
    ],
)
def test_executors_without_a_usable_python_are_a_wrong_setting(
    text: str, message: str, context: dict[str, str]
) -> None:
    found = job._describe_failure(text)
    assert isinstance(found, ConfigError)
    assert message in found.message
    assert found.context == context


def test_a_lost_cluster_is_a_failure_of_the_environment() -> None:
    assert isinstance(job._describe_failure("Job aborted\nExecutorLostFailure"), Transient)


def test_a_driver_that_waits_for_its_cluster_reports_that_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full queue of YARN lets Spark wait before there is a session."""
    reported = threading.Event()

    def start(*_: object, **__: object) -> Any:
        assert reported.wait(60)
        raise Transient("the queue is full")

    monkeypatch.setattr(session, "start", start)
    monkeypatch.setattr(job, "ALIVE_S", 0.01)
    with pytest.raises(Transient, match="the queue is full"):
        run_job(settings("local[1]"), [], lambda event: reported.set() if event["event"] == "alive" else None)


def test_a_cluster_that_does_not_answer_ends_a_driver_before_it_starts_spark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "start", lambda *_, **__: pytest.fail("Spark was started"))
    with pytest.raises(Transient, match=r"spark\.master cannot be reached"):
        run_job(settings("spark://127.0.0.1:1"), [], lambda _: None)


def test_a_live_check_names_each_policy_whose_cluster_does_not_answer() -> None:
    def check(master: str) -> None:
        if master == "yarn":
            raise ConfigError("no configuration", hint="Set it.")
        if master == "spark://h:1":
            raise Transient(
                "the cluster of spark.master cannot be reached", reason="h:1: refused", hint="Look."
            )

    copy_jobs: dict[str, dict[str, Any]] = {
        "plain": {},
        "here": {"copy_jobs": {}},
        "far": {"copy_jobs": {"spark": {"master": "yarn"}}},
        "down": {"copy_jobs": {"spark": {"master": "spark://h:1"}}},
    }
    policies = {
        name: {"source": "s", "target": "t", "database": name, **jobs} for name, jobs in copy_jobs.items()
    }
    config = Config.model_validate(
        {
            "sources": {"s": {"metastore": ["thrift://s:1"], "topic": "t", "read_roots": []}},
            "targets": {"t": {"metastore": ["thrift://t:1"]}},
            "policies": policies,
        }
    )
    assert [str(each) for each in copy_job_problems(config, check)] == [
        "policy far: policies.far.copy_jobs.spark.master = yarn: no configuration (set it)",
        (
            "policy down: policies.down.copy_jobs.spark.master = spark://h:1: "
            "the cluster of spark.master cannot be reached: h:1: refused (look)"
        ),
    ]
