"""Copy jobs on a Spark cluster with executors in separate processes, which are killed while they copy.

Copies are slowed down, so that every kill meets some that are not finished.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from handlers.events import SourceFile
from handlers.files.copying.copies import Copied, CopyTask
from handlers.files.copying.jobs import SizedTask
from tests.builders.components.spark_cluster import SparkCluster
from tests.builders.replication.spark_jobs import spark_jobs


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from daemon.replica.copy_jobs.runner import SparkJobs
    from handlers.files.copying.jobs import Outcome


pytestmark = pytest.mark.crash

DEADLINE_S = 600.0
"""How long a failing test waits; generous, because a busy machine must not fail a test."""
FILES = 60
SIZE = 200_000
BYTES_PER_S = 1_000_000
EXECUTORS = {"executors": 2, "executor_cores": 1, "executor_memory": "512m"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path / "cluster", cores=3) as running:
        yield running


@dataclass
class Files:
    """Files of a source and the directory for their copies."""

    root: Path
    killed: list[int] = field(default_factory=list)
    written: dict[str, int] = field(default_factory=dict)
    """Inodes of the copies at the moment of the kill."""

    def __post_init__(self) -> None:
        (self.root / "in").mkdir()
        (self.root / "out").mkdir()
        for number in range(FILES):
            (self.root / "in" / f"f{number}").write_bytes(os.urandom(SIZE))

    @property
    def copies(self) -> list[SizedTask]:
        return [self._copy(path) for path in sorted((self.root / "in").iterdir())]

    def _copy(self, path: Path) -> SizedTask:
        checksum = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        out = f"file:{self.root}/out"
        return SizedTask(CopyTask(SourceFile(f"file:{path}", checksum), f"{out}/t/{path.name}", out), SIZE)

    def published(self) -> dict[str, int]:
        """Return the inodes of the copies."""
        found = (self.root / "out").glob("t/f*")
        return {path.name: path.stat().st_ino for path in found}

    def hidden(self) -> list[str]:
        return [path.name for path in (self.root / "out").rglob("._*")]

    def check(self, outcomes: Sequence[Outcome]) -> None:
        """Every file is copied, nothing else is left, and what was copied before the kill was not copied again."""
        assert all(isinstance(each, Copied) for each in outcomes), outcomes
        for path in (self.root / "in").iterdir():
            assert (self.root / "out" / "t" / path.name).read_bytes() == path.read_bytes()
        assert self.hidden() == []
        assert self.killed
        assert 0 < len(self.written) < FILES
        assert {name: self.published()[name] for name in self.written} == self.written

    def run(self, jobs: SparkJobs, kill: Callable[[], int]) -> Sequence[Outcome]:
        """Run a job and call ``kill`` once when some files are copied."""
        ended = threading.Event()
        killer = threading.Thread(target=self._kill_at_work, args=(kill, ended))
        killer.start()
        try:
            return jobs.run(self.copies, guard=lambda: None, stopping=threading.Event())
        finally:
            ended.set()
            killer.join()

    def _kill_at_work(self, kill: Callable[[], int], ended: threading.Event) -> None:
        while not ended.wait(0.01):
            if len(self.published()) >= 3 and self.hidden():
                self.killed.append(kill())
                self.written = self.published()
                return


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def kill_the_driver() -> int:
    """Kill the driver of a copy job that this process has started."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().replace(b"\0", b" ")
            parent = re.search(r"^PPid:\s*(\d+)", (entry.parent / "status").read_text(), re.MULTILINE)
        except OSError:
            continue
        if b"-m daemon copyjob" in command and parent is not None and int(parent[1]) == os.getpid():
            pid = int(entry.parent.name)
            os.kill(pid, signal.SIGKILL)
            return pid
    raise AssertionError("no driver runs")


def test_a_job_completes_although_an_executor_is_killed(cluster: SparkCluster, files: Files) -> None:
    jobs = spark_jobs(
        [f"file:{files.root}/in"],
        master=cluster.master.url,
        spark=EXECUTORS,
        bytes_per_s_max=BYTES_PER_S,
        files_at_once=2,
    )
    files.check(files.run(jobs, cluster.kill_an_executor))
    assert jobs.counters.failed == 0


def test_a_job_completes_although_its_driver_is_killed(cluster: SparkCluster, files: Files) -> None:
    jobs = spark_jobs(
        [f"file:{files.root}/in"],
        master=cluster.master.url,
        spark=EXECUTORS,
        bytes_per_s_max=BYTES_PER_S,
        files_at_once=2,
    )
    files.check(files.run(jobs, kill_the_driver))
    deadline = time.monotonic() + DEADLINE_S
    while cluster.worker.executors():  # they end by themselves, once their driver has
        assert time.monotonic() < deadline


def test_a_job_on_one_machine_completes_although_its_driver_is_killed(files: Files) -> None:
    jobs = spark_jobs([f"file:{files.root}/in"], bytes_per_s_max=BYTES_PER_S, files_at_once=2)
    files.check(files.run(jobs, kill_the_driver))
