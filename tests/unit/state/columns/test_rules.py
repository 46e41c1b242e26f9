"""Contradictory rules are refused before any decision."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from state.columns.rules import FlatRules, IntWidth
from state.columns.types import ColumnType, Evidence, integers
from state.errors import ConfigError
from tests.builders.flat.columns import BOOLEANS, FLOATS, a_key, evidences


@pytest.mark.parametrize(
    "wrong",
    [
        {"columns_max": 0},
        {"columns_max": 1_500},
        {"empty_days": 10, "retention_days": 20},
        {"fill_min": 1.5},
        {"misfit_share_max": -0.1},
        {"depth_max": 33},
        {"columns_max": 1, "whitelist": frozenset({a_key("a"), a_key("b")})},
        {"pins": {a_key("a"): ColumnType.NULL}},
    ],
)
def test_contradictory_rules_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        FlatRules(**wrong)


def test_patterns_keep_keys_out_unless_whitelisted() -> None:
    rules = FlatRules(skip=("$.debug", "$.debug.*"), whitelist=frozenset({a_key("debug.level")}))
    assert rules.skips(a_key("debug"))
    assert rules.skips(a_key("debug.a.b"))
    assert not rules.skips(a_key("debug.level"))
    assert not rules.skips(a_key("debugger"))


@given(evidences(), evidences())
def test_under_any_rules_more_evidence_never_narrows_the_type(one: Evidence, two: Evidence) -> None:
    for rules in (FlatRules(), FlatRules(int_width=IntWidth.BIGINT, exact_floats=True, booleans=True)):
        joined = rules.type_of(a_key("a"), one.join(two))
        assert rules.type_of(a_key("a"), one).join(joined) is joined


@given(evidences())
def test_a_pin_overrides_all_values(evidence: Evidence) -> None:
    rules = FlatRules(pins={a_key("a"): ColumnType.BOOLEAN})
    assert rules.type_of(a_key("a"), evidence) is ColumnType.BOOLEAN


def test_switches_change_the_type_of_numbers_and_booleans() -> None:
    key = a_key("a")
    assert FlatRules().type_of(key, integers(0, 5)) is ColumnType.TINYINT
    assert FlatRules(int_width=IntWidth.BIGINT).type_of(key, integers(0, 5)) is ColumnType.BIGINT
    assert FlatRules(exact_floats=True).type_of(key, FLOATS) is ColumnType.STRING
    assert FlatRules().type_of(key, BOOLEANS) is ColumnType.STRING
    assert FlatRules(booleans=True).type_of(key, BOOLEANS) is ColumnType.BOOLEAN
