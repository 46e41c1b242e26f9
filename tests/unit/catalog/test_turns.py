"""Readers and the follower share the processor: readers give way, are never locked out, and never delay the follower for long."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

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
    assert all(waited), "a wait for readers that do not exist returns at once"


def test_a_computation_gives_way_to_the_follower_which_leaves_it_a_share_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0.0
    monkeypatch.setattr(turns_module, "time", SimpleNamespace(monotonic=lambda: now_s))
    turns, waits = Turns(), list[float]()
    monkeypatch.setattr(turns._no_readers, "wait", waits.append)
    with turns.computing():
        for _ in range(2):
            with turns.work():
                assert not turns._may_read.is_set(), "the computation would wait"
                now_s += 0.1
            turns.give_way()
    assert waits == [pytest.approx(turns_module.READERS_SHARE * 0.1)]
    assert turns._no_readers.is_set()


def test_the_follower_does_not_give_way_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bool:
        raise AssertionError("the follower waits for itself")

    turns = Turns()
    with turns.work():
        monkeypatch.setattr(threading.Event, "wait", refuse)
        turns.give_way()


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
