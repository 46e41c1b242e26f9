"""The Spark session, made in one place.

Splitting depends on settings that are not Spark's defaults (keys are compared exactly, nothing in a key is a variable), on a
Java that Spark runs on, and on a Kafka connector of Spark's very version. All of it is decided here, so that drivers, tests
and benchmarks run the same way; ``settings.conf`` wins over everything, because whoever runs a cluster knows it better.

A session belongs to its process: there is one JVM in it, and ``stop`` ends it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from state.errors import ConfigError
from streaming.split.splitter import REQUIRED_CONF


if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from streaming.settings import SparkSettings


JAVA_OLDEST: Final = 17
JAVA_NEWEST: Final = 21
"""Spark 4.0 is built for Java 17 and runs on 21; newer ones lack what its Hadoop libraries need."""
JAVA_OPTIONS: Final = "-XX:-DontCompileHugeMethods -XX:+UseParallelGC"
"""Generated code of hundreds of columns has methods above the size at which Java stops compiling, and throughput counts more
than pauses (docs/SPLITTING.md)."""
LOOPBACK: Final = "127.0.0.1"
PACKAGES: Final = "spark.jars.packages"
KAFKA_SOURCE: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
KAFKA_JARS: Final = (
    "spark-sql-kafka-0-10_",
    "spark-token-provider-kafka-0-10_",
    "kafka-clients-",
    "commons-pool2-",
)
"""How the names of its source's jars begin."""
CONF: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.host": LOOPBACK,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # One writer per hour beside each other, instead of a sort of every row by its hour.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    "spark.sql.orc.compression.codec": "zstd",
    # The names of hundreds of columns in every log line and plan help nobody.
    "spark.sql.debug.maxToStringFields": "30",
}


def start(settings: SparkSettings, *, name: str = "tideline", kafka: bool = False) -> SparkSession:
    """Start a session, or raise ConfigError when PySpark or a fitting Java is missing, or Spark refuses a setting.

    With ``kafka`` and without ``settings.jars`` Spark is told to fetch its Kafka source, of its own version, from the Maven
    repository that the machine has, unless the jar lies among Spark's own, as it does in the image. Executors elsewhere, whose
    Spark need not have it, are then given the driver's.
    """
    check_installed()
    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault(
        "SPARK_CONF_DIR", str(Path(__file__).parent / "conf")
    )  # quiet, unless somebody has set it up
    if settings.master.startswith("local"):
        # Spark otherwise looks up the machine's own name, and does not start where nobody knows it.
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    jars = _jars(settings, kafka=kafka)
    conf = {
        **CONF,
        "spark.master": settings.master,
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.executor.extraJavaOptions": JAVA_OPTIONS,
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
        **jars,
        **settings.conf,
        **_packages(jars, settings.conf),
        **REQUIRED_CONF,
    }
    return _started(name, conf)


def _jars(settings: SparkSettings, *, kafka: bool) -> dict[str, str]:
    import pyspark

    if settings.jars:
        return {"spark.jars": ",".join(settings.jars)}
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


def _packages(jars: Mapping[str, str], conf: Mapping[str, str]) -> dict[str, str]:
    """What the user has Spark fetch, such as the client of an object store, comes beside the Kafka source, not in its place."""
    named, own = conf.get(PACKAGES), jars.get(PACKAGES)
    return {PACKAGES: f"{named},{own}"} if named and own and KAFKA_SOURCE not in named else {}


def _started(name: str, conf: dict[str, str]) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        session: SparkSession = builder.getOrCreate()
    except (PySparkException, RuntimeError) as error:
        raise ConfigError(
            "Spark does not start", reason=str(error)[:500], hint="Its own output above says more."
        ) from error
    session.sparkContext.setLogLevel("ERROR")
    return session


def check_installed() -> None:
    """Raise ConfigError where PySpark is missing."""
    try:
        import pyspark  # noqa: F401 (whether it is there is the question)
    except ImportError as error:
        raise ConfigError(
            "PySpark is not installed", hint="Install the extra: pip install 'tideline[flat]'."
        ) from error


def use_java() -> None:
    """Point Spark to a Java that it runs on: the one of JAVA_HOME, else the one on the path, else one that is installed.

    Raises ConfigError, which names those that were found, where none fits.
    """
    tried = {}
    for home in _java_homes():
        version = _major_version(home)
        if JAVA_OLDEST <= version <= JAVA_NEWEST:
            os.environ["JAVA_HOME"] = str(home)
            return
        tried[str(home)] = version
    raise ConfigError(
        "Spark needs Java 17 (21 serves as well)",
        found=tried,
        hint="Install a JDK 17 (Debian: apt-get install openjdk-17-jre-headless) or point JAVA_HOME to one.",
    )


def _java_homes() -> list[Path]:
    homes = []
    if named := os.environ.get("JAVA_HOME"):
        homes.append(Path(named))
    if found := shutil.which("java"):
        homes.append(Path(found).resolve().parent.parent)
    return [*homes, *sorted(Path("/usr/lib/jvm").glob("*17*"))]


def _major_version(home: Path) -> int:
    """The Java's version, 0 where it cannot be run."""
    try:
        answer = subprocess.run(  # noqa: S603 (the Java that the user has named)
            [home / "bin" / "java", "-version"], capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(found[1]) if found else 0
