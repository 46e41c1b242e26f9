"""Filters that are rewritten so that every database finds what the order of bytes selects."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from state.partitions.filters.rewriting import REWRITTEN_MAX, compare_by_bytes
from tests.builders.partitions.text_databases import BY_BYTES, DERBY


TEXTS = st.text("ab_% \x01\uff3a😀", max_size=4)
OPERATORS = st.sampled_from(["=", "!=", "<>", "<", "<=", ">", ">="])


@st.composite
def filters(draw: st.DrawFn) -> str:
    quote = '"{}"'.format
    match draw(st.integers(0, 3)):
        case 0:
            return f"{quote(draw(TEXTS))} {draw(OPERATORS)} s"
        case 1:
            low, high, negated = draw(TEXTS), draw(TEXTS), draw(st.sampled_from(["", "not "]))
            return f"s {negated}between {quote(low)} and {quote(high)}"
        case 2:
            listed = ", ".join(map(quote, draw(st.lists(TEXTS, min_size=1, max_size=3))))
            return f"(s) {draw(st.sampled_from(['', 'not ']))}in ({listed})"
        case _:
            return f"s {draw(OPERATORS)} {quote(draw(TEXTS))}"


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ('s != "a"', '(s != "a" or s like "a %")'),
        ('s != "x_y"', r'(s < "x_y" or s > "x_y" or s like "x\_y_%")'),
        ('s > "a"', '(s > "a" or s like "a_%")'),
        ('s < "a "', '(s < "a " or s like "a")'),
        ("hr = 7", "(hr >= 7 and hr <= 7)"),
        ("7 = hr and s = 'a'", '((hr >= 7 and hr <= 7) and s = "a")'),
    ],
)
def test_a_comparison_that_may_lose_partitions_is_rewritten(text: str, rewritten: str) -> None:
    assert compare_by_bytes(text) == rewritten


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s = 'a'",
        "s like 'a%'",
        "hr != 7 and hr > 3",
        "ds >= '2024-01-01' and ds != '2024-01-02'",
        "ts < '2024-01-01 10:00:00'",
        "s != '__HIVE_DEFAULT_PARTITION__'",
        "(s) not in ('a') is not true",
        "s != 'a' junk",
    ],
)
def test_other_filters_are_not_changed(text: str) -> None:
    assert compare_by_bytes(text) == text


@given(st.lists(filters(), min_size=1, max_size=3), st.sampled_from([" and ", " or "]), TEXTS)
@settings(max_examples=400, deadline=None)
@example(['s > "\uff3a"'], " and ", "😀")
@example(['s not between "a" and "b"'], " and ", "b ")
def test_the_rewritten_filter_selects_by_bytes_on_every_database(
    parts: list[str], word: str, value: str
) -> None:
    text = word.join(parts)
    rewritten, selects = compare_by_bytes(text), BY_BYTES.finds(text, value)
    assert BY_BYTES.finds(rewritten, value) == selects
    assert DERBY.finds(rewritten, value) or not selects


@given(st.lists(filters(), min_size=1, max_size=3), st.sampled_from([" and ", " or "]), TEXTS)
@settings(max_examples=400, deadline=None)
@example(['s >= "a"'], " and ", "a\x01")
@example(['"a" < s'], " and ", "a\x01\x01")
@example(['s > ""'], " and ", "\x01")
def test_a_long_filter_is_widened_and_loses_nothing(parts: list[str], word: str, value: str) -> None:
    listed = ", ".join(f"'v{number}'" for number in range(REWRITTEN_MAX))
    text = f"({word.join(parts)}) and (s) not in ({listed})"
    assert DERBY.finds(compare_by_bytes(text), value) or not BY_BYTES.finds(text, value)
    assert compare_by_bytes(text, may_widen=False) == text


def test_a_long_filter_without_texts_is_not_changed() -> None:
    text = " and ".join(f"hr != {number}" for number in range(REWRITTEN_MAX + 1))
    assert compare_by_bytes(text) == text
