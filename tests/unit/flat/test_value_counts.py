from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from state.errors import BadInput
from streaming.table.value_counts import CHARS_MAX, added, counts_of, text_of


COUNTS = st.lists(st.integers(0, 10**12), max_size=60)


@given(COUNTS)
@example([int("x", 36)])
def test_counts_come_back(counts: list[int]) -> None:
    back = counts_of(text_of(counts))
    assert list(back) + [0] * (len(counts) - len(back)) == counts


def test_what_does_not_fit_says_only_which_slots_have_any() -> None:
    counts = [10**12 if slot % 3 else 0 for slot in range(1_500)]
    text = text_of(counts)
    assert len(text) <= CHARS_MAX
    back = counts_of(text)
    assert [bool(count) for count in back] == [bool(count) for count in counts][: len(back)]


@given(COUNTS, COUNTS)
def test_counts_add_up_slot_by_slot(one: list[int], other: list[int]) -> None:
    total = added(one, other)
    assert sum(total) == sum(one) + sum(other)
    assert len(total) == max(len(one), len(other))


def test_anything_else_is_refused() -> None:
    with pytest.raises(BadInput):
        counts_of("1,-,2")
