"""The turns of many policies for work that is due although nothing happens."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from handlers.replication.target.idle_turns import IdleTurns


def turns_of(policies: int, per_s: float = 1.0) -> IdleTurns:
    turns = IdleTurns(per_s)
    for _ in range(policies):
        turns.join()
    return turns


def test_a_single_policy_has_its_turn_as_often_as_it_wants() -> None:
    turns = turns_of(1)
    done_s, times = 0.0, []
    for now_s in range(1, 301):
        if turns.may_take(now_s, done_s, interval_s=60):
            turns.take(now_s)
            done_s = now_s
            times.append(now_s)
    assert times == [60, 120, 180, 240, 300]


def test_a_policy_that_left_shortens_the_round_of_the_others() -> None:
    turns = turns_of(100)
    assert not turns.may_take(60, 0, interval_s=60)
    for _ in range(40):
        turns.leave()
    assert turns.may_take(60, 0, interval_s=60)


def test_work_of_a_busy_policy_does_not_use_up_the_turns_of_the_others() -> None:
    turns = turns_of(2, per_s=4.0)
    for number in range(1_000):
        turns.take(number / 100)
    assert turns.may_take(10.25, 0, interval_s=5)


@given(st.integers(1, 60), st.permutations(range(60)))
def test_turns_have_a_limited_rate_and_no_policy_waits_for_more_than_two_rounds(
    policies: int, order: list[int]
) -> None:
    """All begin at the same time, and ask in the same order, which could favour the first ones."""
    per_s, interval_s, end_s = 2.0, 5.0, 120
    turns = turns_of(policies, per_s)
    done: dict[int, list[float]] = {policy: [0.0] for policy in order if policy < policies}
    for tick in range(1, end_s * 4):
        now_s = tick / 4
        for times in done.values():
            if turns.may_take(now_s, times[-1], interval_s=interval_s):
                turns.take(now_s)
                times.append(now_s)
    round_s = max(interval_s, policies / per_s)
    assert sum(len(times) - 1 for times in done.values()) <= end_s * per_s + 1
    for times in done.values():
        gaps = [later - before for before, later in zip(times, [*times[1:], end_s], strict=True)]
        assert max(gaps) <= 2 * round_s + 1
