"""Starts the JVM of a session, without Spark's own launcher if its command is known.

PySpark starts its JVM by the script ``spark-submit``. That script starts a first JVM, only to compute the command of the second one. The
command is simple unless the environment or a setting changes it, so this module computes it itself. The JVM then runs the same program
(``SparkSubmit``) with the same settings, so masters, packages and jars work as before.

Two parts of the launcher's command are omitted. Spark's machine learning library would register its functions in each session, which
takes longer than the rest of the session. Java's vector module is used by that library alone.

In all other cases PySpark starts the JVM: with settings of Spark in the environment, with plugins or extensions, which may need the
library, and with another version of Spark, whose command may differ.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import struct
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


VERSION: Final = "4.0."
"""The versions of Spark whose command this is."""
SCALA: Final = "2.13"
"""The version of Scala that a Spark master within the JVM (``local-cluster``) passes on to its executors."""
SETTINGS: Final = str(Path(__file__).with_name("conf"))
"""The directory with Spark's settings, unless the user has one."""
DEFAULT_OPTIONS: Final = "spark.driver.defaultJavaOptions"
EXTRA_OPTIONS: Final = "spark.driver.extraJavaOptions"
CLASS_PATH: Final = "spark.driver.extraClassPath"
MEMORY: Final = "spark.driver.memory"
CHANGING_VARIABLES: Final = frozenset(
    {
        "PYSPARK_GATEWAY_PORT",
        "PYSPARK_SUBMIT_ARGS",
        "SPARK_PREPEND_CLASSES",
        "SPARK_SUBMIT_OPTS",
        "SPARK_TESTING",
    }
)
"""Variables with which PySpark or the launcher would run another command."""
CHANGING_SETTINGS: Final = frozenset(
    {
        "spark.api.mode",
        "spark.driver.extraLibraryPath",
        "spark.plugins",
        "spark.remote",
        "spark.sql.extensions",
        "spark.submit.deployMode",
    }
)
"""Settings with which the launcher would run another command, or that may need what is omitted."""
ADDED_CLASS_PATHS: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
"""Variables whose paths follow Spark's jars."""
OMITTED: Final = ("spark-mllib", "spark-graphx_", "breeze", "spire")
"""Prefixes of the jars that only Spark's machine learning library needs."""
OPENED: Final = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
"""Java's packages that Spark uses by reflection."""
PROPERTIES: Final = (
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dderby.connection.requireAuthentication=false",
)
POLL_S: Final = 0.01
_HEAP: Final = re.compile(r"(?:^|\s)[\"']?-Xmx")
_LENGTH: Final = struct.Struct("!i")


def is_command_known(conf: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> bool:
    """Whether ``build_command`` knows the command: nothing in the settings or the environment changes it."""
    import pyspark

    options = f"{conf.get(DEFAULT_OPTIONS, '')} {conf.get(EXTRA_OPTIONS, '')}"
    return (
        pyspark.__version__.startswith(VERSION)
        and environment.get("SPARK_CONF_DIR")
        == SETTINGS  # a directory of the user's may have a script and settings
        and CHANGING_VARIABLES.isdisjoint(environment)
        and CHANGING_SETTINGS.isdisjoint(conf)
        and MEMORY in conf
        and not _HEAP.search(options)  # Spark's launcher explains why it refuses this
    )


def build_command(conf: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the command of the JVM, as Spark's launcher would build it for these settings, without what is omitted."""
    options = shlex.split(conf.get(DEFAULT_OPTIONS, "")) + shlex.split(conf.get(EXTRA_OPTIONS, ""))
    return [
        f"{environment['JAVA_HOME']}/bin/java",
        "-cp",
        _build_class_path(conf, environment),
        f"-Xmx{conf[MEMORY]}",
        *options,
        "-XX:+IgnoreUnrecognizedVMOptions",
        *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED),
        *PROPERTIES,
        "org.apache.spark.deploy.SparkSubmit",
        *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
        "pyspark-shell",
    ]


def build_jars_path() -> str:
    """Return Spark's jars, without the omitted ones, in an order that does not depend on the disk."""
    jars = (find_home() / "jars").glob("*.jar")
    return ":".join(sorted(str(jar) for jar in jars if not jar.name.startswith(OMITTED)))


def find_home() -> Path:
    """Return the directory of Spark."""
    import pyspark

    return Path(os.environ.get("SPARK_HOME") or pyspark.__path__[0])


def start_jvm(conf: Mapping[str, str]) -> Any:
    """Start the JVM, in which a session with the same settings starts later; return it as py4j presents it.

    Raises PySparkException if the JVM ends before it accepts calls.
    """
    from pyspark import SparkConf, SparkContext

    context: Any = vars(SparkContext)  # PySpark has no public way to start a JVM without a session
    launch = SparkConf(loadDefaults=False)
    for key, value in conf.items():
        launch.set(key, value)
    is_first = context["_gateway"] is None
    if is_first and is_command_known(conf):
        process, port, secret = _run(build_command(conf))
        with _variables({"PYSPARK_GATEWAY_PORT": port, "PYSPARK_GATEWAY_SECRET": secret}):
            SparkContext._ensure_initialized(conf=launch)  # noqa: SLF001 - see above
        context["_gateway"].proc = process
    else:
        SparkContext._ensure_initialized(conf=launch)  # noqa: SLF001 - see above
    return context["_jvm"]


def _build_class_path(conf: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Return the class path: the user's additions, Spark's jars, its settings, and those of Hadoop."""
    added = [environment.get(name, "") for name in ADDED_CLASS_PATHS]
    paths = [conf.get(CLASS_PATH, ""), build_jars_path(), f"{SETTINGS}/", *added]
    return ":".join(dict.fromkeys(filter(None, paths)))


def _run(command: list[str]) -> tuple[subprocess.Popen[bytes], str, str]:
    """Run the JVM until it accepts calls; return its process, port and secret."""
    from pyspark.errors import PySparkRuntimeError

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "gateway"
        own = {
            "SPARK_HOME": str(find_home()),
            "SPARK_CONNECT_MODE": "0",
            "SPARK_SCALA_VERSION": SCALA,
            "PYTHONHASHSEED": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(path),
        }
        # The JVM ends when its standard input does, so it never outlives this process.
        process = subprocess.Popen(  # noqa: S603 - the Java and the Spark that the user has chosen
            command,
            stdin=subprocess.PIPE,
            env={**os.environ, **own},
            preexec_fn=_ignore_interrupt,  # noqa: PLW1509 - as PySpark does
        )
        while not path.exists():  # the JVM renames the complete file to this path
            if process.poll() is not None:
                process.communicate()
                raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
            time.sleep(POLL_S)
        content = path.read_bytes()
    (port,) = _LENGTH.unpack_from(content)
    (length,) = _LENGTH.unpack_from(content, _LENGTH.size)
    start = 2 * _LENGTH.size
    return process, str(port), content[start : start + length].decode()


def _ignore_interrupt() -> None:
    """Keep the JVM running if the user presses Ctrl-C, so that the driver can end its batch."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            os.environ.pop(name, None)
