from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from state.errors import BadInput
from streaming.table.parameters import VALUE_CHARS_MAX
from streaming.table.value_counts import add_counts, format_counts, parse_counts


COUNTS = st.lists(st.integers(0, 10**12), max_size=60)


@given(COUNTS)
@example([int("x", 36)])
def test_counts_are_read_back_unchanged(counts: list[int]) -> None:
    back = parse_counts(format_counts(counts))
    assert list(back) + [0] * (len(counts) - len(back)) == counts


def test_counts_that_are_too_long_state_only_which_slots_have_values() -> None:
    counts = [10**12 if slot % 3 else 0 for slot in range(1_500)]
    text = format_counts(counts)
    assert len(text) <= VALUE_CHARS_MAX
    back = parse_counts(text)
    assert [bool(count) for count in back] == [bool(count) for count in counts][: len(back)]


@given(COUNTS, COUNTS)
def test_counts_add_up_slot_by_slot(one: list[int], other: list[int]) -> None:
    total = add_counts(one, other)
    assert sum(total) == sum(one) + sum(other)
    assert len(total) == max(len(one), len(other))


def test_invalid_texts_are_refused() -> None:
    with pytest.raises(BadInput):
        parse_counts("1,-,2")
