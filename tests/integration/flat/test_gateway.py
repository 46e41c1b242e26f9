"""The command with which a driver's JVM starts, compared with that of Spark's own launcher."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streaming.driver import gateway
from streaming.driver.installation import use_java


if TYPE_CHECKING:
    from collections.abc import Mapping

pytest.importorskip("pyspark")
DEADLINE_S = 120.0
START_S = 600.0
COUNTS = """
from streaming.driver.session import start
from streaming.settings import SparkSettings

session = start(SparkSettings("local-cluster[1,1,512]", conf={"spark.executor.memory": "512m"}))
print(session.range(3).count())
session.stop()
"""
CONF = {
    gateway.MEMORY: "1g",
    gateway.DEFAULT_OPTIONS: '"-XX:SharedArchiveFile=/a path/x.jsa" -Xshare:auto',
    gateway.EXTRA_OPTIONS: "-XX:+UseParallelGC -Dderby.stream.error.file=/tmp/x.log",
    gateway.CLASS_PATH: "/mine.jar",
    "spark.master": "local[2]",
}


def ask_launcher(conf: Mapping[str, str], environment: Mapping[str, str]) -> list[str]:
    """Return the command that Spark's launcher builds."""
    words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    java = [f"{environment['JAVA_HOME']}/bin/java", "-cp", f"{gateway.find_home()}/jars/*"]
    program = ["org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"]
    done = subprocess.run(
        [*java, *program, *words, "pyspark-shell"],
        capture_output=True,
        check=True,
        timeout=DEADLINE_S,
        env={**environment, "SPARK_HOME": str(gateway.find_home()), "SPARK_SCALA_VERSION": gateway.SCALA},
    )
    return done.stdout.decode().lstrip("\0\n").rstrip("\0").split("\0")


def test_the_command_is_that_of_sparks_launcher_except_for_the_class_path_and_the_vector_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    use_java()
    environment = {**os.environ, "SPARK_CONF_DIR": gateway.SETTINGS, "HADOOP_CONF_DIR": "/etc/hadoop"}
    ours, theirs = gateway.build_command(CONF, environment), ask_launcher(CONF, environment)
    paths = [command.pop(command.index("-cp") + 1).split(":") for command in (ours, theirs)]
    program = "org.apache.spark.deploy.SparkSubmit"
    at = theirs.index(program)
    assert [word for word in theirs[:at] if word != "--add-modules=jdk.incubator.vector"] == ours[
        : ours.index(program)
    ]
    assert sorted(ours[ours.index(program) :]) == sorted(theirs[at:])
    own, launcher = paths
    jars = {str(jar) for jar in (gateway.find_home() / "jars").glob("*.jar")}
    added = ["/mine.jar", f"{gateway.SETTINGS}/", "/etc/hadoop"]
    assert [path for path in own if path not in jars] == added
    assert [path for path in launcher if path in added] == added
    assert f"{gateway.find_home()}/jars/*" in launcher
    left_out = jars - set(own)
    assert left_out
    assert all(Path(jar).name.startswith(gateway.OMITTED) for jar in left_out)


@pytest.mark.long
def test_a_master_within_the_jvm_starts_executors() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COUNTS], capture_output=True, text=True, timeout=START_S, check=False
    )
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
