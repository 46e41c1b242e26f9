"""A promotion begins only after its evidence was sufficient for the whole delay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.columns.counts.promotion import (
    ANNOUNCED_MAX,
    announce,
    encode_announced,
    find_due,
    parse_announced,
)


STEPS = st.lists(st.tuples(st.integers(0, 9), st.sets(st.integers(1, 4))), max_size=30)


@given(STEPS, st.integers(0, 12))
def test_a_promotion_is_due_if_it_was_proposed_without_interruption_for_the_delay(
    steps: list[tuple[int, set[int]]], delay: int
) -> None:
    announced: dict[int, int] = {}
    history: list[tuple[int, set[int]]] = []
    now_s = 1_000_000
    for hours, proposed in steps:
        now_s += hours * 3_600
        history.append((now_s, proposed))
        announced = parse_announced(encode_announced(announce(announced, proposed, now_s)))
        due = {slot for slot in proposed if now_s - naive_since(history, slot) >= delay * 3_600}
        assert find_due(announced, delay, now_s) == due


def naive_since(history: list[tuple[int, set[int]]], slot: int) -> int:
    since = history[-1][0]
    for when, proposed in reversed(history):
        if slot not in proposed:
            break
        since = when
    return since


def test_a_clock_that_was_set_back_restarts_the_delay() -> None:
    assert announce({3: 9_000}, {3}, 5_000) == {3: 5_000}


def test_so_many_announcements_that_they_would_not_fit_into_a_parameter_come_later() -> None:
    first = announce({}, range(1_400), 1_795_170_600)
    assert len(first) == ANNOUNCED_MAX
    text = encode_announced({slot + 1_000: since for slot, since in first.items()})
    assert text is not None
    assert len(text) < 4_000
    assert announce(first, range(5, 1_400), 1_795_170_700)[ANNOUNCED_MAX] == 1_795_170_700


@pytest.mark.parametrize("text", [None, "", "[]", "{", '{"a":1}', '{"1":"x"}', '{"1":true}', "null"])
def test_an_unreadable_announcement_counts_as_none(text: str | None) -> None:
    assert parse_announced(text) == {}
