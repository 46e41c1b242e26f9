"""Copy jobs: what passes between daemon, driver and executors, and what follows when a driver ends early."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.config.settings.policies import CopyJobsConfig
from daemon.replica.copy_jobs import runner
from daemon.replica.copy_jobs.commands import read_order, require_spark, write_order
from daemon.replica.copy_jobs.progress import JobProgress, job_line
from daemon.replica.copy_jobs.runner import SparkJobs
from handlers.events import SourceFile
from handlers.files.copying.copies import Copied, CopyTask
from handlers.files.copying.jobs import Outcome, SizedTask
from handlers.files.systems.schemes import open_file_systems
from state.errors import (
    ConfigError,
    Fenced,
    FileLost,
    FilesUnavailable,
    Interrupted,
    MalformedEvent,
    UnsafePath,
)
from streaming.copyjob.job import JobSettings, write_package
from streaming.copyjob.share import ShareSettings, copy_share, read_outcome, write_outcome
from streaming.settings import SparkSettings


DRIVER = """
import json, os, signal, sys
from pathlib import Path
from daemon.replica.copy_jobs.commands import read_order
from daemon.process.signals import end_with_parent
from streaming.copyjob.share import write_copy
from daemon.replica.copy_jobs.commands import read_order
from daemon.process.signals import end_with_parent
from streaming.copyjob.share import write_copy
from streaming.copyjob.share import copy_share

directory = Path(sys.argv[1])
progress = int(sys.argv[sys.argv.index("--progress-fd") + 1])
settings, copies = read_order(sys.stdin.buffer)
end_with_parent()
with (directory / "orders").open("a") as orders:
    orders.write(json.dumps([number for number, _ in copies]) + "\\n")

def report(event):
    os.write(progress, json.dumps(event).encode() + b"\\n")

report({"event": "started", "application": "fake"})
reports = int((directory / "reports").read_text())
for number, copy in copies[:reports]:
    report({"event": "outcomes", "outcomes": copy_share(settings.share, [(number, write_copy(copy))])})
match (directory / "then").read_text():
    case "die":
        os.kill(os.getpid(), signal.SIGKILL)
    case "hang":
        signal.pause()
    case "refuse":
        report({"event": "stopped", "reason": "config", "message": "[config] no such master"})
    case _:
        report({"event": "stopped", "reason": "done", "failed_tasks": 0})
