"""Creates the Spark session.

Splitting depends on settings that differ from Spark's defaults (Spark must compare keys exactly, and must not
replace variables in them), on a Java that Spark supports, and on a Kafka connector of exactly Spark's
version. This module decides all of it, so that drivers, tests and benchmarks run alike. ``settings.conf``
takes precedence over everything except the settings that splitting requires.

A session belongs to its process: there is one JVM, and ``stop`` ends it. ``jvm_errors`` classifies its
failures.

Spark creates a directory ``artifacts`` in the JVM's working directory. The JVM therefore starts in its own
directory, and relative paths of files in the settings become absolute beforehand.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any, Final

from state.errors import ConfigError
from streaming.driver import class_archive
from streaming.driver.installation import require_installation
from streaming.driver.masters import require_configuration
from streaming.jvm_errors import start_error
from streaming.split import plain_rows
from streaming.split.splitter import REQUIRED_CONF


if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from streaming.settings import SparkSettings


JAVA_OPTIONS: Final = "-XX:-DontCompileHugeMethods -XX:+UseParallelGC -XX:MetaspaceSize=256m"
"""Generated code for hundreds of columns has methods above the size limit of Java's compiler, throughput
matters more than pauses, and Spark's classes fit without a collection of all memory (docs/SPLITTING.md)."""
LOOPBACK: Final = "127.0.0.1"
PACKAGES: Final = "spark.jars.packages"
KAFKA_SOURCE: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
KAFKA_JARS: Final = (
    "spark-sql-kafka-0-10_",
    "spark-token-provider-kafka-0-10_",
    "kafka-clients-",
    "commons-pool2-",
)
"""Prefixes of the jars of Spark's Kafka source."""
FILE_LISTS: Final = ("spark.jars", "spark.files", "spark.archives")
"""Settings with comma-separated paths."""
SENSITIVE: Final = re.compile(
    r"secret|password|passwd|passphrase|token|credential|access[.]?key|account[.]?key|jaas", re.IGNORECASE
)
"""Names of settings that the JVM receives after its start, and not as arguments, which all users of the
machine can read."""
CHECKED: Final = "spark.sql.session.timeZone"
"""A setting whose first reading checks all settings of SQL, which is otherwise done by the first query."""
CONF: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.host": LOOPBACK,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # Use one concurrent writer for each hour instead of sorting all rows by hour.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    "spark.sql.orc.compression.codec": "zstd",
    # Hundreds of column names would make log lines and plans unreadable.
    "spark.sql.debug.maxToStringFields": "30",
}


def start(
    settings: SparkSettings,
    *,
    name: str = "tideline",
    kafka: bool = False,
    beside: Callable[[Any], None] | None = None,
) -> SparkSession:
    """Start a session.

    Raises ConfigError if a supported PySpark, a program, a supported Java or the configuration of YARN is
    missing, or Spark refuses a setting, and Transient if the network, files, memory or the cluster failed.

    Each function in ``beside`` runs in a thread while the session starts, and receives the JVM. Its errors
    are ignored, so it may only do work in advance that is repeated if missing.

    With ``kafka`` and without ``settings.jars``, Spark fetches the Kafka source of its version from the
    machine's Maven repository, unless Spark's own jars include it, as in the image. In this case, the driver
    sends its jar to remote executors, whose Spark may lack it.
    """
    require_installation()
    require_configuration(settings.master)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    archive = class_archive.build_conf(settings.conf)
    os.environ.setdefault("SPARK_CONF_DIR", class_archive.SETTINGS)  # quiet logs by default
    if settings.master.startswith("local"):
        # Without this setting, Spark resolves the machine's own name, and fails to start if that fails.
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    jars = _choose_jars(settings, kafka=kafka)
    conf = {
        **CONF,
        "spark.master": settings.master,
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.executor.extraJavaOptions": JAVA_OPTIONS,
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
        **plain_rows.CONF,
        **archive,
        **jars,
        **settings.conf,
        **{name: _make_absolute(settings.conf[name]) for name in FILE_LISTS if name in settings.conf},
        **_merge_jars(jars, settings.conf),
        **REQUIRED_CONF,
    }
    conf["spark.jars"] = ",".join(filter(None, [conf.get("spark.jars"), str(plain_rows.JAR)]))
    with _working_directory():
        return _create_session(name, conf, beside)


