from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from state.errors import ConfigError
from streaming.driver import session
from streaming.settings import SparkSettings


def test_without_pyspark_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyspark", None)
    with pytest.raises(ConfigError, match=r"tideline\[flat\]"):
        session.start(SparkSettings())


def test_the_kafka_source_has_sparks_version_unless_jars_are_given() -> None:
    assert session._choose_jars(SparkSettings(), kafka=False) == {}
    named = SparkSettings(jars=("/a.jar", "/b.jar"))
    assert session._choose_jars(named, kafka=True) == {"spark.jars": "/a.jar,/b.jar"}
    (packages,) = session._choose_jars(SparkSettings(), kafka=True).values()
    pyspark = pytest.importorskip("pyspark")
    assert packages == f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"


@pytest.mark.parametrize(
    ("named", "fetched"),
    [
        ("org.apache.hadoop:hadoop-aws:3.4.1", "org.apache.hadoop:hadoop-aws:3.4.1,{source}:4"),
        ("{source}:3", "{source}:3"),
        ("", ""),
    ],
)
def test_packages_of_the_user_are_added_to_the_kafka_source(named: str, fetched: str) -> None:
    conf = {session.PACKAGES: named.format(source=session.KAFKA_SOURCE)}
    own = {session.PACKAGES: f"{session.KAFKA_SOURCE}:4"}
    both = own | conf | session._merge_jars(own, conf)
    assert both[session.PACKAGES] == fetched.format(source=session.KAFKA_SOURCE)
    assert session._merge_jars({}, conf) == session._merge_jars(own, {}) == {}


def test_jars_of_the_user_are_added_to_those_that_executors_need() -> None:
    own = {"spark.jars": "/image/spark-sql-kafka-0-10_2.13-4.0.0.jar"}
    assert session._merge_jars(own, {"spark.jars": "/s3.jar"}) == {
        "spark.jars": f"/s3.jar,{own['spark.jars']}"
    }
    assert session._merge_jars(own, {"spark.jars": "/mine/spark-sql-kafka-0-10_2.13-4.0.1.jar"}) == {}


def test_a_kafka_source_among_sparks_own_jars_is_sent_to_remote_executors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setattr(pyspark, "__path__", [str(tmp_path)])
    names = [
        "commons-pool2-2.12.0.jar",
        "kafka-clients-3.9.0.jar",
        f"spark-sql-kafka-0-10_2.13-{pyspark.__version__}.jar",
        f"spark-token-provider-kafka-0-10_2.13-{pyspark.__version__}.jar",
    ]
    (tmp_path / "jars").mkdir()
    for name in [*names, "commons-pool-1.5.4.jar"]:
        (tmp_path / "jars" / name).touch()
    elsewhere = SparkSettings("k8s://https://somewhere")
    assert session._choose_jars(SparkSettings("local[4]"), kafka=True) == {}
    assert session._choose_jars(elsewhere, kafka=False) == {}
    paths = ",".join(str(tmp_path / "jars" / name) for name in names)
    assert session._choose_jars(elsewhere, kafka=True) == {"spark.jars": paths}


def test_relative_paths_of_files_are_made_absolute_because_the_jvm_has_a_directory_of_its_own() -> None:
    here = Path.cwd()
    assert session._make_absolute("a.jar,/b.jar,hdfs://nn/c.jar,local:/d.jar") == (
        f"{here}/a.jar,/b.jar,hdfs://nn/c.jar,local:/d.jar"
    )


@pytest.fixture
def created(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The working directories in which sessions are created, instead of sessions."""
    seen: list[Path] = []
    monkeypatch.setattr(session, "require_installation", lambda: None)
    monkeypatch.setattr(session, "_choose_jars", lambda *_, **__: {})
    monkeypatch.setattr(session, "_create_session", lambda *_: seen.append(Path.cwd()))
    return seen


def test_what_spark_leaves_in_its_working_directory_is_not_left_in_that_of_the_user(
    created: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session.start(SparkSettings())
    assert Path.cwd() == tmp_path
    assert created != [tmp_path]
    assert len(created) == 1


@pytest.mark.parametrize("is_link", [True, False])
def test_a_working_directory_of_another_user_is_refused(
    created: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_link: bool
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    owner = os.getuid()
    if is_link:
        (tmp_path / f"tideline-spark-{owner}").symlink_to(tmp_path)
    else:
        monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with pytest.raises(ConfigError, match="belongs to another user"):
        session.start(SparkSettings())
    assert created == []


def test_a_failure_of_what_is_done_in_advance_is_ignored() -> None:
    seen = []

    def fail(jvm: object) -> None:
        seen.append(jvm)
        raise RuntimeError("not yet")

    session._run_beside("the JVM", fail).join()
    assert seen == ["the JVM"]


@pytest.mark.parametrize(
    "name",
    [
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net",
        "spark.authenticate.secret",
        "spark.ssl.keyPassword",
        "spark.kafka.clusters.a.sasl.token.mechanism",
        "spark.x.sasl.jaas.config",
    ],
)
def test_secrets_are_no_arguments_of_the_jvm(name: str) -> None:
    conf = {"spark.master": "yarn", "spark.authenticate": "true", name: "planted"}
    assert session.launch_conf(conf) == {"spark.master": "yarn", "spark.authenticate": "true"}
