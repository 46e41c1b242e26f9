"""Part of ``bench.copies``: a Spark copy job compared with Hadoop's DistCp and with a plain parallel copy of
the same files on disk.

Both programs start a JVM on this machine: Spark runs two tasks at a time, and DistCp eight copiers in its
local job runner. DistCp does not wait until files are durable.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import structlog

from bench.report import Row, row
from daemon.config.settings.policies import CopyJobsConfig
from daemon.replica.copy_jobs.runner import SparkJobs
from dev.stack.downloads.jars import locate_jars, read_lock
from handlers.events import SourceFile
from handlers.files.copying.copies import Copied, CopyTask
from handlers.files.copying.jobs import JobStatus, SizedTask
from handlers.files.systems.schemes import open_file_systems
from streaming.driver import installation


ROUNDS: Final = 3
DISTCP: Final = "org.apache.hadoop:hadoop-distcp"


class DiskJobs:
    """A directory of files that programs with a JVM copy. ``clear`` removes the copies."""

    def __init__(
        self, sources: Sequence[SourceFile], size_bytes: int, out: str, clear: Callable[[], None]
    ) -> None:
        self._sources = sources
        self._size_bytes = size_bytes
        self._out = out
        self._clear = clear
        # The standard output of a benchmark is its report.
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))

    def rows(self, shape: str, plain: Callable[[], float]) -> Iterator[Row]:
        """Measure both programs and the plain copy in turn."""
        whole, copying, distcp, plainly = [], [], [], []
        for _ in range(ROUNDS):
            self._clear()
            plainly.append(plain())
            self._clear()
            whole_s, copying_s = self.copy_by_spark()
            whole.append(whole_s)
            copying.append(copying_s)
            self._clear()
            distcp.append(self.copy_by_distcp())
        yield row(
            f"spark_{shape}", statistics.median(whole), "s", rival=("DistCp", statistics.median(distcp))
        )
        yield row(
            f"spark_{shape}_after_start",
            statistics.median(copying),
            "s",
            rival=("plain parallel copy", statistics.median(plainly)),
        )

    def copy_by_spark(self) -> tuple[float, float]:
        """Return the seconds of a job, and the seconds after its driver was ready, in which executors start
        Python.
        """
        ready: list[float] = []

        def look(status: JobStatus) -> None:
            if status.files < status.files_listed:
                ready.append(time.perf_counter())

        root = self._sources[0].uri.rpartition("/")[0]
        settings = CopyJobsConfig.model_validate({"spark": {"master": "local[2]"}})
        jobs = SparkJobs("bench", settings, open_file_systems(), options={}, read_roots=[root], changed=look)
        copies = [
            SizedTask(
                CopyTask(each, f"{self._out}/{each.uri.rpartition('/')[2]}", self._out), self._size_bytes
            )
            for each in self._sources
        ]
        started = time.perf_counter()
        outcomes = jobs.run(copies, guard=lambda: None, stopping=threading.Event())
        ended = time.perf_counter()
        assert all(isinstance(each, Copied) and not each.skipped for each in outcomes)
        # The call itself reports the first progress. The driver reports the second when its session has
        # started.
        return ended - started, ended - ready[1]

    def copy_by_distcp(self) -> float:
        """Return the seconds of the program."""
        installation.use_java()
        root = self._sources[0].uri.rpartition("/")[0]
        java = str(Path(os.environ["JAVA_HOME"]) / "bin" / "java")
        program = ["org.apache.hadoop.tools.DistCp", "-m", "8", root, f"{self._out}/distcp"]
        started = time.perf_counter()
        subprocess.run([java, "-cp", _class_path(), *program], check=True, capture_output=True)
        elapsed_s = time.perf_counter() - started
        assert len(list(Path(self._out.removeprefix("file:"), "distcp").glob("f*"))) == len(self._sources)
        return elapsed_s


def _class_path() -> str:
    """Return the class path: DistCp, and the Hadoop client that PySpark contains."""
    import pyspark

    (distcp,) = locate_jars([jar for jar in read_lock("hive") if jar.coordinates.startswith(DISTCP)])
    return f"{distcp}:{Path(pyspark.__path__[0]) / 'jars'}/*"
