"""Threads that many users share."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from handlers.shared_threads import SharedThreads
from tests.builders.daemon.loops import eventually


DEADLINE_S = 60.0


class Gate:
    """A job that waits until the test opens the gate."""

    def __init__(self) -> None:
        self.began = threading.Semaphore(0)
        self.opened = threading.Event()

    def __call__(self) -> str:
        self.began.release()
        assert self.opened.wait(DEADLINE_S)
        return "done"

    def wait_for(self, jobs: int) -> None:
        for _ in range(jobs):
            assert self.began.acquire(timeout=DEADLINE_S)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.opened.set()


def test_threads_start_with_jobs_only_and_never_more_than_allowed(gate: Gate) -> None:
    threads = SharedThreads(3, reserved=0, name="test")
    assert threads.count() == 0
    jobs = [threads.user(9).submit(gate) for _ in range(10)]
    gate.wait_for(3)
    assert threads.count() == 3
    threads.check()
    gate.opened.set()
    assert [job.result(DEADLINE_S) for job in jobs] == ["done"] * 10
    threads.check()
    threads.close()
    eventually(lambda: threads.count() == 0)


def test_a_user_has_no_more_jobs_at_a_time_than_it_may(gate: Gate) -> None:
    threads = SharedThreads(8, name="test")
    user, other = threads.user(2), threads.user(2)
    jobs = [user.submit(gate) for _ in range(5)]
    gate.wait_for(2)
    assert threads.count() == 2
    assert other.submit(str, 1).result(DEADLINE_S) == "1"
    assert not gate.began.acquire(blocking=False)
    gate.opened.set()
    assert {job.result(DEADLINE_S) for job in jobs} == {"done"}
    threads.close()


def test_free_threads_go_to_the_users_in_turn(gate: Gate) -> None:
    threads, done = SharedThreads(1, reserved=0, name="test"), list[str]()
    first = threads.user(1).submit(gate)
    gate.wait_for(1)
    many, few = threads.user(1), threads.user(1)
    for number in range(4):
        many.submit(done.append, f"many {number}")
    few.submit(done.append, "few 0")
    few.submit(done.append, "few 1")
    gate.opened.set()
    first.result(DEADLINE_S)
    assert many.wait(DEADLINE_S)
    assert few.wait(DEADLINE_S)
    assert done == ["many 0", "few 0", "many 1", "few 1", "many 2", "many 3"]
    threads.close()


def test_the_jobs_of_a_user_with_one_at_a_time_run_in_their_order() -> None:
    threads, done = SharedThreads(4, name="test"), list[int]()
    user = threads.user(1)
    for number in range(200):
        user.submit(done.append, number)
    assert user.wait(DEADLINE_S)
    assert done == list(range(200))
    threads.close()


def test_jobs_that_hang_leave_reserved_threads_to_users_without_a_running_job(gate: Gate) -> None:
    threads = SharedThreads(2, reserved=1, name="test")
    hanging = threads.user(5)
    jobs = [hanging.submit(gate) for _ in range(5)]
    gate.wait_for(2)
    for _ in range(3):
        assert threads.user(5).submit(str, 1).result(DEADLINE_S) == "1"
    assert not gate.began.acquire(blocking=False), "the reserved thread is not for who has some"
    assert threads.count() == 3
    gate.opened.set()
    assert {job.result(DEADLINE_S) for job in jobs} == {"done"}
    threads.close()


def test_a_job_may_be_cancelled_until_it_begins(gate: Gate) -> None:
    threads = SharedThreads(1, reserved=0, name="test")
    user = threads.user(3)
    running, waiting, cancelled = user.submit(gate), user.submit(gate), user.submit(gate)
    gate.wait_for(1)
    assert cancelled.cancel()
    assert not running.cancel()
    assert user.cancel_waiting() == 2
    assert waiting.cancelled()
    gate.opened.set()
    assert user.wait(DEADLINE_S)
    assert running.result(0) == "done"
    threads.close()


def test_a_job_that_fails_reports_its_error_and_ends_no_thread() -> None:
    threads = SharedThreads(1, reserved=0, name="test")
    user = threads.user(1)
    failed = user.submit(int, "x")
    with pytest.raises(ValueError, match="invalid literal"):
        failed.result(DEADLINE_S)
    assert user.submit(int, "7").result(DEADLINE_S) == 7
    assert threads.count() == 1
    threads.close()


def test_threads_end_without_jobs_and_no_job_is_lost_meanwhile() -> None:
    threads = SharedThreads(2, name="test", idle_s=0.0002)
    user = threads.user(2)
    for number in range(2_000):
        jobs = [user.submit(int, "1") for _ in range(number % 4)]
        assert [job.result(DEADLINE_S) for job in jobs] == [1] * len(jobs)
    threads.check()
    eventually(lambda: threads.count() == 0)


def test_a_thread_without_a_job_does_not_wake() -> None:
    threads = SharedThreads(1, name="test", idle_s=DEADLINE_S)
    threads.user(1).submit(str).result(DEADLINE_S)
    (thread,) = threads._threads
    eventually(lambda: threads._idle == 1)
    before = count_wakes(thread)
    for _ in range(1_000):
        threads.check()
    assert count_wakes(thread) - before <= 1, "it may just have begun to wait"
    threads.close()


def test_all_threads_that_give_way_have_the_same_nice_value(gate: Gate) -> None:
    threads, expected = SharedThreads(3, name="test", nice=3), os.nice(0) + 3
    user = threads.user(3)
    jobs = [user.submit(lambda: (gate(), os.nice(0))) for _ in range(3)]
    gate.wait_for(3)
    gate.opened.set()
    assert [job.result(DEADLINE_S) for job in jobs] == [("done", expected)] * 3
    threads.close()


def count_wakes(thread: threading.Thread) -> int:
    status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("voluntary_ctxt_switches"))
    return int(line.split()[1])


def test_every_job_of_many_users_runs_once() -> None:
    threads, lock, done = SharedThreads(4, reserved=2, name="test"), threading.Lock(), list[int]()

    def note(number: int) -> None:
        with lock:
            done.append(number)
        threads.check()

    users = [threads.user(1 + number % 3) for number in range(50)]
    for number in range(2_000):
        users[number % 50].submit(note, number)
    assert all(user.wait(DEADLINE_S) for user in users)
    assert sorted(done) == list(range(2_000))
    threads.close()
