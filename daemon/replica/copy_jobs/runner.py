"""Runs the copy jobs of one policy, one at a time, with a driver in a child process.

The runner collects the outcomes that the driver reports. If a driver ends early, the runner starts another
one with the files that have no outcome. It gives up after three starts in a row without a finished file; the
remaining files are then unavailable, and the caller tries them again later. While a job runs, the runner
checks the claim of the target every few seconds. When the job ends, for any reason, it removes the job's
fence, so no executor publishes anything after that.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

import structlog

from daemon.config.settings.policies import CopyJobsConfig
from daemon.process.child import LISTEN_S, STARTED, STOPPED, Child, reported_error
from daemon.replica.copy_jobs.commands import DONE, require_spark, write_order
from daemon.replica.copy_jobs.progress import JobProgress, job_line
from handlers.files.copying.jobs import JobStatus, Outcome, SizedTask, create_fence, remove_fence
from handlers.files.copying.pool import CopyCounters
from handlers.files.filesystems import FileSystems, sweep
from handlers.files.paths import Location, parse_location
from state.errors import DriverEnded, FilesUnavailable, Interrupted, TidelineError, Transient
from streaming.copyjob.job import JobSettings
from streaming.copyjob.share import ShareSettings, read_outcome


log = structlog.get_logger(__name__)

COMMAND: Final = (sys.executable, "-m", "daemon", "copyjob")
STARTS_MAX: Final = 3
FILES_MAX: Final = 200_000
"""Files of one driver at most; several drivers, one after another, copy more."""
GUARD_S: Final = 2.0
LOG_S: Final = 30.0
_SWEEPERS: Final = 16
_POLL_S: Final = 0.5


class SparkJobs:
    """The copy jobs of one policy. ``running`` and ``counters`` are thread-safe."""

    def __init__(  # noqa: PLR0913 - what a job needs to know
        self,
        policy: str,
        settings: CopyJobsConfig,
        file_systems: FileSystems,
        *,
        options: Mapping[str, Mapping[str, object]],
        read_roots: Sequence[str],
        clean: Callable[[str], str] = str,
        changed: Callable[[JobStatus], None] = lambda _: None,
    ) -> None:
        """``clean`` masks secrets in a driver's output. ``changed`` receives each change of a job's progress.

        Raises ConfigError without Spark.
        """
        require_spark()
        self._policy = policy
        self._settings = settings
        self._file_systems = file_systems
        self._options = options
        self._read_roots = tuple(read_roots)
        self._clean = clean
        self._changed = changed
        self._lock = threading.Lock()
        self._log = log.bind(policy=policy)
        self._sweeps = True
        """Whether there may be unfinished files: at first, those of a killed process."""
        self.running: JobStatus | None = None
        self.counters = CopyCounters()

    def suits(self, files: int, size_bytes: int) -> bool:
        """Return whether a copy job is worth its start for this number of files."""
        return files > 0 and (files >= self._settings.files_min or size_bytes >= self._settings.bytes_min)

    def run(
        self,
        copies: Sequence[SizedTask],
        *,
        guard: Callable[[], None],
        stopping: threading.Event,
        beat: Callable[[], None] = lambda: None,
    ) -> Sequence[Outcome]:
        """Copy all files; see ``handlers.files.copying.jobs.CopyJobs``."""
        with self._turn(stopping, beat):
            guard()
            above = parse_location(
                copies[0].task.above_uri or str(parse_location(copies[0].task.target_uri).parent)
            )
            fence = create_fence(self._file_systems, above)
            job = _Job(self, copies, str(fence), guard, stopping, beat)
            try:
                outcomes = job.run()
            finally:
                self.running = None
                self._end(fence, job, copies)
            return outcomes

    @contextmanager
    def _turn(self, stopping: threading.Event, beat: Callable[[], None]) -> Iterator[None]:
        """Wait until no other job of the policy runs."""
        while not self._lock.acquire(timeout=_POLL_S):
            beat()
            if stopping.is_set():
                raise Interrupted("the copy job was stopped")
        try:
            yield
        finally:
            self._lock.release()

    def _end(self, fence: Location, job: _Job, copies: Sequence[SizedTask]) -> None:
        """Remove the job's fence, and the temporary files of lost executors."""
        with suppress(TidelineError):  # the next copy into the directory removes it
            remove_fence(self._file_systems, fence)
        if not (job.is_clean and not self._sweeps):
            directories = {parse_location(copy.task.target_uri).parent for copy in copies}
            with ThreadPoolExecutor(_SWEEPERS, thread_name_prefix="tideline-sweep") as threads:
                list(threads.map(self._sweep, directories))
        self._sweeps = not job.is_clean

    def _sweep(self, directory: Location) -> None:
        with suppress(TidelineError):  # hidden files that stay do no harm
            sweep(self._file_systems, directory)

    def settings_of(self, fence: str) -> JobSettings:
        """Return the settings of a job with this fence."""
        own = self._settings
        share = ShareSettings(
            self._read_roots,
            fence,
            self._options,
            files_at_once=own.files_at_once,
            trusted=tuple(map(str, self._file_systems.trusted)),
        )
        return JobSettings(share, own.spark.value(), own.bytes_per_s_max, self._policy)

    def show(self, status: JobStatus) -> None:
        """Publish the progress of the job that runs."""
        self.running = status
        self._changed(status)

    def count(self, outcome: Outcome) -> None:
        """Count the outcome of a file."""
        done = self.counters
        if isinstance(outcome, TidelineError):
            self.counters = replace(done, failed=done.failed + 1)
            return
        one = CopyCounters(
            files=1,
            size_bytes=0 if outcome.skipped else outcome.size_bytes,
            from_change_manager=int(outcome.from_change_manager),
            skipped=int(outcome.skipped),
            mismatches=outcome.mismatches,
            seconds=outcome.seconds,
        )
        self.counters = done.plus(one)

    def log_output(self, lines: Sequence[str]) -> None:
        """Write the output of a driver to the log."""
        for line in lines:
            self._log.info("output of a copy job", line=self._clean(line))

    def log_progress(self, message: str, **values: Any) -> None:
        """Log the progress of a job, or why its driver restarts."""
        self._log.info(message, **values)

    def reported(self, stopped: Mapping[str, Any] | None, child: Child) -> TidelineError | None:
        """Return the error with which a driver ended; None if it has reported all files."""
        if stopped is None:
            return DriverEnded(
                "the driver of a copy job ended",
                exit_code=child.exit_code,
                last_words=child.recent_output(self._clean),
            )
        return None if stopped.get("reason") == DONE else reported_error(stopped, self._clean)


