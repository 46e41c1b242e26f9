"""What was seen adds up in any order, batches count once, and a book survives being written down."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.columns.observations import DAY_S, HourBook, KeySeen, KeyWindow, Observations
from state.columns.observed_json import book_of_text, book_text
from state.columns.slots import HOUR_S
from state.columns.types import integers
from state.errors import StateCorrupt
from tests.builders.columns import FLOATS, T0, a_book, a_key, books, observations


if TYPE_CHECKING:
    from state.columns.paths import KeyPath


@given(observations(), observations(), observations())
def test_observations_add_up_in_any_order(one: Observations, two: Observations, three: Observations) -> None:
    assert one.join(two) == two.join(one)
    assert one.join(two).join(three) == one.join(two.join(three))
    assert one.join(Observations()) == one
    one.join(two).check()


@given(books(), books())
def test_books_add_up_in_any_order(one: HourBook, two: HourBook) -> None:
    assert one.join(two) == two.join(one)
    one.join(two).check()


@given(books(), st.integers(0, 60))
def test_a_window_is_what_a_loop_over_the_hours_finds(book: HourBook, oldest: int) -> None:
    since = T0 + oldest * HOUR_S
    assert book.since(since).window() == naive_window(book, since)


def naive_window(book: HourBook, since: int) -> dict[KeyPath, KeyWindow]:
    windows = {}
    for key in {key for hour in book.hours.values() for key in hour.keys}:
        seen = {
            h: o.keys[key]
            for h, o in book.hours.items()
            if key in o.keys and h >= since and o.keys[key].values
        }
        total = KeySeen()
        for each in seen.values():
            total = total.join(each)
        if seen:
            share = max(each.misfit_share for each in seen.values())
            windows[key] = KeyWindow(total, min(seen), max(seen), share)
    return windows


@given(books(), st.integers(0, 60))
def test_putting_hours_together_by_day_keeps_totals(book: HourBook, oldest: int) -> None:
    coarse = book.coarse(T0 + oldest * HOUR_S)
    coarse.check()
    fine_window, coarse_window = book.window(), coarse.window()
    assert {key: each.total for key, each in coarse_window.items()} == {
        k: w.total for k, w in fine_window.items()
    }
    for key, each in coarse_window.items():
        assert fine_window[key].first_hour - DAY_S < each.first_hour <= fine_window[key].first_hour
        assert fine_window[key].last_hour - DAY_S < each.last_hour <= fine_window[key].last_hour


@given(books(), books())
def test_a_batch_counts_once(book: HourBook, batch: HourBook) -> None:
    once = book.with_batch(book.batch + 1, batch.hours)
    assert once.with_batch(once.batch, batch.hours) == once
    assert once.with_batch(0, batch.hours) == once


@given(books())
def test_a_book_reads_back_as_it_was(book: HourBook) -> None:
    assert book_of_text(book_text(book)) == book


def changed(**fields: Any) -> str:
    form = json.loads(book_text(a_book([T0], "a", integers(1, 2))))
    return json.dumps(form | fields)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 100_000,
        '{"v":1}',
        changed(v=2),
        changed(batch="1"),
        changed(keys=["a"]),
        changed(keys=[]),
        changed(hours={"x": [1, 0, []]}),
        changed(hours={"3601": [1, 0, []]}),
        changed(hours={"3600": [1, 2, []]}),
        changed(hours={"3600": [1, 0, [[0, 1, 2, 0, None, None, 0]]]}),
        changed(hours={"3600": [1, 0, [[0, 1, 1, 0, 5, None, 0]]]}),
        changed(hours={"3600": [1, 0, [[0, 1, 1, 0, 5, 4, 0]]]}),
        changed(hours={"3600": [1, 0, [[0, True, 1, 0, 4, 5, 0]]]}),
        changed(hours={"3600": [1, 0, [[-1, 1, 1, 0, 4, 5, 0]]]}),
        changed(hours={"3600": [1, 0, [[0, 1]]]}),
    ],
)
def test_a_text_that_is_no_book_is_refused(text: str) -> None:
    with pytest.raises(StateCorrupt):
        book_of_text(text)


def test_a_month_of_300_columns_stays_small() -> None:
    seen = KeySeen(10**7, 10**6, 3, FLOATS.join(integers(-(2**40), 2**40)))
    hour = Observations(10**7, 5, {a_key(f"action.key_{n}"): seen for n in range(300)})
    book = HourBook(dict.fromkeys(range(T0, T0 + 60 * DAY_S, HOUR_S), hour)).coarse(T0 + 58 * DAY_S)
    assert len(book_text(book)) < 3_000_000
    assert book.window()[a_key("action.key_0")].total.rows == 1440 * 10**7
