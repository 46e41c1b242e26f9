"""Keeps the daemon's loops running: one thread each, restarted after failures, isolated from one another.

A loop ends only on a stop request or with an error. ``retry_policy`` decides what follows from the error: the loop runs
again after a pause, or stays stopped and is reported until the daemon is restarted.

A failing loop never stops another. Progress resets a loop's count of failures. Stopping is bounded by a deadline.
Liveness looks at heartbeats alone, never at dependencies: a metastore that is down must not restart the daemon.
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
"""How often a failed loop looks for requests."""


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


class LoopHeartbeat:
    """The heartbeat of one loop (``daemon.process.heartbeat.Heartbeat``)."""

    def __init__(self, loop: _Loop, stopping: threading.Event) -> None:
        self._loop = loop
        self.stopping = stopping

    def beat(self) -> None:
        """Report that the loop is alive; cheap, so that it can be called in every iteration and in long waits."""
        self._loop.note(beat_s=time.monotonic())

    def following(self) -> None:
        """Report that the loop has opened its state and reads."""
        self._loop.note(beat_s=time.monotonic(), state=LoopState.FOLLOWING)

    def progress(self) -> None:
        """Report durable progress: earlier failures are forgotten."""
        self._loop.note(
            beat_s=time.monotonic(), state=LoopState.FOLLOWING, failures=0, problem=None, code=None
        )


class LoopMeasures(Protocol):
    """What the supervisor counts."""

    def loop_failed(self, loop: str, code: str) -> None:
        """Count an error that ended a loop's run."""

    def loop_restarted(self, loop: str) -> None:
        """Count a new run after a failure."""


@dataclass(frozen=True, slots=True)
class Job:
    """A loop to keep running. ``run`` opens what it needs, runs until ``heartbeat.stopping`` is set, and closes everything."""

    name: str
    run: Callable[[Heartbeat], None]
    revive: Callable[[], bool] | None = None
    """Called while the loop has failed permanently; it runs again once this returns True, as after a request of an operator."""


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
            self.status = replace(self.status, **changes)  # type: ignore[arg-type]  # names are checked by replace

    def _main(self) -> None:
        structlog.contextvars.bind_contextvars(loop=self._job.name)
        while not self._stopping.is_set():
            error = self._attempt()
            if error is None:
                break
            if not self._pause_after(error) and not self._wait_for_revival():
                return
        self.note(state=LoopState.STOPPED)

    def _attempt(self) -> Exception | None:
        """Run the job once and return its error; None if it stopped as requested."""
        try:
            self._job.run(LoopHeartbeat(self, self._stopping))
        except Exception as error:  # noqa: BLE001 - the last handler of a thread: every failure is judged by the retry policy
            return error
        return None

    def _wait_for_revival(self) -> bool:
        """Wait until an operator's request lets the failed loop run again; return False if there is no such request."""
        revive = self._job.revive
        while revive is not None and not self._stopping.wait(_REVIVE_S):
            try:
                if not revive():
                    continue
            except Exception:
                log.exception("a failed loop cannot serve requests")
                continue
            self.note(state=LoopState.STARTING, failures=0, beat_s=time.monotonic())
            self._measures.loop_restarted(self._job.name)
            return True
        return False

    def _pause_after(self, error: Exception) -> bool:
        """Wait for the next attempt; return False if there is none."""
        failures = self.status.failures + 1
        code = error.code if isinstance(error, TidelineError) else "unexpected"
        self.note(failures=failures, problem=_describe(error), code=code, beat_s=time.monotonic())
        self._measures.loop_failed(self._job.name, code)
        decision = judge(error)
        exhausted = decision is Verdict.RETRY_BOUNDED and failures >= self._backoff.attempts_max
        if decision is Verdict.STOP or exhausted:
            self._give_up(error, code, failures)
            return False
        self._back_off(error, code, failures)
        return True

    def _give_up(self, error: Exception, code: str, failures: int) -> None:
        self.note(state=LoopState.FAILED)
        log.error(
            "loop failed permanently; other loops continue",
            code=code,
            problem=_describe(error),
            failures=failures,
            exc_info=None if isinstance(error, TidelineError) else error,
        )

    def _back_off(self, error: Exception, code: str, failures: int) -> None:
        pause_s = self._backoff.pause_s(failures)
        self.note(state=LoopState.BACKING_OFF)
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
        if self._stopping.wait(pause_s):
            return
        self.note(state=LoopState.STARTING, restarts=self.status.restarts + 1, beat_s=time.monotonic())
        self._measures.loop_restarted(self._job.name)


class Supervisor:
    """All loops of the process. Call ``start`` and ``stop`` once; everything else may be called from any thread."""

    def __init__(
        self, jobs: Sequence[Job], *, backoff: RestartPolicy, heartbeat_max_s: float, measures: LoopMeasures
    ) -> None:
        names = [job.name for job in jobs]
        assert len(set(names)) == len(names), f"loop names are not unique: {names}"
        self._heartbeat_max_s = heartbeat_max_s
        self.stopping = threading.Event()
        self._loops = [_Loop(job, backoff, self.stopping, measures) for job in jobs]

    def start(self) -> None:
        """Start every loop's thread."""
        for loop in self._loops:
            loop.thread.start()

    def statuses(self) -> dict[str, LoopStatus]:
        """Return the status of every loop, by name."""
        return {loop.status.name: loop.status for loop in self._loops}

    def stuck(self) -> list[str]:
        """Return the loops without a heartbeat for too long, and those whose thread died."""
        return [loop.status.name for loop in self._loops if self._is_stuck(loop)]

    def _is_stuck(self, loop: _Loop) -> bool:
        status = loop.status
        if status.state in {LoopState.FAILED, LoopState.STOPPED} or loop.thread.ident is None:
            return False
        if not loop.thread.is_alive():
            return True
        if status.state is LoopState.BACKING_OFF:
            return False
        return time.monotonic() - status.beat_s > self._heartbeat_max_s

    def stop(self, drain_s: float) -> list[str]:
        """Tell every loop to stop and wait for at most ``drain_s``; return the names of loops that are still running."""
        self.stopping.set()
        deadline = time.monotonic() + drain_s
        for loop in self._loops:
            if loop.thread.ident is not None:
                loop.thread.join(max(0.0, deadline - time.monotonic()))
        return [loop.status.name for loop in self._loops if loop.thread.is_alive()]


def _describe(error: Exception) -> str:
    return str(error) if isinstance(error, TidelineError) else f"{type(error).__name__}: {error}"
