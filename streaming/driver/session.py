"""Creates the Spark session.

Splitting depends on settings that differ from Spark's defaults (keys are compared exactly, nothing in a key is a variable), on a Java
that Spark supports, and on a Kafka connector of exactly Spark's version. All of this is decided here, so that drivers, tests and
benchmarks run alike. ``settings.conf`` takes precedence over everything except the settings that splitting requires.

A session belongs to its process: there is one JVM, and ``stop`` ends it. If the JVM dies first, every call through py4j fails in its own
way; ``jvm_errors`` turns the first failure into one error.

Spark creates a directory ``artifacts`` in the JVM's working directory. The JVM therefore starts in a directory of its own, and relative
paths of files in the settings are made absolute before.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from state.errors import ConfigError, TidelineError, Transient
from streaming.split import plain_rows
from streaming.split.splitter import REQUIRED_CONF


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from streaming.settings import SparkSettings


JAVA_OLDEST: Final = 17
JAVA_NEWEST: Final = 21
"""Spark 4.0 is built for Java 17 and supports 21; newer versions lack what its Hadoop libraries need."""
JAVA_OPTIONS: Final = "-XX:-DontCompileHugeMethods -XX:+UseParallelGC"
"""Generated code for hundreds of columns has methods above the size limit of Java's compiler, and throughput matters more than
pauses (docs/SPLITTING.md)."""
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
PY4J_LOGGERS: Final = ("", "py4j.clientserver")
"""Loggers to which py4j writes errors that it also raises."""
EXIT_S: Final = 3.0
"""How long to wait for the exit status of a JVM that has closed its connection."""
CONF: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.host": LOOPBACK,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # One concurrent writer per hour instead of sorting every row by its hour.
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
    """Start a session. Raises ConfigError if PySpark or a supported Java is missing, or Spark refuses a setting.

    ``beside`` runs in a thread while the session starts, as soon as there is a JVM, which it receives. Its errors are ignored, so it may
    only do in advance what is done again later.

    With ``kafka`` and without ``settings.jars``, Spark fetches its Kafka source of its own version from the machine's Maven
    repository, unless the jar is among Spark's own jars, as in the image. In that case remote executors, whose Spark may lack
    the jar, receive the driver's jar.
    """
    check_installed()
    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault(
        "SPARK_CONF_DIR", str(Path(__file__).parent / "conf")
    )  # quiet logs unless configured otherwise
    if settings.master.startswith("local"):
        # Otherwise Spark resolves the machine's own name and fails to start if that is impossible.
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
def jvm_errors(spark: SparkSession) -> Iterator[None]:
    """Raise one Transient if the JVM of ``spark`` dies, whatever its death causes in the code that uses it; stop it at the end."""
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - PySpark has no other way to its JVM
    process: subprocess.Popen[bytes] = gateway.proc
    for name in PY4J_LOGGERS:
        logging.getLogger(name).addFilter(is_unreported)
    try:
        yield
    except Exception as error:
        if not _has_ended(process, error):
            raise
        raise Transient(
            "Spark's JVM ended",
            status=process.returncode,
            hint="A negative status is a signal; -9 usually means that memory was short (spark.driver_memory).",
        ) from None
    finally:
        # PySpark logs a stack trace for each call of a JVM that is dead or ends.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        if process.poll() is None:
            spark.stop()


def is_unreported(record: logging.LogRecord) -> bool:
    """Whether nothing but this log record reports an error.

    Typed errors of a batch and broken connections to the JVM are raised and reported once; py4j also logs each with a stack trace.
    """
    from py4j.protocol import Py4JNetworkError

    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, (TidelineError, Py4JNetworkError))


def _has_ended(process: subprocess.Popen[bytes], error: BaseException | None) -> bool:
    """Whether the JVM is dead. Its connection breaks a moment before its status is known, so after a broken one it is waited for."""
    from py4j.protocol import Py4JError, Py4JJavaError

    is_broken = isinstance(error, ConnectionError)
    while error is not None:
        is_broken |= isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError)
        error = error.__cause__ or error.__context__
    with suppress(subprocess.TimeoutExpired):
        process.wait(EXIT_S if is_broken else 0)
    return process.returncode is not None


@contextmanager
def _working_directory() -> Iterator[None]:
    """Change to a directory for what Spark leaves in its working directory, for as long as the JVM starts."""
    directory = Path(tempfile.gettempdir()) / f"tideline-spark-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def _make_absolute(paths: str) -> str:
    """Return comma-separated paths with relative ones made absolute; URIs stay as they are."""
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

    A user who names a Kafka source gets no other.
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
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        ahead = None if beside is None else _run_beside(_start_jvm(conf), beside)
        session: SparkSession = builder.getOrCreate()
    except (PySparkException, RuntimeError) as error:
        raise ConfigError(
            "Spark does not start", reason=str(error)[:500], hint="See Spark's own output above."
        ) from error
    if ahead is not None:
        ahead.join()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _start_jvm(conf: Mapping[str, str]) -> Any:
    """Start the JVM, in which a session with the same settings starts later."""
    from pyspark import SparkConf, SparkContext

    launch = SparkConf(loadDefaults=False)
    for key, value in conf.items():
        launch.set(key, value)
    SparkContext._ensure_initialized(conf=launch)  # noqa: SLF001 - PySpark has no other way to start a JVM without a session
    return SparkContext._jvm  # noqa: SLF001 - likewise


def _run_beside(jvm: Any, call: Callable[[Any], None]) -> threading.Thread:
    def run() -> None:
        with suppress(Exception):
            call(jvm)

    thread = threading.Thread(target=run, name="beside", daemon=True)
    thread.start()
    return thread


def check_installed() -> None:
    """Raise ConfigError if PySpark is missing."""
    try:
        import pyspark  # noqa: F401 (only tests whether it is installed)
    except ImportError as error:
        raise ConfigError(
            "PySpark is not installed", hint="Install the extra: pip install 'tideline[flat]'."
        ) from error


def use_java() -> None:
    """Point Spark to a supported Java: from JAVA_HOME, else from the path, else an installed one.

    Raises ConfigError with the versions found if none is supported.
    """
    found_versions = {}
    for home in _find_java_homes():
        version = _read_major_version(home)
        if JAVA_OLDEST <= version <= JAVA_NEWEST:
            os.environ["JAVA_HOME"] = str(home)
            return
        found_versions[str(home)] = version
    raise ConfigError(
        "Spark needs Java 17 or 21",
        found=found_versions,
        hint="Install a JDK 17 (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME to one.",
    )


def _find_java_homes() -> list[Path]:
    homes = []
    if named := os.environ.get("JAVA_HOME"):
        homes.append(Path(named))
    if found := shutil.which("java"):
        homes.append(Path(found).resolve().parent.parent)
    return [*homes, *sorted(Path("/usr/lib/jvm").glob("*17*"))]


def _read_major_version(home: Path) -> int:
    """Return the version of a Java from its file ``release``, else by running it; 0 if it cannot be run."""
    with suppress(OSError):
        if named := re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', (home / "release").read_text(), re.MULTILINE):
            return int(named[1])
    try:
        answer = subprocess.run(  # noqa: S603 (the Java that the user has named)
            [home / "bin" / "java", "-version"], capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(found[1]) if found else 0
