"""A Spark executor where Kubernetes starts it: the program behind the image's argument ``executor``.

Spark makes an executor's pod from an image and gives it the argument ``executor``; whom to serve stands in environment variables
(Spark's ``BasicExecutorFeatureStep``), and the image has to make a JVM of them. Ours does, so driver and executors come from one
image and cannot differ in Spark, Java or connector, which is what breaks such pairs.

The JVM takes the place of this process: it is the container's first one, gets the signals itself, and its exit code is the pod's.
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from state.errors import ConfigError
from streaming.driver.session import check_installed, use_java


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

    Raises ConfigError where Spark or its Java is missing, or a variable that Spark sets.
    """
    check_installed()
    use_java()
    spec = find_spec("pyspark")
    assert spec is not None, "just checked"
    assert spec.submodule_search_locations, "a package"
    command = build_command(os.environ, Path(spec.submodule_search_locations[0]) / "jars")
    os.execv(command[0], command)  # noqa: S606 - a JVM in our place is what is wanted


def build_command(environment: Mapping[str, str], jars: Path) -> list[str]:
    """Return the command of the JVM; raise ConfigError, which names what is missing of Spark's variables."""
    wanted = [*ARGUMENTS.values(), MEMORY]
    if missing := [name for name in wanted if not environment.get(name)]:
        raise ConfigError(
            "these variables say what an executor is to do, and are not set",
            missing=missing,
            hint="Spark on Kubernetes sets them in the pods that it makes; this command is not for people.",
        )
    heap = environment[MEMORY]
    return [
        f"{environment['JAVA_HOME']}/bin/java",
        *_options(environment),
        f"-Xms{heap}",
        f"-Xmx{heap}",
        "-cp",
        _class_path(environment, jars),
        PROGRAM,
        *(word for option, name in ARGUMENTS.items() for word in (option, environment[name])),
    ]


def _options(environment: Mapping[str, str]) -> list[str]:
    """Java's options, in the order of their numbers: the last of two wins."""
    found = {
        int(numbered[1]): text for name, text in environment.items() if (numbered := _OPTION.fullmatch(name))
    }
    return [found[number] for number in sorted(found)]


def _class_path(environment: Mapping[str, str], jars: Path) -> str:
    """Configuration first, then what the user adds (``spark.executor.extraClassPath``), then Spark's own."""
    places = [environment.get(name, "") for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "SPARK_CLASSPATH")]
    return ":".join([*filter(None, places), f"{jars}/*"])
