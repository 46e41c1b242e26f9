"""One loop of the daemon with its status: a job that runs again after failures, as ``retry_policy`` decides.

A loop ends only on a stop request or with an error. After an error, it runs again after a pause, or counts as
failed. A failed loop runs again when an operator requests it, and automatically after longer pauses, because
the cause may be gone. It counts as failed until it has followed for a while or made progress.

A loop either has its own thread, or runs in turns: a few threads run hundreds of loops (``turns``). Its code
is the same in both cases: it yields how long it rests.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from daemon.process.loops.retry_policy import Verdict, judge
from state.errors import TidelineError, Transient


if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from daemon.process.loops.heartbeat import Heartbeat
    from daemon.process.loops.retry_policy import RestartPolicy
    from daemon.process.loops.turns import Turns


log = structlog.get_logger(__name__)


_REVIVE_S = 0.5
"""How often a loop with its own thread looks for requests while it waits for its next run."""

_BEAT_S: Final = 0.1
"""A heartbeat sooner after the last one is not recorded, because every event and every call sends one."""


class LoopState(StrEnum):
    """State of a loop. Status, metrics and readiness use these names."""

    STARTING = "starting"
    FOLLOWING = "following"
    BACKING_OFF = "backing-off"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class LoopStatus:
    """Status of one loop. Other threads read it, so each change replaces the whole value."""

    name: str
    state: LoopState = LoopState.STARTING
    beat_s: float = 0.0
    """Monotonic time of the last heartbeat."""
    failures: int = 0
    """Failures in a row, without progress in between."""
    restarts: int = 0
    problem: str | None = None
    code: str | None = None
    hint: str = ""
    """The last part of ``problem``: the next step."""
    problem_s: float | None = None
    """Unix time since which the loop has had a problem."""
    is_resting: bool = False
    """Whether the loop rests between two turns, without heartbeats."""
    failed_s: float | None = None
    """Unix time of the loop's failure; None unless it has failed."""
    failed_runs: int = 0
    """Runs without durable progress since it failed."""
    followed_s: float | None = None
    """Monotonic time since which this run follows."""

    @property
    def shown_state(self) -> LoopState:
        """The state for operators: a loop that tries again after an error backs off until the error is
        forgotten.
        """
        tries_again = self.problem is not None and self.state in {LoopState.STARTING, LoopState.FOLLOWING}
        return LoopState.BACKING_OFF if tries_again else self.state


_NO_PROBLEM: Final[Mapping[str, object]] = {"problem": None, "code": None, "hint": "", "problem_s": None}


class LoopHeartbeat:
    """The heartbeat of one loop (``daemon.process.loops.heartbeat.Heartbeat``)."""

    def __init__(self, loop: SupervisedLoop, stopping: threading.Event) -> None:
        self._loop = loop
        self.stopping = stopping

    def wake(self) -> None:
        """End the loop's rest soon. Thread-safe."""
        self._loop.wake()

    def beat(self) -> None:
        """Report that the loop is alive; cheap enough for every iteration and for long waits."""
        now_s = time.monotonic()
        if now_s - self._loop.status.beat_s < _BEAT_S:
            return
        self._loop.note(beat_s=now_s)
        self._loop.settle()

    def answered(self) -> None:
        """Report an answer: a heartbeat that also lets a turn keep its place, except during a bootstrap,
        which takes long.
        """
        if self._loop.status.followed_s is not None:
            self._loop.answered_s = time.monotonic()
        self.beat()

    def following(self) -> None:
        """Report that the loop has opened its state and follows its source."""
        now_s, status = time.monotonic(), self._loop.status
        state = LoopState.FOLLOWING if status.failed_s is None else LoopState.FAILED
        self._loop.note(beat_s=now_s, state=state, followed_s=now_s)

    def progress(self) -> None:
        """Report durable progress, and forget earlier failures."""
        self._loop.note(
            beat_s=time.monotonic(),
            state=LoopState.FOLLOWING,
            failures=0,
            failed_runs=0,
            failed_s=None,
            **_NO_PROBLEM,
        )


class LoopMeasures(Protocol):
    """Counts failures and restarts of loops."""

    def loop_failed(self, loop: str, code: str) -> None:
        """Count an error that ended a loop's run."""

    def loop_restarted(self, loop: str) -> None:
        """Count a new run after a failure."""


@dataclass(frozen=True, slots=True)
class Job:
    """A loop to keep running."""

    name: str
    run: Callable[[Heartbeat], Iterator[float] | None]
    """Opens the loop's resources, runs until ``heartbeat.stopping`` is set, and closes everything. Returns
    its turns if it runs in turns: an iterator over the seconds to rest after each of them."""
    revive: Callable[[], bool] | None = None
    """Called while the loop waits after an error, and when it is woken; it runs again at once if this returns
    True, as after a request of an operator."""
    turns: Turns | None = None
    """The threads that it shares with others; without them it has its own."""


