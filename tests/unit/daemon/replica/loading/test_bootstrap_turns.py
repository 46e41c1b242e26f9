"""Bootstraps of many policies: a few at a time, in the order in which they ask."""

from __future__ import annotations

from daemon.replica.loading.bootstrap_turns import BootstrapTurns


def test_policies_get_their_turn_in_order_as_others_end() -> None:
    turns = BootstrapTurns(2)
    for policy in ("a", "b", "c", "d"):
        turns.ask(policy)
    assert [turns.find_place(policy) for policy in ("a", "b", "c", "d")] == [None, None, 1, 2]
    assert turns.list_waiting("d") == ("waiting for its bootstrap; position in the queue: 2",)
    assert turns.list_waiting("b") == ()
    turns.leave("b")
    assert [turns.find_place(policy) for policy in ("a", "c", "d")] == [None, None, 1]


def test_a_policy_that_waits_is_forgotten_when_it_leaves() -> None:
    turns = BootstrapTurns(1)
    turns.ask("a")
    turns.ask("b")
    turns.leave("b")
    assert turns.list_waiting("b") == ()
    turns.leave("b")
    assert turns.find_place("a") is None


def test_a_policy_is_woken_when_its_turn_has_come() -> None:
    turns, woken = BootstrapTurns(2), list[str]()
    for policy in ("a", "b", "c", "d", "e"):
        turns.ask(policy, lambda policy=policy: woken.append(policy))  # type: ignore[misc]
    assert woken == []
    turns.leave("d")
    turns.leave("a")
    assert "c" in woken
    assert "e" not in woken
    turns.leave("a")
    turns.leave("b")
    assert "e" in woken
    assert [turns.find_place(policy) for policy in ("c", "e")] == [None, None]
