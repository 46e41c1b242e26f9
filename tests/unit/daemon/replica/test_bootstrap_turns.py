"""Bootstraps of many policies: a few at a time, in the order in which they ask."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from daemon.process.heartbeat import Pulse
from daemon.replica.bootstrap_turns import BootstrapTurns
from state.errors import Interrupted


if TYPE_CHECKING:
    from collections.abc import Callable


DEADLINE_S = 60.0


class Stopping(Pulse):
    def is_stopping(self) -> bool:
        return True


class Bootstrap:
    """A policy in a thread of its own, which keeps its turn until it is ended."""

    def __init__(self, turns: BootstrapTurns, policy: str) -> None:
        self.has_turn, self.ended = threading.Event(), threading.Event()

        def run() -> None:
            with turns.take(policy, Pulse()):
                self.has_turn.set()
                self.ended.wait(DEADLINE_S)

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()


def await_true(condition: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if condition():
            return
        threading.Event().wait(0.01)
    pytest.fail("the condition was not met in time")


def test_policies_get_their_turn_in_order_as_others_end() -> None:
    turns = BootstrapTurns(2)
    running = [Bootstrap(turns, f"running {number}") for number in range(2)]
    assert all(each.has_turn.wait(DEADLINE_S) for each in running)
    waiting = []
    for place in (1, 2):
        waiting.append(Bootstrap(turns, f"waiting {place}"))
        await_true(lambda at=place: turns.find_place(f"waiting {at}") == at)  # type: ignore[misc]
    assert turns.list_waiting("waiting 2") == ("waiting for its turn to be bootstrapped, as number 2",)
    assert turns.list_waiting("running 1") == ()
    running[1].ended.set()
    assert waiting[0].has_turn.wait(DEADLINE_S)
    assert not waiting[1].has_turn.is_set()
    assert turns.find_place("waiting 2") == 1
    for each in (*running, *waiting):
        each.ended.set()
    for each in (*running, *waiting):
        each.thread.join(DEADLINE_S)
    assert waiting[1].has_turn.is_set()


def test_a_bootstrap_that_fails_leaves_its_turn_to_the_next_one() -> None:
    turns = BootstrapTurns(1)
    with pytest.raises(OSError, match="down"), turns.take("a", Pulse()):
        raise OSError("down")
    with turns.take("b", Pulse()):
        assert turns.find_place("a") is None


def test_a_policy_that_waits_is_stopped_and_forgotten() -> None:
    turns = BootstrapTurns(1)
    with ExitStack() as stack:
        stack.enter_context(turns.take("a", Pulse()))
        with pytest.raises(Interrupted), turns.take("b", Stopping()):
            pytest.fail("it has no turn")
        assert turns.list_waiting("b") == ()
