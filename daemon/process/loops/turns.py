"""Runs many tasks in turns on a few threads, so that a task without work needs no thread.

``turn_queue`` decides whose turn it is. A new thread starts if a task may be ready and no thread waits. A
thread ends after ``idle_s`` without a turn if another thread waits. While tasks rest, one thread waits for
the earliest of them.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Final

from daemon.process.loops.turn_queue import Task, TurnQueue, TurnRules


THREADS_MAX: Final = 64
"""Maximum number of threads, which is only reached if turns take long, for example while a target hangs.
Further tasks then wait for a turn to end.
"""
IDLE_S: Final = 10.0


class Turns:
    """The threads of a group of tasks. Starts none before the first task. Thread-safe."""

    def __init__(
        self,
        rules: TurnRules | None = None,
        *,
        name: str,
        threads_max: int = THREADS_MAX,
        idle_s: float = IDLE_S,
    ) -> None:
        self._queue = TurnQueue(rules or TurnRules())
        self._name = name
        self._threads_max = threads_max
        self._idle_s = idle_s
        self._changed = threading.Condition()
        """Guards everything here; notified if a thread must look at the queue."""
        self._threads = 0
        self._waiting = 0
        """Threads without a turn."""
        self._watched_s = math.inf
        """The time until which one of them waits for the next turn."""
        self._is_closed = False

    def add(
        self, take_turn: Callable[[], float | None], answered_s: Callable[[], float] = lambda: -math.inf
    ) -> Callable[[], None]:
        """Add a task, which is ready at once; return the function that wakes it.

        ``take_turn`` returns how long the task rests afterwards, None when it has ended, and must not raise.
        Only one thread at a time calls it. ``answered_s`` returns the time of the task's last answer
        (``time.monotonic``). The returned function is thread-safe and only takes a lock.
        """
        task = Task(take_turn, answered_s)
        with self._changed:
            self._queue.add(task)
            self._provide_thread()
        return lambda: self._wake(task)

    def close(self) -> None:
        """End the threads that have no turn. Call it when all tasks have ended."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _wake(self, task: Task) -> None:
        with self._changed:
            if self._queue.wake(task):
                self._provide_thread()

    def _provide_thread(self) -> None:
        """Wake or start a thread that looks at the queue. The caller holds the lock."""
        if self._waiting:
            self._changed.notify()
        elif self._threads < self._threads_max:
            self._threads += 1
            self._waiting += 1
            threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _work(self) -> None:
        while (task := self._take()) is not None:
            rest_s = task.take_turn()
            with self._changed:
                self._queue.end(task, rest_s, time.monotonic())
                self._waiting += 1

    def _take(self) -> Task | None:
        """Wait for a task that has its turn, and return it; None if this thread must end."""
        with self._changed:
            end_s = time.monotonic() + self._idle_s
            while (task := self._queue.take(now_s := time.monotonic())) is None:
                if self._is_closed or (now_s >= end_s and self._waiting > 1):
                    self._threads -= 1
                    break
                self._wait(now_s, end_s)
            self._waiting -= 1
            # Another thread waits for the next task from now on.
            if self._waiting or task is not None:
                self._provide_thread()
            return task

    def _wait(self, now_s: float, end_s: float) -> None:
        """Wait until something changes, or the time has come for a turn or for the end of this thread."""
        until_s = end_s if self._waiting > 1 else math.inf
        next_s = self._queue.find_next_s()
        watches = next_s is not None and next_s < self._watched_s
        if next_s is not None and watches:
            self._watched_s = next_s
            until_s = min(next_s, until_s)
        self._changed.wait(None if until_s == math.inf else max(0.0, until_s - now_s))
        if watches and self._watched_s == next_s:
            self._watched_s = math.inf
