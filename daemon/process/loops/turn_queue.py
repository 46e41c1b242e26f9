"""Decides which task has the next turn, for ``turns``. It uses neither threads nor a clock.

A task rests until its time has come or it is woken. Then it waits behind the other ready tasks, and has a
turn. A wake-up during a turn makes the task ready again after the turn, so no wake-up is lost.

At most ``turns_at_once`` turns run at a time. A turn that has had no answer from its target for ``long_s`` no
longer counts, so a target that hangs, or the copy of a large table, delays the others by at most that time. A
turn that gets answers counts for up to ``busy_s``. With more turns at a time, a busy target would answer more
slowly, and turns would take even longer: 120 policies that were behind then needed 110 threads instead of 49,
a quarter more processor time, and on a loaded machine seconds for each commit.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from itertools import count


@dataclass(frozen=True, slots=True)
class TurnRules:
    """The limits of a group of tasks."""

    turns_at_once: int = 8
    long_s: float = 2.0
    busy_s: float = 60.0


class TaskState(Enum):
    """State of a task."""

    RESTING = "resting"
    READY = "ready"
    RUNNING = "running"
    ENDED = "ended"


class Task:
    """One task; its fields belong to the queue."""

    __slots__ = ("answered_s", "due_s", "is_woken", "state", "take_turn")

    def __init__(self, take_turn: Callable[[], float | None], answered_s: Callable[[], float]) -> None:
        """``take_turn`` returns how long the task rests afterwards, None when it has ended. ``answered_s``
        returns the time of its last answer.
        """
        self.take_turn = take_turn
        self.answered_s = answered_s
        self.state = TaskState.READY
        self.due_s = 0.0
        """The time at which the task's rest ends."""
        self.is_woken = False
        """Whether the task was woken during its turn."""


class TurnQueue:
    """The queue of tasks. Not thread-safe. Times are monotonic."""

    def __init__(self, rules: TurnRules) -> None:
        assert rules.turns_at_once >= 1, rules
        self._rules = rules
        self._tasks: set[Task] = set()
        """The tasks that have not ended."""
        self._ready: deque[Task] = deque()
        """Ready tasks; the one that has waited longest comes first."""
        self._resting: list[tuple[float, int, Task]] = []
        """A heap by due time. The entries of woken tasks stay until that time."""
        self._order = count()
        self._counted: dict[Task, float] = {}
        """The turns that count, with their beginning."""

    def add(self, task: Task) -> None:
        """Add a task. It is ready at once."""
        self._tasks.add(task)
        self._ready.append(task)

    def wake(self, task: Task) -> bool:
        """End the rest of a task; return whether it has become ready."""
        task.is_woken |= task.state is TaskState.RUNNING
        if task.state is not TaskState.RESTING:
            return False
        self._make_ready(task)
        return True

    def take(self, now_s: float) -> Task | None:
        """Return the task that has its turn now, or None. The caller calls ``end`` afterwards."""
        while self._resting and self._resting[0][0] <= now_s:
            due_s, _, task = heapq.heappop(self._resting)
            if _rests_until(task, due_s):
                self._make_ready(task)
        self._counted = {
            task: at_s for task, at_s in self._counted.items() if now_s < self._counts_until(task)
        }
        if not self._ready or len(self._counted) >= self._rules.turns_at_once:
            return None
        task = self._ready.popleft()
        task.state, task.is_woken = TaskState.RUNNING, False
        self._counted[task] = now_s
        return task

    def end(self, task: Task, rest_s: float | None, now_s: float) -> None:
        """Note the end of a turn: the task then rests for ``rest_s``, or has ended (None)."""
        assert task.state is TaskState.RUNNING, task.state
        self._counted.pop(task, None)
        if rest_s is None:
            task.state = TaskState.ENDED
            self._tasks.remove(task)
        elif task.is_woken or rest_s <= 0:
            self._make_ready(task)
        else:
            task.state, task.due_s = TaskState.RESTING, now_s + rest_s
            heapq.heappush(self._resting, (task.due_s, next(self._order), task))

    def find_next_s(self) -> float | None:
        """Return the next time at which ``take`` may return a task even if nothing else happens."""
        if self._ready:
            return min(map(self._counts_until, self._counted))
        while self._resting and not _rests_until(self._resting[0][2], self._resting[0][0]):
            heapq.heappop(self._resting)
        return self._resting[0][0] if self._resting else None

    def _counts_until(self, task: Task) -> float:
        """Return the time from which a running turn no longer counts, unless it gets another answer."""
        began_s = self._counted[task]
        return min(max(began_s, task.answered_s()) + self._rules.long_s, began_s + self._rules.busy_s)

    def _make_ready(self, task: Task) -> None:
        task.state = TaskState.READY
        self._ready.append(task)


def _rests_until(task: Task, due_s: float) -> bool:
    """Whether the task still rests until ``due_s``, so that this entry of the heap is valid."""
    return task.state is TaskState.RESTING and task.due_s == due_s