"""


@dataclass
class Job:
    """Files to copy, and drivers that behave as ``drivers_do`` says."""

    root: Path
    files: int = 6
    stopping: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        (self.root / "in").mkdir()
        (self.root / "out").mkdir()
        for number in range(self.files):
            (self.root / "in" / str(number)).write_bytes(b"x" * number)

    def drivers_do(self, then: str, *, reports: int = 1_000) -> None:
        (self.root / "then").write_text(then)
        (self.root / "reports").write_text(str(reports))

    @property
    def orders(self) -> list[str]:
        path = self.root / "orders"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def copies(self) -> list[SizedTask]:
        out = f"file:{self.root}/out"
        return [
            SizedTask(CopyTask(SourceFile(f"file:{self.root}/in/{n}"), f"{out}/t/{n}", out), n)
            for n in range(self.files)
        ]

    def jobs(self, **settings: Any) -> SparkJobs:
        return SparkJobs(
            "p",
            CopyJobsConfig.model_validate(settings),
            open_file_systems(),
            options={},
            read_roots=[f"file:{self.root}/in"],
        )

    def run(self, guard: Any = lambda: None, jobs: SparkJobs | None = None) -> Sequence[Outcome]:
        return (jobs or self.jobs()).run(self.copies, guard=guard, stopping=self.stopping)

    def visible(self) -> list[str]:
        """Return everything below the target, also hidden files."""
        return sorted(str(path.relative_to(self.root / "out")) for path in (self.root / "out").rglob("*"))


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    program = tmp_path / "driver.py"
    program.write_text(DRIVER)
    monkeypatch.setattr(runner, "COMMAND", (sys.executable, str(program), str(tmp_path)))
    monkeypatch.setattr(runner, "GUARD_S", 0.0)
    return Job(tmp_path)


def test_all_files_are_copied_by_one_driver_and_nothing_else_stays(job: Job) -> None:
    job.drivers_do("end")
    jobs = job.jobs()
    outcomes = job.run(jobs=jobs)
    assert [each.size_bytes for each in outcomes if isinstance(each, Copied)] == list(range(6))
    assert job.visible() == ["t", *(f"t/{n}" for n in range(6))]
    assert len(job.orders) == 1
    assert (jobs.counters.files, jobs.counters.size_bytes, jobs.running) == (6, 15, None)


def test_a_driver_that_is_killed_is_started_again_with_the_files_that_it_did_not_report(job: Job) -> None:
    job.drivers_do("die", reports=4)
    outcomes = job.run()
    assert all(isinstance(each, Copied) for each in outcomes)
    assert job.orders[:2] == ["[0, 1, 2, 3, 4, 5]", "[4, 5]"]


def test_files_that_no_driver_reaches_are_unavailable_and_not_lost(job: Job) -> None:
    job.drivers_do("die", reports=0)
    outcomes = job.run()
    assert {type(each) for each in outcomes} == {FilesUnavailable}
    assert len(job.orders) == runner.STARTS_MAX
    assert job.visible() == []


def test_a_wrong_setting_ends_the_job_at_once(job: Job) -> None:
    job.drivers_do("refuse", reports=0)
    with pytest.raises(ConfigError, match="no such master"):
        job.run()
    assert len(job.orders) == 1


def test_a_job_ends_and_its_fence_is_removed_if_another_instance_takes_over(job: Job) -> None:
    job.drivers_do("hang", reports=2)
    fences: list[list[str]] = []

    def guard() -> None:
        if len(job.visible()) > 2:
            fences.append([name for name in job.visible() if name.startswith("._tideline")])
            raise Fenced("another instance")

    with pytest.raises(Fenced):
        job.run(guard)
    assert len(fences[0]) == 1
    assert job.visible()[0] == "t"


def test_a_job_ends_if_its_caller_stops(job: Job) -> None:
    job.drivers_do("hang", reports=0)
    with pytest.raises(Interrupted):
        job.run(lambda: job.stopping.set() if job.orders else None)
    assert job.visible() == []


def test_the_fate_of_single_files_is_an_outcome_and_not_a_failure_of_the_job(job: Job) -> None:
    job.drivers_do("end")
    (job.root / "in" / "3").unlink()
    outcomes = job.run()
    assert isinstance(outcomes[3], FileLost)
    assert sum(isinstance(each, Copied) for each in outcomes) == 5


def test_nothing_is_published_without_the_fence(job: Job) -> None:
    settings = ShareSettings([f"file:{job.root}/in"], f"file:{job.root}/out/._tideline_gone")
    order = list(write_order(JobSettings(settings), enumerate(job.copies)))
    read, copies = read_order(io.BytesIO(b"".join(order)))
    from streaming.copyjob.share import write_copy

    found = copy_share(read.share, [(number, write_copy(copy)) for number, copy in copies])
    assert {type(read_outcome(values)) for _, values in found} == {FilesUnavailable}
    assert job.visible() == []


def test_an_order_is_read_as_it_was_written(tmp_path: Path) -> None:
    share = ShareSettings(("s3a://b/in",), "s3a://b/f", {"s3a": {"secret_key": "x"}}, 3, 10)
    settings = JobSettings(share, SparkSettings("yarn", "2g", ("a.jar",), {"spark.x": "1"}), 1000)
    task = CopyTask(SourceFile("s3a://b/in/a b", "0" * 32, "s3a://b/cm"), "file:/t/a", "file:/t")
    lines = list(write_order(settings, [(7, SizedTask(task, 5))]))
    read, copies = read_order(io.BytesIO(b"".join(lines) + b"later"))
    assert (list(read.share.read_roots), read.share.options, read.spark.conf) == (
        ["s3a://b/in"],
        {"s3a": {"secret_key": "x"}},
        {"spark.x": "1"},
    )
    assert copies == [(7, SizedTask(task, 5))]
    for end in range(len(lines)):
        with pytest.raises(MalformedEvent):
            read_order(io.BytesIO(b"".join(lines[:end])))


ERRORS = st.sampled_from([FileLost, FilesUnavailable, UnsafePath, ConfigError])


@given(ERRORS, st.text(), st.text(), st.dictionaries(st.text(), st.none() | st.text() | st.integers()))
def test_an_error_arrives_with_its_class_message_hint_and_context(
    kind: Any, message: str, hint: str, context: dict[str, Any]
) -> None:
    error = kind(message, hint=hint)
    error.context.update(context)
    found = read_outcome(write_outcome(error))
    assert type(found) is kind
    assert str(found) == str(error)


@given(st.builds(Copied, st.integers(0), st.booleans(), st.booleans(), st.floats(0, 1e6), st.integers(0, 9)))
def test_a_copy_arrives_as_it_was_reported(copied: Copied) -> None:
    assert read_outcome(write_outcome(copied)) == copied


def test_executors_get_all_the_code_that_they_run(tmp_path: Path) -> None:
    package = write_package(tmp_path / "copies.zip")
    program = "import streaming.copyjob.share as s, handlers.files.systems.schemes; print(s.__file__)"
    environment = {"PYTHONPATH": str(package)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(str(package))


def test_the_time_left_follows_from_files_and_bytes() -> None:
    copies = [SizedTask(CopyTask(SourceFile("file:/a"), "file:/b"), 1024 * 1024) for _ in range(4)]
    progress = JobProgress(copies, 100.0)
    assert progress.status(100.0).left_s is None
    progress.start(110.0)
    progress.add(0, Copied(1024 * 1024, from_change_manager=False, skipped=False, seconds=1.0))
    status = progress.status(112.0)
    assert (status.files, status.left_s, status.bytes_per_s) == (1, 6.0, 524288.0)
    progress.add(1, FileLost("gone"))
    assert "2 of 4 files" in job_line(progress.status(112.0))
    assert "1 file failed" in job_line(progress.status(112.0))


def test_jobs_start_from_the_configured_number_of_files_or_bytes(job: Job) -> None:
    jobs = job.jobs(files_min=10, bytes_min=1000)
    assert not jobs.suits(9, 999)
    assert jobs.suits(10, 0)
    assert jobs.suits(1, 1000)
    assert not job.jobs(files_min=1, bytes_min=1).suits(0, 0)


def test_copy_jobs_without_spark_name_the_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ConfigError, match=r"tideline\[flat\]"):
        require_spark()
