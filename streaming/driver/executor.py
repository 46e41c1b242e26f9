"""A Spark executor on Kubernetes: the program behind the image's argument ``executor``.

Spark starts an executor pod from an image with the argument ``executor``. Environment variables describe the executor (Spark's
``BasicExecutorFeatureStep``), and the image must start a JVM from them. Tideline's image does this itself, so driver and executors use
the same image and cannot differ in Spark, Java or connector; such differences are what usually breaks.

The JVM replaces this process. It is the container's first process, receives the signals itself, and its exit code is the pod's.
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from state.errors import ConfigError
from streaming.driver.installation import check_installed, use_java


if TYPE_CHECKING:
    from collections.abc import Mapping


PROGRAM: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
ARGUMENTS: Final = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
MEMORY: Final = "SPARK_EXECUTOR_MEMORY"
_OPTION: Final = re.compile(r"SPARK_JAVA_OPT_(\d+)", re.ASCII)


def replace_process() -> NoReturn:
    """Replace this process by the executor that the environment describes.

    Raises ConfigError if Spark, its Java or a variable set by Spark is missing.
    """
    check_installed()
    use_java()
    spec = find_spec("pyspark")
    assert spec is not None, "just checked"
    assert spec.submodule_search_locations, "a package"
    command = build_command(os.environ, Path(spec.submodule_search_locations[0]) / "jars")
    os.execv(command[0], command)  # noqa: S606 - the JVM is meant to replace this process


def build_command(environment: Mapping[str, str], jars: Path) -> list[str]:
    """Return the command of the JVM. Raises ConfigError with the names of missing variables."""
    required = [*ARGUMENTS.values(), MEMORY]
    if missing := [name for name in required if not environment.get(name)]:
        raise ConfigError(
            "environment variables of an executor are not set",
            missing=missing,
            hint="Spark on Kubernetes sets them in executor pods; users do not run this command.",
        )
    heap = environment[MEMORY]
    return [
        f"{environment['JAVA_HOME']}/bin/java",
        *_read_options(environment),
        f"-Xms{heap}",
        f"-Xmx{heap}",
        "-cp",
        _build_class_path(environment, jars),
        PROGRAM,
        *(word for option, name in ARGUMENTS.items() for word in (option, environment[name])),
    ]


def _read_options(environment: Mapping[str, str]) -> list[str]:
    """Return Java's options in the order of their numbers, so that the last of two wins."""
    found = {
        int(numbered[1]): text for name, text in environment.items() if (numbered := _OPTION.fullmatch(name))
    }
    return [found[number] for number in sorted(found)]


def _build_class_path(environment: Mapping[str, str], jars: Path) -> str:
    """Return the class path: configuration, the user's additions (``spark.executor.extraClassPath``), then Spark's own jars."""
    paths = [environment.get(name, "") for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "SPARK_CLASSPATH")]
    return ":".join([*filter(None, paths), f"{jars}/*"])
