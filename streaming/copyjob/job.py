"""The driver of a copy job: splits a list of copies into shares, lets Spark run them, and reports each
outcome.

Spark runs a share again if it lost the executor; the share recognizes files that it has published by their
content. If Spark gives up, the job ends with a transient error. A lost or refused file is an outcome and does
not end the job. Outcomes arrive as updates of an accumulator, which Spark applies once for each share, when
its task has succeeded.

Executors copy files like the daemon. They get its code from the driver, so that both always run the same
version, and its HDFS settings, user and umask. The machines of a cluster often lack the daemon's HDFS
configuration, or have another one. Executors run as another user, such as ``yarn``, and with another umask.
The daemon could then not replace the files that they create, and Hive could not read them.
"""

from __future__ import annotations

import os
import pwd
import re
import tempfile
import threading
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from handlers.files.systems.hadoop_settings import CONF_DIR, find_configuration, read_hadoop_settings
from state.errors import ConfigError, TidelineError, Transient
from state.pieces import in_pieces
from streaming.copyjob.share import (
    Numbered,
    Outcomes,
    ShareSettings,
    ShareTask,
    copy_cost,
    count_shares,
    split_shares,
    write_copy,
)
from streaming.settings import SparkSettings


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark import SparkContext

    from handlers.files.copying.jobs import SizedTask
    from streaming.driver.progress import ProgressListener


ROOT: Final = Path(__file__).parents[2]
"""The directory that contains the packages."""
PARTS: Final = ("state", "handlers", "streaming/__init__.py", "streaming/copyjob")
ON_EXECUTORS: Final = "spark.executorEnv."
"""Prefix of the settings with which Spark sets environment variables of executors."""
USER: Final = "HADOOP_USER_NAME"
_SCHEMES: Final = ("hdfs", "viewfs")
_DIRECTORY: Final = "config_dir"
PYTHON: Final = "spark.pyspark.python"
ALIVE_S: Final = 5.0
"""How often the driver reports that it runs while no outcome arrives."""
EVENT_OUTCOMES: Final = 200
"""Outcomes in one event at most, so that its line stays below the limit of the reader."""
_MISSING: Final = re.compile(r"No module named '([\w.]+)'")
_NO_PYTHON: Final = re.compile(r'Cannot run program "([^"]+)"[^\n]*error=(?:2|13),')
_OTHER_PYTHON: Final = re.compile(
    r"Python in worker has different version: \S+ than that in driver: [\d.]+\d"
)
_REASON_CHARS: Final = 1_000
_PYTHON_HINT: Final = (
    "Set spark.pyspark.python to a Python that all executors have, of the daemon's minor version "
    "(docs/FILE_SYSTEMS.md)."
)


@dataclass(frozen=True, slots=True)
class JobSettings:
    """The settings of a copy job."""

    share: ShareSettings
    spark: SparkSettings = field(default_factory=SparkSettings)
    bytes_per_s_max: int | None = None
    """Bytes that all tasks together read in a second."""
    policy: str = ""
    """The policy whose files are copied."""


def run_job(
    settings: JobSettings, copies: Sequence[tuple[int, SizedTask]], progress: ProgressListener
) -> int:
    """Copy the numbered files; ``progress`` receives the events ``alive``, ``started`` and ``outcomes``.

    Returns how many tasks failed and were repeated. Raises ConfigError if Spark, Java, Hadoop's
    configuration, or Python or a package of the executors is missing, and Transient if the cluster does not
    answer or Spark gives up.
    """
    from streaming.driver import masters, session
    from streaming.driver.executor_pods import PodLabel, label_pods, remove_former_pods, remove_own_pods
    from streaming.jvm_errors import jvm_errors

    label = PodLabel.of_policy(settings.policy)
    masters.require_reachable(settings.spark.master)
    if PYTHON in settings.spark.conf:
        os.environ["PYSPARK_PYTHON"] = settings.spark.conf[PYTHON]
    with _report_alive(progress):  # even while Spark starts: a full queue of YARN may delay it for hours
        spark = session.start(label_pods(settings.spark, label), name="tideline copies")
        with (
            remove_own_pods(spark),
            jvm_errors(spark),
            tempfile.TemporaryDirectory(prefix="tideline-job-") as directory,
        ):
            context = spark.sparkContext
            progress({"event": "started", "application": context.applicationId})
            context.addPyFile(str(write_package(Path(directory) / "tideline_copies.zip")))
            _run_shares(context, settings, copies, progress)
            remove_former_pods(
                spark, label
            )  # not at the start, when the pods of a driver that was just killed still run
            return _count_failed_tasks(context)


