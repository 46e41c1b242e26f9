"""Keeps the daemon's loops running: one thread each, restarted after failures, isolated from one another.

A loop ends only on a stop request or with an error. ``retry_policy`` decides what follows from the error: the
loop runs again after a pause, or is reported as failed. A failed loop runs again as soon as an operator
requests it, and after longer pauses automatically, because its cause may be gone. It counts as failed until
it has followed for a while or made progress.

A failing loop never stops another. Progress resets a loop's count of failures. Stopping is bounded by a
deadline. Liveness depends on heartbeats alone, never on other systems: a metastore that is down must not
restart the daemon.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

import structlog

from daemon.process.retry_policy import Verdict, judge
from state.errors import TidelineError, Transient


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemon.process.heartbeat import Heartbeat
    from daemon.process.retry_policy import RestartPolicy


log = structlog.get_logger(__name__)


_REVIVE_S = 0.5
"""How often a loop that waits for its next run looks for requests, at most."""


class LoopState(StrEnum):
    """State of a loop, as status, metrics and readiness name it."""

    STARTING = "starting"
    FOLLOWING = "following"
    BACKING_OFF = "backing-off"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class LoopStatus:
    """Status of one loop. Other threads read it, so it is replaced as a whole."""

    name: str
    state: LoopState = LoopState.STARTING
    beat_s: float = 0.0
    """Monotonic time of the last heartbeat."""
    failures: int = 0
    """Failures in a row, without progress in between."""
    restarts: int = 0
    problem: str | None = None
    code: str | None = None
    is_waiting: bool = False
    """Whether the loop waits for its next run, without heartbeats."""
    failed_s: float | None = None
    """Unix time since which the loop has been failed; None if it is not."""
    failed_runs: int = 0
    """Runs without durable progress since it failed."""
    followed_s: float | None = None
    """Monotonic time since which this run follows."""


class LoopHeartbeat:
    """The heartbeat of one loop (``daemon.process.heartbeat.Heartbeat``)."""

    def __init__(self, loop: _Loop, stopping: threading.Event, settled_s: float) -> None:
        self._loop = loop
        self._settled_s = settled_s
        self.stopping = stopping

    def beat(self) -> None:
        """Report that the loop is alive;
        cheap, so that it can be called in every iteration and in long waits.
        """
        now_s, status = time.monotonic(), self._loop.status
        self._loop.note(beat_s=now_s)
        has_settled = status.followed_s is not None and now_s - status.followed_s >= self._settled_s
        if status.problem is not None and has_settled:
            # What ended the run before has passed, even if an idle source leaves nothing to make progress
            # with.
            self._loop.note(state=LoopState.FOLLOWING, failed_s=None, problem=None, code=None)

    def following(self) -> None:
        """Report that the loop has opened its state and reads."""
        now_s, status = time.monotonic(), self._loop.status
        state = LoopState.FOLLOWING if status.failed_s is None else LoopState.FAILED
        self._loop.note(beat_s=now_s, state=state, followed_s=now_s)

    def progress(self) -> None:
        """Report durable progress: earlier failures are forgotten."""
        self._loop.note(
            beat_s=time.monotonic(),
            state=LoopState.FOLLOWING,
            failures=0,
            failed_runs=0,
            failed_s=None,
            problem=None,
            code=None,
        )


class LoopMeasures(Protocol):
    """What the supervisor counts."""

    def loop_failed(self, loop: str, code: str) -> None:
        """Count an error that ended a loop's run."""

    def loop_restarted(self, loop: str) -> None:
        """Count a new run after a failure."""


@dataclass(frozen=True, slots=True)
class Job:
    """A loop to keep running. ``run`` opens what it needs,
    runs until ``heartbeat.stopping`` is set, and closes everything.
    """

    name: str
    run: Callable[[Heartbeat], None]
    revive: Callable[[], bool] | None = None
    """Called while the loop waits after an error; it runs again at once if this returns True, as after a
    request of an operator."""