class SupervisedLoop:
    """Runs one job, again after each error. Only one thread at a time runs its turns."""

    def __init__(
        self, job: Job, backoff: RestartPolicy, stopping: threading.Event, measures: LoopMeasures
    ) -> None:
        self._job = job
        self._backoff = backoff
        self._stopping = stopping
        self._measures = measures
        self._lock = threading.Lock()
        self._rests = self._run()
        self._wake: Callable[[], None] | None = None
        """Set at the start of the loop."""
        self._ended = threading.Event()
        self.status = LoopStatus(job.name, beat_s=time.monotonic())
        """Thread-safe."""
        self.answered_s = -math.inf
        """Monotonic time of the last answer that this loop got while it followed."""

    def start(self) -> None:
        """Start the loop in the job's shared threads, or in a new thread."""
        if self._job.turns is not None:
            self._wake = self._job.turns.add(self._take_turn, lambda: self.answered_s)
            return
        woken = threading.Event()
        self._wake = woken.set
        # A daemon thread: a loop that does not end in time must not keep the process from exiting.
        threading.Thread(target=self._run_alone, args=(woken,), name=self._job.name, daemon=True).start()

    def wake(self) -> None:
        """End the loop's rest. Thread-safe."""
        if self._wake is not None:
            self._wake()

    def is_running(self) -> bool:
        """Whether the loop has started and not ended."""
        return self._wake is not None and not self._ended.is_set()

    def stuck_at_s(self, heartbeat_max_s: float) -> float:
        """Return the time (``time.monotonic``) from which the loop counts as stuck without another heartbeat:
        infinite while it rests, and in the past if it ended without a stop request.
        """
        status = self.status
        if status.state is LoopState.STOPPED or self._wake is None:
            return math.inf
        if self._ended.is_set():
            return math.inf if self._stopping.is_set() else -math.inf
        return math.inf if status.is_resting else status.beat_s + heartbeat_max_s

    def wait(self, timeout_s: float) -> None:
        """Wait until the loop ends."""
        self._ended.wait(timeout_s)

    def note(self, **changes: object) -> None:
        """Change fields of the status."""
        with self._lock:
            # replace checks the names
            self.status = replace(self.status, **changes)  # type: ignore[arg-type]

    def settle(self) -> None:
        """Forget the problem of the previous run once this run has followed for a while: an idle source gives
        no progress that would show that the problem has passed.
        """
        status = self.status
        if status.problem is None or status.followed_s is None:
            return
        if time.monotonic() - status.followed_s >= self._backoff.settled_s:
            self.note(state=LoopState.FOLLOWING, failed_s=None, **_NO_PROBLEM)

    def _run_alone(self, woken: threading.Event) -> None:
        while (rest_s := self._take_turn()) is not None:
            woken.wait(rest_s)
            woken.clear()

    def _take_turn(self) -> float | None:
        """Run until the next rest, and return the length of the rest; None when the loop has ended."""
        rest_s = None
        self.note(beat_s=time.monotonic(), is_resting=False)
        try:
            with structlog.contextvars.bound_contextvars(loop=self._job.name):
                rest_s = next(self._rests, None)
            self.settle()
            if rest_s is not None and self.status.problem is not None:
                # An idle loop rests for minutes. The status must not show a problem that has passed for so
                # long.
                rest_s = min(rest_s, self._backoff.settled_s)
        finally:
            if rest_s is None:
                self._ended.set()
            self.note(is_resting=True)
        return rest_s

    def _run(self) -> Iterator[float]:
        while not self._stopping.is_set():
            error = yield from self._attempt()
            if error is None:
                break
            yield from self._pause_after(error)
            if not self._stopping.is_set():
                self._begin_again()
        if self.status.failed_s is None:
            self.note(state=LoopState.STOPPED)

    def _begin_again(self) -> None:
        """Note that the loop runs again; a failed loop keeps this state until it follows."""
        status = self.status
        state = LoopState.STARTING if status.failed_s is None else LoopState.FAILED
        self.note(state=state, restarts=status.restarts + 1, beat_s=time.monotonic(), followed_s=None)
        self._measures.loop_restarted(self._job.name)

    def _attempt(self) -> Generator[float, None, Exception | None]:
        """Run the job once and return its error; None if it stopped as requested."""
        try:
            rests = self._job.run(LoopHeartbeat(self, self._stopping))
            if rests is not None:
                yield from rests
        except Exception as error:  # noqa: BLE001 - the last handler of a loop: every failure is judged by the retry policy
            return error
        return None

    def _pause_after(self, error: Exception) -> Iterator[float]:
        """Rest until the next attempt is due, or a stop request."""
        failures = self.status.failures + 1
        code, hint = (error.code, error.hint) if isinstance(error, TidelineError) else ("unexpected", "")
        self.note(
            failures=failures,
            problem=_describe(error),
            code=code,
            hint=hint,
            problem_s=self.status.problem_s or time.time(),
            followed_s=None,
            beat_s=time.monotonic(),
        )
        self._measures.loop_failed(self._job.name, code)
        decision = judge(error)
        exhausted = decision is Verdict.RETRY_BOUNDED and failures >= self._backoff.attempts_max
        if decision is Verdict.STOP or exhausted:
            pause_s = self._note_failed(error, code)
        else:
            pause_s = self._note_pause(error, code, failures)
        until_s = time.monotonic() + pause_s
        while (left_s := until_s - time.monotonic()) > 0 and not self._stopping.is_set():
            yield left_s if self._job.turns is not None else min(_REVIVE_S, left_s)
            if self._is_requested():
                return

    def _note_failed(self, error: Exception, code: str) -> float:
        """Report the loop as failed; return how long it waits before the next run."""
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
        return pause_s

    def _note_pause(self, error: Exception, code: str, failures: int) -> float:
        """Report that the loop waits after an error; return how long."""
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
        return pause_s

    def _is_requested(self) -> bool:
        """Serve an operator's requests; return whether one of them lets the loop run again now."""
        try:
            return self._job.revive is not None and self._job.revive()
        except Exception:
            log.exception("a loop that does not run cannot serve requests")
            return False


def _describe(error: Exception) -> str:
    return str(error) if isinstance(error, TidelineError) else f"{type(error).__name__}: {error}"
