"""One line of text shows which partitions exist."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.timelines.runs import FULL, NONE, PARTLY, Runs, draw_bar


@pytest.mark.parametrize(
    ("members", "width", "expected"),
    [
        ([], 10, ""),
        ([1, 2, 3], 10, "███"),
        ([1, 2, 4], 10, "██·█"),
        ([*range(10), *range(15, 20)], 4, "██·█"),
        ([*range(7), *range(15, 20)], 4, "█▒·█"),
    ],
)
def test_cells_are_full_partly_filled_or_empty(members: list[int], width: int, expected: str) -> None:
    assert draw_bar(Runs.of(members), width) == expected


@given(members=st.sets(st.integers(0, 200), min_size=1), width=st.integers(1, 50))
def test_no_partition_is_in_an_empty_cell_and_no_hole_in_a_full_one(members: set[int], width: int) -> None:
    drawn = draw_bar(Runs.of(members), width)
    total = max(members) + 1 - min(members)
    assert len(drawn) == min(width, total)
    for cell, sign in enumerate(drawn):
        low, high = (min(members) + total * at // len(drawn) for at in (cell, cell + 1))
        share = len(members & set(range(low, high))) / (high - low)
        assert sign == (FULL if share == 1 else NONE if share == 0 else PARTLY)
