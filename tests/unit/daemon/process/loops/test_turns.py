"""Tasks take turns on a few threads: each in order, none forgotten, and one that hangs delays no other."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.process.loops.turn_queue import Task, TaskState, TurnQueue, TurnRules
from daemon.process.loops.turns import Turns
from tests.builders.daemon.loops import eventually


def rules(turns_at_once: int = 2) -> TurnRules:
    return TurnRules(turns_at_once, long_s=5, busy_s=12)


class Answers:
    """When each task got its last answer."""

    def __init__(self) -> None:
        self.at_s: defaultdict[int, float] = defaultdict(lambda: -1e9)

    def task(self, number: int) -> Task:
        return Task(lambda: None, lambda: self.at_s[number])


def queue_of(number: int, rules: TurnRules, answers: Answers | None = None) -> tuple[TurnQueue, list[Task]]:
    made = answers or Answers()
    queue, tasks = TurnQueue(rules), [made.task(each) for each in range(number)]
    for task in tasks:
        queue.add(task)
    return queue, tasks


def test_tasks_have_their_turns_in_order_and_a_few_at_a_time() -> None:
    queue, (a, b, c) = queue_of(3, rules())
    assert [queue.take(0), queue.take(0), queue.take(0)] == [a, b, None]
    queue.end(a, 0, 1)
    assert [queue.take(1), queue.take(1)] == [c, None]
    queue.end(b, None, 2)
    assert queue.take(2) is a


def test_a_turn_that_gets_answers_keeps_its_place_for_a_while() -> None:
    answers = Answers()
    queue, (a, b, c) = queue_of(3, rules(1), answers)
    assert queue.take(0) is a
    answers.at_s[0] = 4
    assert queue.take(8.9) is None
    assert queue.find_next_s() == 9
    answers.at_s[0] = 8.9
    assert queue.take(11.9) is None
    assert queue.find_next_s() == 12
    assert queue.take(12) is b, "however often a gets answers"
    answers.at_s[1] = 13
    queue.end(b, 0, 14)
    assert queue.take(14) is c


def test_a_turn_without_answers_that_lasts_long_leaves_its_place() -> None:
    queue, (a, b, c) = queue_of(3, rules(1))
    assert queue.take(0) is a
    assert queue.find_next_s() == 5
    assert queue.take(4.9) is None
    assert queue.take(5) is b
    queue.end(a, 0, 6)
    assert queue.find_next_s() == 10
    assert queue.take(6) is None, "the turn of b still counts"
    assert queue.take(10) is c


def test_a_task_that_is_woken_during_its_turn_has_another_one() -> None:
    queue, (task,) = queue_of(1, rules())
    assert queue.take(0) is task
    assert not queue.wake(task)
    queue.end(task, 100, 1)
    assert queue.take(1) is task
    queue.end(task, 100, 2)
    assert queue.take(2) is None
    assert queue.wake(task)
    assert queue.take(3) is task


class Model:
    """The same rules, asked of every task each time."""

    def __init__(self, number: int, rules: TurnRules) -> None:
        self.rules = rules
        self.ready = list(range(number))
        self.due_s: dict[int, float] = {}
        self.began_s: dict[int, float] = {}
        self.woken: set[int] = set()
        self.answered_s: dict[int, float] = {}
        self.left: set[int] = set()
        """Turns that have left their place: an answer does not give it back."""

    def counts(self, number: int, now_s: float) -> bool:
        began_s = self.began_s[number]
        last_s = max(began_s, self.answered_s.get(number, began_s))
        return now_s < last_s + self.rules.long_s and now_s < began_s + self.rules.busy_s

    def take(self, now_s: float) -> int | None:
        for due_s, number in sorted((due_s, number) for number, due_s in self.due_s.items()):
            if due_s <= now_s:
                del self.due_s[number]
                self.ready.append(number)
        for number in [each for each in self.began_s if each not in self.left]:
            if not self.counts(number, now_s):
                self.left.add(number)
        counted = self.began_s.keys() - self.left
        if not self.ready or len(counted) >= self.rules.turns_at_once:
            return None
        number = self.ready.pop(0)
        self.began_s[number] = now_s
        return number

    def end(self, number: int, rest_s: float | None, now_s: float) -> None:
        del self.began_s[number]
        self.left.discard(number)
        if rest_s is not None and (number in self.woken or rest_s == 0):
            self.ready.append(number)
        elif rest_s is not None:
            self.due_s[number] = now_s + rest_s
        self.woken.discard(number)

    def wake(self, number: int) -> None:
        if number in self.began_s:
            self.woken.add(number)
        elif number in self.due_s:
            del self.due_s[number]
            self.ready.append(number)


STEP = st.one_of(
    st.tuples(st.just("take"), st.just(0), st.just(0)),
    st.tuples(st.just("end"), st.integers(0, 4), st.one_of(st.none(), st.floats(0, 9))),
    st.tuples(st.sampled_from(["wake", "answer"]), st.integers(0, 4), st.just(0)),
)


@settings(max_examples=300)
@given(st.integers(1, 3), st.lists(st.tuples(STEP, st.floats(0.001, 4)), max_size=60))
def test_turns_are_as_in_a_model_that_asks_every_task(
    at_once: int, steps: list[tuple[tuple[str, int, float | None], float]]
) -> None:
    answers = Answers()
    queue, tasks = queue_of(5, rules(at_once), answers)
    model, now_s = Model(5, rules(at_once)), 0.0
    for (what, number, rest_s), pass_s in steps:
        now_s += pass_s
        match what:
            case "take":
                taken = queue.take(now_s)
                assert (None if taken is None else tasks.index(taken)) == model.take(now_s)
                if taken is None and (next_s := queue.find_next_s()) is not None:
                    assert next_s > now_s
            case "end" if number in model.began_s:
                queue.end(tasks[number], rest_s, now_s)
                model.end(number, rest_s, now_s)
            case "wake":
                queue.wake(tasks[number])
                model.wake(number)
            case "answer":
                answers.at_s[number] = model.answered_s[number] = now_s
    assert {number for number in range(5) if tasks[number].state is TaskState.RUNNING} == set(model.began_s)


class Counting:
    """A task that counts its turns and then rests."""

    def __init__(self, rests: Iterator[float] | None = None) -> None:
        self.turns = 0
        self.rests = rests
        self.is_in_turn = threading.Lock()

    def take_turn(self) -> float | None:
        assert self.is_in_turn.acquire(blocking=False), "one thread at a time"
        self.turns += 1
        rest_s = 1e6 if self.rests is None else next(self.rests, None)
        self.is_in_turn.release()
        return rest_s


def count_threads(name: str) -> int:
    return sum(thread.name == name for thread in threading.enumerate())


def test_many_tasks_run_on_a_few_threads_and_each_is_woken() -> None:
    turns = Turns(TurnRules(turns_at_once=4), name="many", idle_s=0.05)
    tasks = [Counting() for _ in range(200)]
    wakes = [turns.add(task.take_turn) for task in tasks]
    eventually(lambda: all(task.turns == 1 for task in tasks))
    for wake in wakes:
        wake()
    eventually(lambda: all(task.turns == 2 for task in tasks))
    eventually(lambda: count_threads("many") == 1)
    turns.close()
    eventually(lambda: count_threads("many") == 0)


def test_rests_end_in_time_and_a_shorter_one_than_all_others_is_seen() -> None:
    turns = Turns(name="rests", idle_s=0.05)
    long, short = Counting(iter([1e6])), Counting(iter([0.01] * 5))
    turns.add(long.take_turn)
    eventually(lambda: long.turns == 1)
    turns.add(short.take_turn)
    eventually(lambda: short.turns == 6)
    assert long.turns == 1
    turns.close()


def test_tasks_that_hang_delay_the_others_by_a_short_time_and_have_a_limit() -> None:
    released = threading.Event()

    def hang() -> float | None:
        released.wait(60)
        return None

    turns = Turns(TurnRules(turns_at_once=1, long_s=0.01), name="hang", threads_max=4, idle_s=0.05)
    for _ in range(2):
        turns.add(hang)
    task = Counting()
    wake = turns.add(task.take_turn)
    eventually(lambda: task.turns == 1)
    for _ in range(10):
        turns.add(hang)
    eventually(lambda: count_threads("hang") == 4)
    wake()
    released.set()
    eventually(lambda: task.turns == 2)
    turns.close()
    eventually(lambda: count_threads("hang") == 0)