class _Loop:
    """One job in its thread."""

    def __init__(
        self, job: Job, backoff: RestartPolicy, stopping: threading.Event, measures: LoopMeasures
    ) -> None:
        self._job = job
        self._backoff = backoff
        self._stopping = stopping
        self._measures = measures
        self._lock = threading.Lock()
        self.status = LoopStatus(job.name, beat_s=time.monotonic())
        # A daemon thread: a loop that does not end in time must not keep the process from exiting.
        self.thread = threading.Thread(target=self._main, name=job.name, daemon=True)

    def note(self, **changes: object) -> None:
        with self._lock:
            # Names are checked by replace
            self.status = replace(self.status, **changes)  # type: ignore[arg-type]

    def _main(self) -> None:
        structlog.contextvars.bind_contextvars(loop=self._job.name)
        while not self._stopping.is_set():
            error = self._attempt()
            if error is None:
                break
            self._pause_after(error)
            if not self._stopping.is_set():
                self._begin_again()
        if self.status.failed_s is None:
            self.note(state=LoopState.STOPPED)

    def _begin_again(self) -> None:
        """Note that the loop runs again; a failed one stays failed until it follows."""
        status = self.status
        state = LoopState.STARTING if status.failed_s is None else LoopState.FAILED
        self.note(
            state=state,
            restarts=status.restarts + 1,
            beat_s=time.monotonic(),
            is_waiting=False,
            followed_s=None,
        )
        self._measures.loop_restarted(self._job.name)

    def _attempt(self) -> Exception | None:
        """Run the job once and return its error; None if it stopped as requested."""
        try:
            self._job.run(LoopHeartbeat(self, self._stopping, self._backoff.settled_s))
        except Exception as error:  # noqa: BLE001 - the last handler of a thread: every failure is judged by the retry policy
            return error
        return None

    def _pause_after(self, error: Exception) -> None:
        """Wait until the next attempt is due, or a stop is requested."""
        failures = self.status.failures + 1
        code = error.code if isinstance(error, TidelineError) else "unexpected"
        self.note(
            failures=failures,
            problem=_describe(error),
            code=code,
            beat_s=time.monotonic(),
            is_waiting=True,
        )
        self._measures.loop_failed(self._job.name, code)
        decision = judge(error)
        exhausted = decision is Verdict.RETRY_BOUNDED and failures >= self._backoff.attempts_max
        if decision is Verdict.STOP or exhausted:
            self._wait_while_failed(error, code)
        else:
            self._back_off(error, code, failures)

    def _wait_while_failed(self, error: Exception, code: str) -> None:
        """Report the loop as failed, and wait until it is tried again or an operator requests it."""
        runs = self.status.failed_runs + 1
        pause_s = self._backoff.failed.pause_s(runs)
        since_s = self.status.failed_s or time.time()
        self.note(state=LoopState.FAILED, failed_s=since_s, failed_runs=runs)
        log.error(
            "loop failed and needs an operator; other loops continue",
            code=code,
            problem=_describe(error),
            failures=self.status.failures,
            next_try_s=round(pause_s, 1),
            exc_info=None if isinstance(error, TidelineError) else error,
        )
        self._wait(pause_s)

    def _wait(self, pause_s: float) -> None:
        """Wait until the loop is to run again,
        an operator's request lets it run now, or a stop is requested.
        """
        until_s = time.monotonic() + pause_s
        while (left_s := until_s - time.monotonic()) > 0 and not self._stopping.wait(min(_REVIVE_S, left_s)):
            if self._is_requested():
                return

    def _is_requested(self) -> bool:
        """Serve an operator's requests; return whether one of them lets the loop run again now."""
        try:
            return self._job.revive is not None and self._job.revive()
        except Exception:
            log.exception("a loop that does not run cannot serve requests")
            return False

    def _back_off(self, error: Exception, code: str, failures: int) -> None:
        pause_s = self._backoff.pause_s(failures)
        self.note(state=LoopState.BACKING_OFF, failed_s=None)
        # A leader change is routine: log the first failure as info, repeated ones as warnings.
        write = log.info if failures == 1 and isinstance(error, Transient) else log.warning
        write(
            "loop failed and will be restarted",
            code=code,
            problem=_describe(error),
            failures=failures,
            pause_s=round(pause_s, 1),
            exc_info=None if isinstance(error, TidelineError) else error,
        )
        self._wait(pause_s)


class Supervisor:
    """All loops of the process. Call ``start`` and ``stop`` once;
    everything else may be called from any thread.
    """

    def __init__(
        self, jobs: Sequence[Job], *, backoff: RestartPolicy, heartbeat_max_s: float, measures: LoopMeasures
    ) -> None:
        self._backoff = backoff
        self._measures = measures
        self._heartbeat_max_s = heartbeat_max_s
        self._lock = threading.Lock()
        self._started = False
        self.stopping = threading.Event()
        self._loops: tuple[_Loop, ...] = ()
        """Replaced as a whole, because other threads iterate over it."""
        for job in jobs:
            self.add(job)

    def start(self) -> None:
        """Start every loop's thread."""
        with self._lock:
            self._started = True
            for loop in self._loops:
                loop.thread.start()

    def add(self, job: Job) -> None:
        """Add a loop, and start it if the others have been started; while they stop, it never starts."""
        loop = _Loop(job, self._backoff, self.stopping, self._measures)
        with self._lock:
            names = [each.status.name for each in self._loops]
            assert job.name not in names, f"loop names are not unique: {job.name} in {names}"
            self._loops = (*self._loops, loop)
            if self._started and not self.stopping.is_set():
                loop.thread.start()

    def statuses(self) -> dict[str, LoopStatus]:
        """Return the status of every loop, by name."""
        return {loop.status.name: loop.status for loop in self._loops}

    def stuck(self) -> list[str]:
        """Return the loops without a heartbeat for too long, and those whose thread died."""
        return [loop.status.name for loop in self._loops if self._is_stuck(loop)]

    def _is_stuck(self, loop: _Loop) -> bool:
        status = loop.status
        if status.state is LoopState.STOPPED or loop.thread.ident is None:
            return False
        if not loop.thread.is_alive():
            return not self.stopping.is_set()
        if status.is_waiting:
            return False
        return time.monotonic() - status.beat_s > self._heartbeat_max_s

    def stop(self, drain_s: float) -> list[str]:
        """Tell every loop to stop and wait for at most ``drain_s``;
        return the names of loops that are still running.
        """
        with self._lock:
            self.stopping.set()
        deadline = time.monotonic() + drain_s
        for loop in self._loops:
            if loop.thread.ident is not None:
                loop.thread.join(max(0.0, deadline - time.monotonic()))
        return [loop.status.name for loop in self._loops if loop.thread.is_alive()]


def _describe(error: Exception) -> str:
    return str(error) if isinstance(error, TidelineError) else f"{type(error).__name__}: {error}"