@contextmanager
def _working_directory() -> Iterator[None]:
    """Change to a directory for the files that Spark leaves in its working directory, until the JVM has
    started.

    Other users can predict its name and may write into the directory above it. So this raises ConfigError if
    it does not belong to this user.
    """
    directory = Path(tempfile.gettempdir()) / f"tideline-spark-{os.getuid()}"
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    present = directory.lstat()
    if not S_ISDIR(present.st_mode) or present.st_uid != os.getuid():
        raise ConfigError(
            "the working directory of Spark belongs to another user",
            path=str(directory),
            hint="Remove it, or set TMPDIR to a directory that only you can write.",
        )
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def _make_absolute(paths: str) -> str:
    """Make relative paths in a comma-separated list absolute; URIs stay as they are."""
    return ",".join(
        path if "://" in path or path.startswith(("local:", "file:")) else str(Path(path).absolute())
        for path in paths.split(",")
        if path
    )


def _choose_jars(settings: SparkSettings, *, kafka: bool) -> dict[str, str]:
    import pyspark

    if settings.jars:
        return {"spark.jars": _make_absolute(",".join(settings.jars))}
    if not kafka:
        return {}
    own = Path(pyspark.__path__[0]) / "jars"
    if not (own / f"{KAFKA_SOURCE.partition(':')[2]}-{pyspark.__version__}.jar").exists():
        return {PACKAGES: f"{KAFKA_SOURCE}:{pyspark.__version__}"}
    if settings.master.startswith("local"):
        return {}
    return {
        "spark.jars": ",".join(sorted(str(jar) for name in KAFKA_JARS for jar in own.glob(f"{name}*.jar")))
    }


def _merge_jars(chosen: Mapping[str, str], conf: Mapping[str, str]) -> dict[str, str]:
    """Return the user's jars and packages, such as an object store client, together with the chosen ones.

    If the user names a Kafka source, no other is added.
    """
    artifact = KAFKA_SOURCE.partition(":")[2]
    merged = {}
    for name in chosen.keys() & conf.keys():
        if conf[name] and artifact not in conf[name]:
            named = _make_absolute(conf[name]) if name in FILE_LISTS else conf[name]
            merged[name] = f"{named},{chosen[name]}"
    return merged


def _create_session(
    name: str, conf: dict[str, str], beside: Callable[[Any], None] | None = None
) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    for key, value in conf.items():
        builder = builder.config(key, value)
    ahead: threading.Thread | None = None
    try:
        jvm = _start_jvm(conf)
        if beside is not None:
            ahead = _run_beside(jvm, beside)
        session: SparkSession = builder.getOrCreate()
        _join(ahead)
        session.conf.get(CHECKED)
    except (PySparkException, Py4JError, RuntimeError, OSError) as error:
        _join(ahead)  # it may be creating a catalog, which must not stay incomplete
        raise start_error(error, conf) from error
    session.sparkContext.setLogLevel("ERROR")
    return session


def launch_conf(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that may be arguments of the JVM. The session sets the others later."""
    return {name: value for name, value in conf.items() if not SENSITIVE.search(name)}


def _start_jvm(conf: Mapping[str, str]) -> Any:
    """Start the JVM, in which a session with the same settings starts later."""
    from pyspark import SparkConf, SparkContext

    launch = SparkConf(loadDefaults=False)
    for key, value in launch_conf(conf).items():
        launch.set(key, value)
    # SLF001: PySpark has no other way to start a JVM without a session
    SparkContext._ensure_initialized(conf=launch)  # noqa: SLF001
    return SparkContext._jvm  # noqa: SLF001 - likewise


def _run_beside(jvm: Any, call: Callable[[Any], None]) -> threading.Thread:
    def run() -> None:
        with suppress(Exception):
            call(jvm)

    thread = threading.Thread(target=run, name="beside", daemon=True)
    thread.start()
    return thread


def end_jvm() -> None:
    """End the JVM of a stopped session, and wait until it has written its class archive and ended."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway  # noqa: SLF001 - PySpark leaves its JVM until the process ends
    process: subprocess.Popen[bytes] = gateway.proc
    assert process.stdin is not None
    process.stdin.close()
    process.wait()


def _join(thread: threading.Thread | None) -> None:
    if thread is not None:
        thread.join()
