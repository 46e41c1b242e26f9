"""The JVM of a session: when its command is known, what it is, and what follows if it ends at once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from state.errors import ConfigError
from streaming.driver import gateway
from streaming.driver.gateway import (
    CLASS_PATH,
    DEFAULT_OPTIONS,
    EXTRA_OPTIONS,
    MEMORY,
    SETTINGS,
    build_command,
    is_command_known,
)
from streaming.driver.session import start
from streaming.settings import SparkSettings


if TYPE_CHECKING:
    from pathlib import Path

pyspark = pytest.importorskip("pyspark")
CONF = {MEMORY: "1g", EXTRA_OPTIONS: '-Dpath="/with space" -Xss4m', DEFAULT_OPTIONS: "-Xshare:auto"}
ENVIRONMENT = {"SPARK_CONF_DIR": SETTINGS, "JAVA_HOME": "/java"}


@pytest.fixture
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark that consists of three jars, one of them of its machine learning library."""
    (tmp_path / "jars").mkdir()
    for name in ("b.jar", "a.jar", "spark-mllib_2.13-4.0.0.jar"):
        (tmp_path / "jars" / name).touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    return tmp_path


def test_the_command_is_known_with_the_settings_of_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.0.1")
    assert is_command_known(CONF, ENVIRONMENT)
    monkeypatch.setattr(pyspark, "__version__", "4.1.0")
    assert not is_command_known(CONF, ENVIRONMENT)


@pytest.mark.parametrize(
    "variables",
    [
        {"SPARK_CONF_DIR": "/etc/spark"},
        {"PYSPARK_SUBMIT_ARGS": "--verbose pyspark-shell"},
        {"PYSPARK_GATEWAY_PORT": "1"},
        {"SPARK_SUBMIT_OPTS": "-Xss1m"},
    ],
)
def test_with_settings_in_the_environment_sparks_launcher_builds_the_command(
    variables: dict[str, str],
) -> None:
    assert not is_command_known(CONF, ENVIRONMENT | variables)


@pytest.mark.parametrize(
    "conf",
    [
        {"spark.sql.extensions": "some.Extension"},
        {"spark.plugins": "some.Plugin"},
        {"spark.driver.extraLibraryPath": "/lib"},
        {"spark.submit.deployMode": "cluster"},
        {EXTRA_OPTIONS: "-Xss1m -Xmx2g"},
        {DEFAULT_OPTIONS: '"-Xmx2g"'},
    ],
)
def test_with_settings_that_change_the_command_or_need_what_it_omits_sparks_launcher_builds_it(
    conf: dict[str, str],
) -> None:
    assert not is_command_known(CONF | conf, ENVIRONMENT)


def test_the_class_path_has_the_users_additions_sparks_jars_and_the_settings_of_hadoop(
    spark_home: Path,
) -> None:
    jars = f"{spark_home}/jars/a.jar:{spark_home}/jars/b.jar"
    for added, begins in {"": jars, "/mine.jar": f"/mine.jar:{jars}", jars: jars}.items():
        command = build_command(
            CONF | {CLASS_PATH: added}, ENVIRONMENT | {"HADOOP_CONF_DIR": "/etc/hadoop", "YARN_CONF_DIR": ""}
        )
        assert command[command.index("-cp") + 1] == f"{begins}:{SETTINGS}/:/etc/hadoop"


def test_java_gets_the_options_of_the_settings_and_spark_gets_all_settings(spark_home: Path) -> None:
    command = build_command(CONF, ENVIRONMENT)
    assert spark_home.exists()
    assert command[0] == "/java/bin/java"
    assert [word for word in command if word.startswith(("-X", "-Dpath"))][:4] == [
        "-Xmx1g",
        "-Xshare:auto",
        "-Dpath=/with space",
        "-Xss4m",
    ]
    assert command[-7:] == [
        "--conf",
        f"{MEMORY}=1g",
        "--conf",
        f"{EXTRA_OPTIONS}={CONF[EXTRA_OPTIONS]}",
        "--conf",
        f"{DEFAULT_OPTIONS}=-Xshare:auto",
        "pyspark-shell",
    ]


def test_a_jvm_that_ends_at_once_is_an_error_of_the_configuration_and_leaves_no_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    (java.parent.parent / "release").write_text('JAVA_VERSION="17.0.1"\n')
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.setattr(pyspark.SparkContext, "_gateway", None)
    with pytest.raises(ConfigError, match="ended while Spark started"):
        start(SparkSettings())
    assert not [name for name in os.environ if name.startswith("PYSPARK_GATEWAY")]


def test_variables_for_pyspark_are_set_only_while_it_connects() -> None:
    with gateway._variables({"PYSPARK_GATEWAY_PORT": "1"}):
        assert os.environ["PYSPARK_GATEWAY_PORT"] == "1"
    assert "PYSPARK_GATEWAY_PORT" not in os.environ
