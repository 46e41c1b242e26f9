"""Readers and the follower share the processor: readers give way, are never locked out, and never delay the
follower for long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from handlers.catalog import turns as turns_module
from handlers.catalog.turns import Turns


def test_a_reader_waits_while_the_follower_works_and_continues_afterwards() -> None:
    turns, order = Turns(), []

    def read() -> None:
        with turns.reading():
            order.append("read")

    with turns.work():
        reader = threading.Thread(target=read)
        reader.start()
        reader.join(0.05)
        order.append("worked")
    reader.join(5)
    assert order == ["worked", "read"]


def test_a_reader_does_not_wait_longer_than_its_limit_for_a_follower_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns_module, "GIVE_WAY_S", 0.01)
    turns, answered = Turns(), threading.Event()

    def read() -> None:
        with turns.reading():
            turns.give_way()
            answered.set()

    with turns.work():
        reader = threading.Thread(target=read)
        reader.start()
        assert answered.wait(5)
    reader.join(5)


def test_a_follower_with_much_work_lets_readers_run_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_module, "SLICE_S", 0.001)
    turns, answered = Turns(), threading.Event()

    def read() -> None:
        with turns.reading():
            answered.set()

    with turns.work():
        reader = threading.Thread(target=read)
        reader.start()
        end_s = time.monotonic() + 5
        while not answered.is_set() and time.monotonic() < end_s:
            turns.breathe()
        assert answered.is_set()
    reader.join(5)


def test_a_follower_without_readers_never_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_module, "SLICE_S", 0.0)
    turns, waited = Turns(), list[bool]()

    def wait(_timeout_s: float) -> bool:
        waited.append(turns._no_readers.is_set())
        return True

    monkeypatch.setattr(turns._no_readers, "wait", wait)
    for _ in range(100):
        with turns.work():
            turns.breathe()
    assert set(waited) == {True}, "a wait for readers that do not exist returns at once"


@dataclass
class Clock:
    now_s: float = 1000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(turns_module, "time", clock)
    return clock


def record_waits(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record how long the follower waits for readers."""
    waits = list[float]()
    monkeypatch.setattr(turns._no_readers, "wait", waits.append)
    return waits


def test_a_follower_leaves_a_share_of_the_time_after_many_short_works(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    turns = Turns()
    waits = record_waits(turns, monkeypatch)
    works = 0
    with turns.computing():
        while not waits:
            with turns.work():
                clock.now_s += 0.01
            works += 1
    assert waits == [pytest.approx(turns_module.READERS_SHARE * turns_module.SLICE_S)]
    assert works == pytest.approx(turns_module.SLICE_S / 0.01 + 1, abs=1)


def test_time_without_work_counts_as_the_share_of_readers(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    turns = Turns()
    waits = record_waits(turns, monkeypatch)
    for _ in range(1000):
        with turns.work():
            clock.now_s += 0.01
        clock.now_s += turns_module.KEEP_S + 0.01 * turns_module.READERS_SHARE
    assert waits == []


def test_the_follower_keeps_its_turn_for_a_moment_after_its_work(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    turns, waits = Turns(), list[float]()

    def wait(timeout_s: float) -> bool:
        waits.append(timeout_s)
        clock.now_s += timeout_s
        return False

    monkeypatch.setattr(turns._changed, "wait", wait)
    with turns.work():
        pass
    in_thread(turns.give_way)
    in_thread(turns.give_way)
    assert waits == [pytest.approx(turns_module.KEEP_S)]


def test_the_follower_does_not_give_way_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bool:
        raise AssertionError("the follower waits for itself")

    turns = Turns()
    with turns.work():
        monkeypatch.setattr(turns._changed, "wait", refuse)
        turns.give_way()


def in_thread(function: Callable[[], None]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join(5)
    assert not thread.is_alive()


def test_few_readers_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_module, "READERS_MAX", 2)
    turns, running, most, lock = Turns(), 0, 0, threading.Lock()
    together = threading.Barrier(8)

    def read() -> None:
        nonlocal running, most
        together.wait(5)
        with turns.reading():
            with lock:
                running += 1
                most = max(most, running)
            turns.give_way()
            with lock:
                running -= 1

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert 1 <= most <= 2
