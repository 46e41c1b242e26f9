"""Sorting in steps finds what sorting at once finds, and lets others run between the steps."""

from __future__ import annotations

from array import array
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.timelines import sorting
from state.timelines.sorting import release_in_steps, sort_in_steps


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "STEP", 3)


@given(st.lists(st.text(max_size=3)))
def test_texts_are_in_the_order_of_sorted(texts: list[str]) -> None:
    assert list(sort_in_steps(texts)) == sorted(texts)


@given(st.lists(st.integers(-9, 9)))
def test_numbers_of_an_array_are_in_the_order_of_sorted(numbers: list[int]) -> None:
    assert list(sort_in_steps(array("q", numbers))) == sorted(numbers)


def test_numbers_of_an_array_stay_in_one() -> None:
    assert sort_in_steps(array("q", [3, 1, 2, 0])) == array("q", range(4))


def test_a_list_is_released_in_steps() -> None:
    items, left = list(range(8)), list[int]()
    release_in_steps(items, lambda: left.append(len(items)))
    assert left == [5, 2, 0]


def test_what_is_in_order_is_not_copied() -> None:
    names = ["a", "b", "b", "c", "d", "e", "f"]
    assert sort_in_steps(names) is names


@pytest.mark.parametrize("numbers", [range(30), range(30, 0, -1)])
def test_others_run_between_two_steps(numbers: range) -> None:
    pauses = Counter[str]()
    sort_in_steps(list(numbers), lambda: pauses.update(["pause"]))
    assert pauses["pause"] >= 10