def _run_shares(
    context: SparkContext,
    settings: JobSettings,
    copies: Sequence[tuple[int, SizedTask]],
    progress: ProgressListener,
) -> None:
    slots = max(1, context.defaultParallelism)
    costs = [copy_cost(copy.size_bytes) for _, copy in copies]
    shares = split_shares(costs, count_shares(costs, slots))
    rows = [[(copies[index][0], write_copy(copies[index][1])) for index in share] for share in shares]
    share = settings.share
    if settings.bytes_per_s_max is not None:
        share = replace(share, bytes_per_s_max=max(1, settings.bytes_per_s_max // min(slots, len(rows))))
    outcomes = _open_accumulator(context, partial(_report_outcomes, progress))
    try:
        context.parallelize(rows, len(rows)).foreachPartition(ShareTask(share, outcomes))
    except Exception as error:
        raise _to_tideline_error(error) from error


def _count_failed_tasks(context: SparkContext) -> int:
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup()]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return sum(stage.numFailedTasks for stage in stages if stage is not None)


def _open_accumulator(context: SparkContext, arrived: Callable[[list[Numbered]], None]) -> Any:
    """Return an accumulator of lists, which passes each update to ``arrived`` and keeps nothing."""
    from pyspark.accumulators import AccumulatorParam

    class Arrivals(AccumulatorParam[list[Numbered]]):
        def zero(self, value: list[Numbered]) -> list[Numbered]:  # noqa: ARG002 - required by the port
            return []

        # N802: Spark's name
        def addInPlace(self, value1: list[Numbered], value2: list[Numbered]) -> list[Numbered]:  # noqa: N802
            arrived(value2)
            return value1

        def __reduce__(self) -> tuple[type[Outcomes], tuple[()]]:
            return Outcomes, ()

    return context.accumulator([], Arrivals())


def _report_outcomes(progress: ProgressListener, outcomes: Sequence[Numbered]) -> None:
    for piece in in_pieces(outcomes, EVENT_OUTCOMES):
        progress({"event": "outcomes", "outcomes": list(piece)})


@contextmanager
def _report_alive(progress: ProgressListener) -> Iterator[None]:
    """Report every few seconds during the block that the driver runs."""
    ended = threading.Event()

    def report() -> None:
        while not ended.wait(ALIVE_S):
            progress({"event": "alive"})

    thread = threading.Thread(target=report, name="alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _to_tideline_error(error: Exception) -> Exception:
    """Return the error of a job that Spark has abandoned; an error that is not Spark's is unchanged."""
    from py4j.protocol import Py4JJavaError

    return _describe_failure(str(error)) if isinstance(error, Py4JJavaError) else error


def _describe_failure(text: str) -> TidelineError:
    """Return the error of a job that ended with this exception of Spark."""
    if missing := _MISSING.search(text):
        return ConfigError(
            "the executors of copy jobs lack a Python package",
            package=missing[1],
            hint="Install it on the executors, or set spark.pyspark.python to a Python that has it "
            "(docs/FILE_SYSTEMS.md).",
        )
    if missing := _NO_PYTHON.search(text):
        return ConfigError(
            "the executors of copy jobs do not have this Python", path=missing[1], hint=_PYTHON_HINT
        )
    if other := _OTHER_PYTHON.search(text):
        return ConfigError(
            "the executors of copy jobs have another version of Python", reason=other[0], hint=_PYTHON_HINT
        )
    return Transient("Spark gave up on a copy job", reason=_first_cause(text))


def _first_cause(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(("\t", " "))]
    return " | ".join(lines[1:4])[:_REASON_CHARS]


def write_package(path: Path) -> Path:
    """Write the code that executors need to an archive, and return its path."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in PARTS:
            path_of_part = ROOT / part
            for file in sorted(path_of_part.rglob("*.py")) if path_of_part.is_dir() else [path_of_part]:
                archive.write(file, file.relative_to(ROOT))
    return path


def share_environment(settings: JobSettings) -> JobSettings:
    """Add the driver's HDFS settings, HDFS user and umask to the settings; configured values take precedence.

    Raises ConfigError if Hadoop's configuration is unreadable.
    """
    if settings.spark.master.startswith("local"):
        return settings
    conf = dict(settings.spark.conf)
    options = dict(settings.share.options)
    if ON_EXECUTORS + CONF_DIR not in conf:
        options |= {scheme: _with_hadoop_settings(options.get(scheme, {})) for scheme in _SCHEMES}
    if user := _find_user():
        conf.setdefault(ON_EXECUTORS + USER, user)
    return replace(
        settings,
        share=replace(settings.share, options=options, umask=_read_umask()),
        spark=replace(settings.spark, conf=conf),
    )


def _with_hadoop_settings(options: Mapping[str, object]) -> dict[str, Any]:
    """Return the options of a file system, with Hadoop's settings themselves in place of the directory that
    contains them.
    """
    others = {name: value for name, value in options.items() if name != _DIRECTORY}
    directory = Path(str(options[_DIRECTORY])) if _DIRECTORY in options else find_configuration()
    return (read_hadoop_settings(directory) if directory else {}) | others


def _find_user() -> str | None:
    """Return the user that an HDFS without Kerberos sees; None if this process's user has no name."""
    try:
        return os.environ.get(USER) or pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return None


def _read_umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
