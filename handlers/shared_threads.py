"""Threads that many users share, with a limit for all of them together and fair turns.

A policy without work has no thread, and hundreds of policies with work have no more than a few policies. A
thread starts with a job for which none is free, and ends after ``idle_s`` without one.

Free threads go to the users with waiting jobs in turn, so that a user with thousands of jobs delays one with
a single job by about the time of one job. A user has at most ``jobs_max`` jobs at a time. Beyond
``threads_max`` there are ``reserved`` threads for users without a running job. So jobs that take hours, or
hang, leave threads to as many other users.

A job must not wait for another job of the same threads.

Threads may give way to the others of the process, and of the machine (``nice``). Python's lock does not know
priorities, but the kernel wakes the other threads first, so those that give way hold the lock less often.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from traceback import clear_frames
from typing import Any, Final, TypeVar


R = TypeVar("R")
Job = tuple["Future[Any]", "Callable[[], Any]"]

IDLE_S: Final = 10.0


class SharedThreads:
    """A bounded number of threads; thread-safe. Starts none before the first job."""

    def __init__(
        self,
        threads_max: int,
        *,
        reserved: int | None = None,
        name: str,
        idle_s: float = IDLE_S,
        nice: int = 0,
    ) -> None:
        """``reserved`` is half of ``threads_max`` by default. ``nice`` is added to the nice value of the
        caller's thread, on Linux.
        """
        assert threads_max >= 1, threads_max
        self._threads_max = threads_max
        self._reserved = (threads_max + 1) // 2 if reserved is None else reserved
        self._name = name
        self._idle_s = idle_s
        self._nice = os.nice(0) + nice
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        """Notified when a job may be started."""
        self._ended = threading.Condition(self._lock)
        """Notified when a job ends."""
        self._waiting: deque[ThreadUser] = deque()
        """The users with jobs that wait and may begin as far as the user's own limit goes; the next one
        first."""
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._running = 0
        self._closed = False

    def user(self, jobs_max: int) -> ThreadUser:
        """Return another user, with this maximum number of jobs at a time."""
        assert jobs_max >= 1, jobs_max
        return ThreadUser(self, jobs_max)

    def count(self) -> int:
        """Return how many threads there are."""
        with self._lock:
            return len(self._threads)

    def close(self) -> None:
        """Let threads without a job end at once; those that have one end after it."""
        with self._lock:
            self._closed = True
            self._arrived.notify_all()

    def add(self, user: ThreadUser, job: Job) -> None:
        """Queue a job of ``user``."""
        with self._lock:
            user.jobs.append(job)
            if len(user.jobs) == 1 and user.running < user.jobs_max:
                self._waiting.append(user)
            self._provide_thread()

    def _provide_thread(self) -> None:
        """Make a thread take the next job if a job may begin; the caller holds the lock.

        A thread that is about to take a job calls this for the job after it.
        """
        is_coming = len(self._threads) > self._running + self._idle
        if is_coming or self._find_next() is None:
            return
        if self._idle:
            self._arrived.notify()
        elif len(self._threads) < self._threads_max + self._reserved:
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._threads.add(thread)
            thread.start()

    def _find_next(self) -> ThreadUser | None:
        """Return the user whose job begins next, if a job may begin; the caller holds the lock."""
        if self._running < self._threads_max:
            return next(iter(self._waiting), None)
        if self._running < self._threads_max + self._reserved:
            return next((user for user in self._waiting if not user.running), None)
        return None

    def _work(self) -> None:
        if sys.platform == "linux" and self._nice != os.nice(0):  # there, each thread has one
            os.setpriority(os.PRIO_PROCESS, 0, self._nice)
        while (taken := self._take()) is not None:
            user, (future, call) = taken
            if future.set_running_or_notify_cancel():
                try:
                    result = call()
                except BaseException as error:  # noqa: BLE001 - belongs to whoever waits for the job
                    clear_frames(error.__traceback__)  # the future and its waiter would keep them in memory
                    future.set_exception(error)
                else:
                    future.set_result(result)
            self._end(user)

    def _take(self) -> tuple[ThreadUser, Job] | None:
        """Wait for a job and take it; return None if the thread ends, because none came in time."""
        with self._lock:
            deadline_s = time.monotonic() + self._idle_s
            while (user := self._find_next()) is None:
                left_s = deadline_s - time.monotonic()
                if self._closed or left_s <= 0:
                    self._threads.discard(threading.current_thread())
                    return None
                self._idle += 1
                self._arrived.wait(left_s)
                self._idle -= 1
            self._waiting.remove(user)
            job = user.jobs.popleft()
            user.running += 1
            self._running += 1
            if user.jobs and user.running < user.jobs_max:
                self._waiting.append(user)  # behind the others
            self._provide_thread()
            return user, job

    def _end(self, user: ThreadUser) -> None:
        with self._lock:
            was_full = user.running == user.jobs_max
            user.running -= 1
            self._running -= 1
            if was_full and user.jobs:
                self._waiting.append(user)
            self._ended.notify_all()

    def withdraw(self, user: ThreadUser) -> list[Job]:
        """Return the jobs of ``user`` that have not begun, which never do."""
        with self._lock:
            jobs = list(user.jobs)
            user.jobs.clear()
            with suppress(ValueError):
                self._waiting.remove(user)
            return jobs

    def wait(self, user: ThreadUser, timeout_s: float | None) -> bool:
        """Wait at most ``timeout_s`` until no job of ``user`` waits or runs; return whether that was
        reached.
        """
        with self._lock:
            return self._ended.wait_for(lambda: not user.jobs and not user.running, timeout_s)

    def check(self) -> None:
        """Assert the invariants."""
        with self._lock:
            assert self._idle + self._running <= len(self._threads) <= self._threads_max + self._reserved
            assert len(set(map(id, self._waiting))) == len(self._waiting)
            assert all(user.jobs and user.running < user.jobs_max for user in self._waiting)


class ThreadUser:
    """One user of shared threads: a part of one policy, which has its own jobs."""

    __slots__ = ("_threads", "jobs", "jobs_max", "running")

    def __init__(self, threads: SharedThreads, jobs_max: int) -> None:
        self._threads = threads
        self.jobs: deque[Job] = deque()
        """The jobs that wait, guarded by the lock of the threads, as ``running`` is."""
        self.jobs_max: Final = jobs_max
        self.running = 0

    def submit(self, call: Callable[..., R], *arguments: object) -> Future[R]:
        """Queue a job behind the others of this user; it may be cancelled until it begins."""
        future: Future[R] = Future()
        self._threads.add(self, (future, lambda: call(*arguments)))
        return future

    def cancel_waiting(self) -> int:
        """Cancel the jobs that have not begun; return how many there were."""
        return sum(future.cancel() for future, _ in self._threads.withdraw(self))

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait at most ``timeout_s`` until no job of this user waits or runs; return whether that was
        reached.
        """
        return self._threads.wait(self, timeout_s)

    def close(self) -> None:
        """Cancel pending work, and wait for the rest."""
        self.cancel_waiting()
        self.wait()