class _Job:
    """The state of one call of ``run``."""

    def __init__(  # noqa: PLR0913, PLR0917 - what one call has been given
        self,
        jobs: SparkJobs,
        copies: Sequence[SizedTask],
        fence: str,
        guard: Callable[[], None],
        stopping: threading.Event,
        beat: Callable[[], None],
    ) -> None:
        self._jobs = jobs
        self._copies = copies
        self._settings = jobs.settings_of(fence)
        self._guard = guard
        self._stopping = stopping
        self._beat = beat
        self._outcomes: dict[int, Outcome] = {}
        self._progress = JobProgress(copies, time.time())
        self._guarded_s = self._logged_s = time.monotonic()
        self.is_clean = False
        """Whether every driver reported all files and no task was lost."""

    def run(self) -> list[Outcome]:
        self._show()
        failures, lost = 0, 0
        error: TidelineError | None = None
        while failures < STARTS_MAX and (todo := self._todo()):
            before = len(self._outcomes)
            error, failed_tasks = self._run_driver(todo)
            lost += failed_tasks + (error is not None)
            if error is None and len(self._outcomes) > before:
                continue
            if error is not None and not isinstance(error, Transient):
                raise error
            failures = 1 if len(self._outcomes) > before else failures + 1
            self._progress.restarts += 1
            self._jobs.log_progress("a copy job is restarted", reason=str(error), failures=failures)
        self.is_clean = lost == 0
        reason = "the driver reported no outcome" if error is None else str(error)
        return [
            self._outcomes.get(number)
            or FilesUnavailable(
                "the copy job did not reach the file", path=copy.task.source.uri, reason=reason
            )
            for number, copy in enumerate(self._copies)
        ]

    def _todo(self) -> list[int]:
        return [number for number in range(len(self._copies)) if number not in self._outcomes][:FILES_MAX]

    def _run_driver(self, numbers: Sequence[int]) -> tuple[TidelineError | None, int]:
        """Run a driver for the copies with these numbers. Returns why it ended early, and the number of
        failed tasks.
        """
        stopped: Mapping[str, Any] | None = None
        with Child(COMMAND) as child:
            with suppress(OSError):  # it has ended, as noticed below
                child.send(write_order(self._settings, [(each, self._copies[each]) for each in numbers]))
            code: int | None = None
            while code is None:
                code = child.exit_code  # before listening, so that the last events arrive before the end
                for event in self._listen(child):
                    self._take(event)
                    stopped = event if event["event"] == STOPPED else stopped
            error = self._jobs.reported(stopped, child)
        return error, int((stopped or {}).get("failed_tasks", 0))

    def _listen(self, child: Child) -> Sequence[Mapping[str, Any]]:
        if self._stopping.is_set():
            raise Interrupted("the copy job was stopped", files=len(self._outcomes))
        events, output = child.listen(LISTEN_S)
        self._jobs.log_output(output)
        now_s = time.monotonic()
        if now_s - self._guarded_s >= GUARD_S:
            self._guard()
            self._guarded_s = now_s
        if events:
            self._beat()
        return events

    def _take(self, event: Mapping[str, Any]) -> None:
        """Record the outcomes in an event; a repeated outcome counts once."""
        if event["event"] == STARTED and not self._outcomes:
            self._progress.start(time.time())
        for number, values in event.get("outcomes", ()):
            if number not in self._outcomes:
                self._outcomes[number] = outcome = read_outcome(values)
                self._progress.add(number, outcome)
                self._jobs.count(outcome)
        self._show()

    def _show(self) -> None:
        status = self._progress.status(time.time())
        self._jobs.show(status)
        now_s = time.monotonic()
        if now_s - self._logged_s >= LOG_S:
            self._logged_s = now_s
            self._jobs.log_progress(job_line(status))
