"""The check of keys: alternatives found by value equal a plain evaluation, and no filter takes processor time
without end."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state.errors import FilterTooExpensive, LimitExceeded
from state.partitions.filters.conditions import Leaf
from state.partitions.index import check_budget
from state.partitions.index.check_budget import AnswerBudget, CheckBudget
from state.partitions.index.partition_index import PartitionIndex
from state.store.memory import MemoryStore
from tests.builders.partitions.indexed_tables import TABLE, an_index


ROWS = [(str(a), str(b), text) for a in range(4) for b in range(4) for text in ("", "x", "xy")]
COLUMNS = [("a", "int"), ("b", "int"), ("s", "string")]
INDEX = an_index(COLUMNS, ROWS)
TERMS = {
    "a = {}": lambda row, n: int(row[0]) == n,
    "b = {}": lambda row, n: int(row[1]) == n,
    "a != {}": lambda row, n: int(row[0]) != n,
    "b > {}": lambda row, n: int(row[1]) > n,
    "s = '{}'": lambda row, n: row[2] == str(n),
    "s like 'x%' and a = {}": lambda row, n: row[2].startswith("x") and int(row[0]) == n,
    "(a = {0} or s = 'xy')": lambda row, n: int(row[0]) == n or row[2] == "xy",
}
ALTERNATIVES = st.lists(
    st.lists(st.tuples(st.sampled_from(sorted(TERMS)), st.integers(0, 4)), min_size=1, max_size=3),
    min_size=8,
    max_size=24,
)


@given(ALTERNATIVES)
@settings(max_examples=150, deadline=None)
def test_many_alternatives_find_what_each_of_them_finds(
    alternatives: list[list[tuple[str, int]]],
) -> None:
    text = " or ".join(
        f"({' and '.join(term.format(number) for term, number in terms)})" for terms in alternatives
    )
    expected = [
        f"a={row[0]}/b={row[1]}/s={row[2] or '__HIVE_DEFAULT_PARTITION__'}"
        for row in ROWS
        if any(all(TERMS[term](row, number) for term, number in terms) for terms in alternatives)
    ]
    prepared = INDEX.prepare(TABLE, f"({text}) and s != 'none'")
    assert INDEX.names(prepared) == sorted(expected)


def test_a_list_of_nine_thousand_structs_is_checked_by_value() -> None:
    structs = ", ".join(f"struct({number}, {number % 4})" for number in range(9_000))
    prepared = INDEX.prepare(TABLE, f"(struct(a, b)) in ({structs}) and s != 'none'")
    assert INDEX.count(prepared) == sum(row[0] == row[1] for row in ROWS)


def an_index_with_a_clock(step_s: float) -> PartitionIndex:
    """An index of 1,000 partitions whose clock advances by ``step_s`` with every look."""
    store, rows = MemoryStore(), [(str(number), str(number % 7)) for number in range(1_000)]
    an_index([("a", "int"), ("b", "int")], rows, store)
    seconds = itertools.count()
    return PartitionIndex(store, clock=lambda: next(seconds) * step_s)


EXPENSIVE = " and ".join(f"(a > {number} or b != {number % 9})" for number in range(300))


def test_a_filter_that_costs_too_much_for_its_keys_is_refused_with_what_it_cost() -> None:
    index = an_index_with_a_clock(check_budget.CHECK_S / 4)
    with pytest.raises(FilterTooExpensive) as refused:
        index.count(index.prepare(TABLE, EXPENSIVE))
    assert 0 < refused.value.context["checked"] < 1_000  # type: ignore[operator]
    assert refused.value.context["conditions"] == 600
    assert "first partition column" in refused.value.hint


def test_the_time_of_reading_and_planning_a_filter_counts() -> None:
    now_s = 0.0
    whole = AnswerBudget(clock=lambda: now_s)
    now_s = check_budget.CHECK_S + 0.1
    budget = CheckBudget(Leaf(0, ()), whole)
    with pytest.raises(FilterTooExpensive):
        budget.look(0)


def test_a_filter_within_its_time_and_one_without_a_check_are_answered() -> None:
    index = an_index_with_a_clock(check_budget.CHECK_S / 4)
    assert index.count(index.prepare(TABLE, "a != 5 and b = 5")) > 0
    assert index.count(index.prepare(TABLE, "")) == 1_000
    quick = an_index_with_a_clock(0)
    assert quick.count(quick.prepare(TABLE, EXPENSIVE)) > 0


def test_a_filter_with_many_conditions_looks_at_the_clock_more_often() -> None:
    def looks(text: str) -> int:
        store = MemoryStore()
        an_index([("a", "int"), ("b", "int")], [(str(n), str(n % 7)) for n in range(1_000)], store)
        calls = itertools.count()
        index = PartitionIndex(store, clock=lambda: 0.0 * next(calls))
        index.count(index.prepare(TABLE, text))
        return next(calls)

    assert looks("b != 5 or a = 5") < 5 < looks(EXPENSIVE)


def test_an_answer_that_takes_too_long_or_becomes_too_long_is_refused() -> None:
    seconds = itertools.count()
    slow = AnswerBudget(clock=lambda: next(seconds) * check_budget.ANSWER_S / 3)
    slow.look()
    slow.look()
    slow.look()
    with pytest.raises(LimitExceeded, match="takes too long"):
        slow.look()
    large = AnswerBudget()
    large.count_bytes(check_budget.ANSWER_BYTES_MAX)
    with pytest.raises(LimitExceeded, match="too long"):
        large.count_bytes(1)
