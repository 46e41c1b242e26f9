"""The type of a new column: what most values need, unless so many others were counted that they would promote
it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.columns.changes import ChangeKind, Evolution, RetainedValues
from state.columns.counts.observations import HourCounts
from state.columns.demand import compute_demand
from state.columns.evolution import decide
from state.columns.rules import FlatRules
from state.columns.slots import HOUR_S, Layout
from state.columns.sniffing import sniff
from state.columns.types import ColumnType
from tests.builders.flat.columns import T0, a_key, requested_by
from tests.builders.flat.table_model import Value, fits


KEY = a_key("n")
WIDE = (1 << 53) + 1
KINDS: list[Value] = [1, 300, -(1 << 53), WIDE, 1 << 63, 0.5, "x", True]
RUNS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.sampled_from([1, 2, 10, 19, 20, 21, 100, 1_000])),
    min_size=1,
    max_size=4,
)
RULES = st.builds(
    FlatRules,
    whitelist=st.just(frozenset({KEY})),
    misfits_min=st.sampled_from([1, 5, 20]),
    misfit_share_max=st.sampled_from([0.0, 1e-3, 0.1]),
    exact_floats=st.booleans(),
    booleans=st.booleans(),
)


def decide_on(hours: Sequence[Sequence[Value]], rules: FlatRules, layout: Layout | None = None) -> Evolution:
    """Decide about the key after samples of these values in consecutive hours, the last of which is being
    written."""
    counts = HourCounts(
        {
            T0 - nth * HOUR_S: sniff([json.dumps({"n": value}) for value in values], rules)
            for nth, values in enumerate(hours)
        }
    )
    demand = compute_demand([requested_by("n")], rules)
    return decide(layout or Layout.new(), demand, counts.window(), RetainedValues(1), T0, rules)


def expand(runs: list[tuple[Value, int]]) -> list[Value]:
    return [value for value, count in runs for _ in range(count)]


def naive_types(values: list[Value], rules: FlatRules) -> set[ColumnType]:
    """The widest types among those that the rules allow, or STRING."""
    choices = [ColumnType.BIGINT] if rules.exact_floats else [ColumnType.BIGINT, ColumnType.DOUBLE]
    return {each for each in choices if not is_refuted(each, values, rules)} or {ColumnType.STRING}


def is_refuted(column_type: ColumnType, values: list[Value], rules: FlatRules) -> bool:
    misfits = sum(not fits(value, column_type) for value in values)
    is_promoted = misfits >= rules.misfits_min and misfits / len(values) > rules.misfit_share_max
    return is_promoted or 2 * misfits >= len(values)


@given(RUNS, RULES)
def test_a_whitelisted_key_has_the_type_that_the_counts_of_its_values_do_not_refute(
    runs: list[tuple[Value, int]], rules: FlatRules
) -> None:
    values = expand(runs)
    found = decide_on([values], rules).layout.by_key[KEY].type
    if rules.booleans and all(value is True for value in values):
        assert found is ColumnType.BOOLEAN
    elif naive_types(values, rules) == {ColumnType.STRING}:
        assert found is ColumnType.STRING
    else:
        assert found.is_numeric
        assert not is_refuted(found, values, rules)


@given(st.lists(RUNS, min_size=2, max_size=3), RULES)
def test_a_new_column_over_several_hours_is_never_numeric_against_the_counts(
    hours: list[list[tuple[Value, int]]], rules: FlatRules
) -> None:
    values = [expand(runs) for runs in hours]
    evolution = decide_on(values, rules)
    found = evolution.layout.by_key[KEY].type
    if found.is_numeric:
        assert not is_refuted(found, [value for each in values for value in each], rules)
        assert {change.kind for change in decide_on(values, rules, evolution.layout).changes} <= {
            ChangeKind.WAIT
        }


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([300] * 5 + ["x"], ColumnType.SMALLINT),
        ([300] * 5 + ["x"] * 5, ColumnType.STRING),
        ([0.5] * 1_000 + [WIDE], ColumnType.DOUBLE),
        ([0.5] * 1_000 + [WIDE] * 20, ColumnType.STRING),
        ([WIDE] * 1_000 + [0.5], ColumnType.BIGINT),
        ([WIDE] * 1_000 + [0.5] * 20, ColumnType.STRING),
    ],
)
def test_strays_are_misfits_of_a_whitelisted_keys_column(values: list[Value], expected: ColumnType) -> None:
    rules = FlatRules(whitelist=frozenset({KEY}))
    assert decide_on([values], rules).layout.by_key[KEY].type is expected


def test_a_stray_fraction_does_not_make_a_new_column_text_where_fractions_are_exact() -> None:
    rules = FlatRules(exact_floats=True, whitelist=frozenset({KEY}))
    assert decide_on([[300] * 100 + [0.5]], rules).layout.by_key[KEY].type is ColumnType.SMALLINT


def test_a_late_hour_with_a_stray_integer_does_not_make_a_column_of_fractions_text() -> None:
    rules = FlatRules(whitelist=frozenset({KEY}))
    assert decide_on([[0.5] * 100, [WIDE]], rules).layout.by_key[KEY].type is ColumnType.DOUBLE


@pytest.mark.parametrize("values", [[0.5] * 50 + [WIDE], [WIDE] * 50 + [0.5]])
def test_numbers_that_no_type_holds_together_wait_as_numbers_do(values: list[Value]) -> None:
    assert [change.kind for change in decide_on([values], FlatRules()).changes] == [ChangeKind.WAIT]
