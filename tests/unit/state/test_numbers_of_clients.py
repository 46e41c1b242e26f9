"""The numbers that clients write are read within bounds, however long the text is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from state.bounds import NUMBER_MAX, parse_number


@given(st.integers(0, 10**20), st.integers(0, 10**20), st.integers(0, 10**20))
def test_a_number_is_read_within_its_bounds(number: int, low: int, high: int) -> None:
    expected = number if low <= number <= min(high, NUMBER_MAX) else None
    assert parse_number(str(number), low, min(high, NUMBER_MAX)) == expected


@given(st.text().filter(lambda text: not set(text) <= set("0123456789") or not text))
def test_other_texts_are_no_numbers(text: str) -> None:
    assert parse_number(text) is None


def test_a_text_of_thousands_of_digits_is_refused_like_any_other_number_out_of_bounds() -> None:
    assert parse_number("9" * 10_000) is None
    assert parse_number("٣") is None
