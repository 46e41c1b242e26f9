from __future__ import annotations

from pathlib import Path

import pytest

from state.errors import ConfigError
from streaming.driver.executor_pods import PROGRAM, build_command, replace_process


JARS = Path("/spark/jars")


def pod(**more: str) -> dict[str, str]:
    """Return the variables that Spark sets in an executor's pod, and the image's Java."""
    return {
        "JAVA_HOME": "/java",
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.7:7078",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_EXECUTOR_MEMORY": "4096m",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.9",
        "SPARK_EXECUTOR_POD_NAME": "tideline-exec-3",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        **more,
    }


def test_the_command_of_an_executor_follows_from_its_pod() -> None:
    command = build_command(pod(), JARS)
    assert command[:5] == ["/java/bin/java", "-Xms4096m", "-Xmx4096m", "-cp", "/spark/jars/*"]
    arguments = command[command.index(PROGRAM) + 1 :]
    assert dict(zip(arguments[::2], arguments[1::2], strict=True)) == {
        "--driver-url": "spark://CoarseGrainedScheduler@10.0.0.7:7078",
        "--executor-id": "3",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.9",
        "--resourceProfileId": "0",
        "--podName": "tideline-exec-3",
    }


def test_java_options_are_ordered_by_number_and_not_split_at_blanks() -> None:
    options = {f"SPARK_JAVA_OPT_{n}": f"-Dn={n} x" for n in range(11, -1, -1)}
    command = build_command(pod(**options, SPARK_JAVA_OPT_X="-Dno"), JARS)
    assert command[1:13] == [f"-Dn={n} x" for n in range(12)]


def test_configuration_and_the_users_classes_come_before_sparks() -> None:
    environment = pod(SPARK_CLASSPATH="/mine/*", SPARK_CONF_DIR="/opt/spark/conf", HADOOP_CONF_DIR="")
    command = build_command(environment, JARS)
    assert command[command.index("-cp") + 1] == "/opt/spark/conf:/mine/*:/spark/jars/*"


def test_missing_variables_are_named() -> None:
    with pytest.raises(ConfigError) as caught:
        build_command(pod(SPARK_EXECUTOR_POD_IP="", SPARK_EXECUTOR_MEMORY=""), JARS)
    assert caught.value.context["missing"] == ["SPARK_EXECUTOR_POD_IP", "SPARK_EXECUTOR_MEMORY"]


def test_an_image_without_spark_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyspark", None)
    with pytest.raises(ConfigError, match="PySpark"):
        replace_process()
