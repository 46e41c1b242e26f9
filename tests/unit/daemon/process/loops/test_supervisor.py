"""Failing loops are restarted or stopped, and do not affect other loops."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.process.loops.heartbeat import Heartbeat
from daemon.process.loops.loop import Job, LoopState
from daemon.process.loops.retry_policy import RestartPolicy, Verdict, judge
from daemon.process.loops.turn_queue import TurnRules
from daemon.process.loops.turns import Turns
from state.errors import (
    AmbiguousCall,
    ConfigError,
    GapDetected,
    InvalidRequest,
    KafkaUnavailable,
    MalformedEvent,
    MetastoreUnavailable,
    ServerFault,
    StateCorrupt,
    TargetDiverged,
)
from tests.builders.daemon.loops import Scripted, eventually, supervise


def hang_until(event: threading.Event) -> Callable[[Heartbeat], None]:
    """Return a loop without heartbeats that ignores stop requests."""

    def run(_lifeline: Heartbeat) -> None:
        event.wait(30)

    return run


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MetastoreUnavailable("x"), Verdict.RETRY),
        (KafkaUnavailable("x"), Verdict.RETRY),
        (AmbiguousCall("x"), Verdict.RETRY),
        (ServerFault("x"), Verdict.RETRY),
        (InvalidRequest("x"), Verdict.RETRY_BOUNDED),
        (RuntimeError("a defect"), Verdict.RETRY_BOUNDED),
        (GapDetected("x"), Verdict.STOP),
        (ConfigError("x"), Verdict.STOP),
        (StateCorrupt("x"), Verdict.STOP),
        (TargetDiverged("x"), Verdict.STOP),
        (MalformedEvent("x"), Verdict.STOP),
    ],
)
def test_the_class_of_an_error_decides_whether_it_is_retried(error: Exception, expected: Verdict) -> None:
    assert judge(error) is expected


@given(st.integers(1, 200), st.floats(0.001, 10), st.floats(10, 1000))
def test_a_pause_lies_between_the_minimum_and_a_doubling_bound(
    failures: int, min_s: float, max_s: float
) -> None:
    backoff = RestartPolicy(min_s, max_s)
    assert min_s <= backoff.bound_s(failures) <= max_s
    assert min_s <= backoff.pause_s(failures) <= backoff.bound_s(failures)


def test_a_loop_tells_since_when_it_has_a_problem_until_it_makes_progress() -> None:
    progressed = threading.Event()
    resume = threading.Event()

    def run(heartbeat: Heartbeat) -> None:
        if not resume.is_set():
            raise MetastoreUnavailable("away")
        heartbeat.progress()
        progressed.set()
        heartbeat.stopping.wait(10)

    supervisor, counts = supervise(Job("a", run))
    before_s = time.time()
    supervisor.start()
    eventually(lambda: len(counts.failed) >= 3)
    first = supervisor.statuses()["a"]
    eventually(lambda: len(counts.failed) >= 6)
    later = supervisor.statuses()["a"]
    resume.set()
    assert progressed.wait(10)
    ended = supervisor.statuses()["a"]
    assert before_s <= (first.problem_s or 0) == later.problem_s
    assert first.hint == MetastoreUnavailable.default_hint
    assert (ended.problem, ended.hint, ended.problem_s) == (None, "", None)
    assert supervisor.stop(5) == []


def test_a_loop_recovers_when_its_dependency_does() -> None:
    loop = Scripted(*[MetastoreUnavailable("away")] * 20, None)
    supervisor, counts = supervise(Job("a", loop.run))
    supervisor.start()
    assert loop.running.wait(10)
    status = supervisor.statuses()["a"]
    assert (status.state, status.restarts) == (LoopState.FOLLOWING, 20)
    assert counts.failed == [("a", "metastore-unavailable")] * 20
    assert supervisor.stop(5) == []


def test_a_gap_stops_only_its_loop_immediately() -> None:
    broken, healthy = Scripted(GapDetected("events 5 to 9 are missing", first=5, last=9)), Scripted(None)
    supervisor, _ = supervise(Job("broken", broken.run), Job("healthy", healthy.run))
    supervisor.start()
    eventually(lambda: supervisor.statuses()["broken"].state is LoopState.FAILED)
    assert healthy.running.wait(10)
    status = supervisor.statuses()["broken"]
    assert (broken.runs, status.code) == (1, "gap")
    assert status.problem is not None
    assert "events 5 to 9 are missing" in status.problem
    assert supervisor.stuck() == []
    assert supervisor.stop(5) == []
    assert supervisor.statuses()["healthy"].state is LoopState.STOPPED
    assert supervisor.statuses()["broken"].state is LoopState.FAILED


@pytest.mark.parametrize("error", [RuntimeError("a defect"), InvalidRequest("no")])
def test_an_error_that_may_be_permanent_is_retried_a_few_times(error: Exception) -> None:
    loop = Scripted(error)
    supervisor, _ = supervise(Job("a", loop.run), attempts_max=3)
    supervisor.start()
    eventually(lambda: supervisor.statuses()["a"].state is LoopState.FAILED)
    assert loop.runs == 3
    assert supervisor.stop(5) == []  # else its thread logs into the output of the next test


def test_progress_resets_the_count_of_failures() -> None:
    loop = Scripted(*[ServerFault("now and then")] * 10, None, progress=True)
    supervisor, _ = supervise(Job("a", loop.run), attempts_max=3)
    supervisor.start()
    assert loop.running.wait(10)
    assert supervisor.statuses()["a"].problem is None
    assert supervisor.stop(5) == []


def test_a_defect_is_shown_with_its_type() -> None:
    supervisor, counts = supervise(Job("a", Scripted(ZeroDivisionError("by zero")).run), attempts_max=1)
    supervisor.start()
    eventually(lambda: supervisor.statuses()["a"].state is LoopState.FAILED)
    assert supervisor.statuses()["a"].problem == "ZeroDivisionError: by zero"
    assert counts.failed == [("a", "unexpected")]
    assert supervisor.stop(5) == []


def test_a_loop_without_heartbeats_is_stuck_but_not_one_that_backs_off() -> None:
    hanging = threading.Event()
    supervisor, _ = supervise(
        Job("hangs", hang_until(hanging)),
        Job("waits", Scripted(MetastoreUnavailable("away")).run),
        heartbeat_max_s=0.05,
    )
    assert supervisor.stuck() == []
    supervisor.start()
    eventually(lambda: supervisor.stuck() == ["hangs"])
    hanging.set()
    assert supervisor.stop(5) == []


def test_a_stop_is_bounded_and_returns_the_loops_still_running() -> None:
    hanging, orderly = threading.Event(), Scripted(None)
    supervisor, _ = supervise(Job("hangs", hang_until(hanging)), Job("orderly", orderly.run))
    supervisor.start()
    assert orderly.running.wait(10)
    started = time.monotonic()
    assert supervisor.stop(0.1) == ["hangs"]
    assert time.monotonic() - started < 5
    hanging.set()


def test_a_loop_that_is_added_later_runs_with_the_others_and_stops_with_them() -> None:
    first, second = Scripted(None), Scripted(None)
    supervisor, _ = supervise(Job("first", first.run))
    supervisor.start()
    supervisor.add(Job("second", second.run))
    eventually(lambda: supervisor.statuses()["second"].state is LoopState.FOLLOWING)
    assert supervisor.stop(5) == []
    assert supervisor.statuses()["second"].state is LoopState.STOPPED


def test_a_loop_that_is_added_while_the_others_stop_never_runs() -> None:
    supervisor, _ = supervise(Job("first", Scripted(None).run))
    supervisor.start()
    supervisor.stop(5)
    late = Scripted(None)
    supervisor.add(Job("late", late.run))
    assert supervisor.stop(5) == []
    assert late.runs == 0


def test_a_loop_must_have_a_name_of_its_own() -> None:
    supervisor, _ = supervise(Job("first", Scripted(None).run))
    with pytest.raises(AssertionError, match="not unique"):
        supervisor.add(Job("first", Scripted(None).run))


def test_a_loop_that_backs_off_stops_immediately() -> None:
    loop = Scripted(MetastoreUnavailable("away"))
    supervisor, _ = supervise(Job("a", loop.run))
    object.__setattr__(supervisor._loops[0]._backoff, "max_s", 3600.0)
    object.__setattr__(supervisor._loops[0]._backoff, "min_s", 3600.0)
    supervisor.start()
    eventually(lambda: supervisor.statuses()["a"].state is LoopState.BACKING_OFF)
    assert supervisor.stop(5) == []


def test_a_loop_that_backs_off_serves_an_operators_request_and_runs_again() -> None:
    loop, requested = Scripted(MetastoreUnavailable("away"), None), threading.Event()
    supervisor, _ = supervise(Job("a", loop.run, revive=requested.is_set))
    object.__setattr__(supervisor._loops[0]._backoff, "max_s", 3600.0)
    object.__setattr__(supervisor._loops[0]._backoff, "min_s", 3600.0)
    supervisor.start()
    eventually(lambda: supervisor.statuses()["a"].state is LoopState.BACKING_OFF)
    requested.set()
    assert loop.running.wait(10)
    assert supervisor.stop(5) == []


def test_a_loop_that_tries_again_is_shown_as_backing_off_until_it_makes_progress() -> None:
    failed, gets_on, shown = list[bool](), threading.Event(), list[LoopState]()

    def run(heartbeat: Heartbeat) -> None:
        heartbeat.following()
        shown.append(supervisor.statuses()["a"].shown_state)
        if not failed:
            failed.append(True)
            raise MetastoreUnavailable("away")
        gets_on.wait(10)
        heartbeat.progress()
        heartbeat.stopping.wait(10)

    supervisor, _ = supervise(Job("a", run))
    supervisor.start()
    eventually(lambda: shown == [LoopState.FOLLOWING, LoopState.BACKING_OFF])
    gets_on.set()
    eventually(lambda: supervisor.statuses()["a"].shown_state is LoopState.FOLLOWING)
    assert supervisor.stop(5) == []


def test_a_loop_that_failed_permanently_runs_again_on_an_operators_request() -> None:
    loop, requested = Scripted(GapDetected("gone"), None), threading.Event()
    supervisor, _ = supervise(Job("a", loop.run, revive=requested.is_set))
    supervisor.start()
    eventually(lambda: supervisor.statuses()["a"].state is LoopState.FAILED)
    requested.set()
    assert loop.running.wait(10)
    eventually(lambda: supervisor.statuses()["a"].state is LoopState.FOLLOWING)
    assert supervisor.stop(5) == []


def test_a_failed_loop_is_tried_again_and_stays_failed_until_it_follows() -> None:
    may_follow, states = threading.Event(), list[LoopState]()

    def run(heartbeat: Heartbeat) -> None:
        states.append(supervisor.statuses()["a"].state)
        if not may_follow.is_set():
            raise GapDetected("gone")
        heartbeat.following()
        while not heartbeat.stopping.wait(0.005):
            heartbeat.beat()

    supervisor, counts = supervise(Job("a", run), failed_s=0.001)
    supervisor.start()
    eventually(lambda: len(states) > 3)
    failed = supervisor.statuses()["a"]
    assert failed.state is LoopState.FAILED
    assert failed.failed_s is not None
    may_follow.set()
    eventually(lambda: supervisor.statuses()["a"].state is LoopState.FOLLOWING)
    assert states[0] is LoopState.STARTING
    assert set(states[1:]) == {LoopState.FAILED}
    assert supervisor.statuses()["a"].failed_s is None
    assert counts.restarted == ["a"] * (len(states) - 1)
    assert supervisor.stop(5) == []


def test_a_failed_loop_that_fails_soon_after_it_followed_never_stops_counting_as_failed() -> None:
    """Otherwise the states that need an operator would disappear for a moment at every try."""
    seen = list[LoopState]()

    def run(heartbeat: Heartbeat) -> None:
        heartbeat.following()
        heartbeat.beat()
        seen.append(supervisor.statuses()["a"].state)
        raise GapDetected("gone")

    supervisor, _ = supervise(Job("a", run), failed_s=0.001)
    object.__setattr__(supervisor._loops[0]._backoff, "settled_s", 3600.0)
    supervisor.start()
    eventually(lambda: len(seen) > 3)
    assert seen[0] is LoopState.FOLLOWING
    assert set(seen[1:]) == {LoopState.FAILED}
    assert supervisor.stop(5) == []


def test_a_problem_that_has_passed_is_not_shown_although_there_is_nothing_to_make_progress_with() -> None:
    runs = list[str | None]()

    def run(heartbeat: Heartbeat) -> None:
        runs.append(supervisor.statuses()["a"].problem)
        if len(runs) == 1:
            raise MetastoreUnavailable("down")
        heartbeat.following()
        while not heartbeat.stopping.wait(0.001):
            heartbeat.beat()

    supervisor, _ = supervise(Job("a", run))
    supervisor.start()
    eventually(lambda: len(runs) == 2 and supervisor.statuses()["a"].problem is None)
    status = supervisor.statuses()["a"]
    assert runs[1] is not None
    assert (status.state, status.code, status.failures) == (LoopState.FOLLOWING, None, 1)
    assert supervisor.stop(5) == []


def test_a_failed_loop_that_hangs_while_it_is_tried_again_is_stuck() -> None:
    hanging = threading.Event()

    def run(_heartbeat: Heartbeat) -> None:
        if supervisor.statuses()["a"].failures:
            hanging.wait(30)
        raise GapDetected("gone")

    supervisor, _ = supervise(Job("a", run), failed_s=0.001, heartbeat_max_s=0.05)
    supervisor.start()
    eventually(lambda: supervisor.stuck() == ["a"])
    assert supervisor.statuses()["a"].state is LoopState.FAILED
    hanging.set()
    assert supervisor.stop(5) == []


def test_a_failed_loop_whose_requests_cannot_be_served_still_stops() -> None:
    def revive() -> bool:
        raise OSError("no directory")

    loop = Scripted(GapDetected("gone"))
    supervisor, _ = supervise(Job("a", loop.run, revive=revive))
    supervisor.start()
    eventually(lambda: supervisor.statuses()["a"].state is LoopState.FAILED)
    assert supervisor.stop(5) == []


class Turning:
    """A loop in turns: raises each error of its script in one run, then rests long until it is stopped."""

    def __init__(self, *script: Exception) -> None:
        self.script = list(script)
        self.turns = 0
        self.heartbeat: Heartbeat | None = None
        self.hanging = threading.Event()
        self.hanging.set()

    def run(self, heartbeat: Heartbeat) -> Iterator[float]:
        self.heartbeat = heartbeat
        if self.script:
            raise self.script.pop(0)
        heartbeat.following()
        while not heartbeat.stopping.is_set():
            self.hanging.wait(60)
            self.turns += 1
            yield 3600


def test_loops_in_turns_share_a_thread_and_fail_rest_and_stop_like_others() -> None:
    turns = Turns(TurnRules(1), name="shared-turns")
    loops = [Turning(), Turning(MetastoreUnavailable("away")), Turning(GapDetected("gone"))]
    asked = threading.Event()
    supervisor, counts = supervise(
        *(
            Job(f"loop-{number}", loop.run, revive=asked.is_set, turns=turns)
            for number, loop in enumerate(loops)
        ),
        heartbeat_max_s=0.05,
    )
    supervisor.start()
    eventually(lambda: [loop.turns for loop in loops] == [1, 1, 0])
    eventually(lambda: supervisor.statuses()["loop-2"].state is LoopState.FAILED)
    assert counts.restarted == ["loop-1"]
    asked.set()
    assert loops[2].heartbeat is not None
    loops[2].heartbeat.wake()
    eventually(lambda: loops[2].turns == 1)
    assert sum(thread.name == "shared-turns" for thread in threading.enumerate()) <= 2
    assert supervisor.stuck() == [], "they rest"
    assert supervisor.stop(5) == []
    assert {status.state for status in supervisor.statuses().values()} == {
        LoopState.STOPPED,
        LoopState.FAILED,
    }
    turns.close()


@pytest.mark.parametrize("turns", [None, Turns(name="turns-of-one")], ids=["own thread", "shared threads"])
def test_a_loop_in_turns_is_woken_and_is_stuck_only_within_a_turn(turns: Turns | None) -> None:
    loop = Turning()
    supervisor, _ = supervise(Job("a", loop.run, turns=turns), heartbeat_max_s=0.05)
    supervisor.start()
    eventually(lambda: loop.turns == 1)
    assert loop.heartbeat is not None
    loop.hanging.clear()
    loop.heartbeat.wake()
    eventually(lambda: supervisor.stuck() == ["a"])
    assert supervisor.stop(0.1) == ["a"]
    loop.hanging.set()
    eventually(lambda: supervisor.stop(5) == [])
    assert loop.turns == 2


def test_a_problem_that_has_passed_is_not_shown_although_the_loop_rests_for_an_hour() -> None:
    runs = list[int]()

    def run(heartbeat: Heartbeat) -> Iterator[float]:
        runs.append(1)
        if len(runs) == 1:
            raise MetastoreUnavailable("down")
        heartbeat.following()
        while not heartbeat.stopping.is_set():
            heartbeat.beat()
            yield 3600.0

    turns = Turns(TurnRules(), name="resting-turns")
    supervisor, _ = supervise(Job("a", run, turns=turns))
    supervisor.start()
    eventually(lambda: len(runs) == 2 and supervisor.statuses()["a"].problem is None)
    assert supervisor.statuses()["a"].state is LoopState.FOLLOWING
    assert supervisor.stop(5) == []
