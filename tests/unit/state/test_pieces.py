from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from state.pieces import in_pieces


@given(st.lists(st.integers()), st.integers(1, 5))
def test_pieces_have_all_items_in_order_and_only_the_last_may_be_short(items: list[int], size: int) -> None:
    pieces = list(in_pieces(items, size))
    assert [item for piece in pieces for item in piece] == items
    assert all(len(piece) == size for piece in pieces[:-1])
    assert all(0 < len(piece) <= size for piece in pieces[-1:])
