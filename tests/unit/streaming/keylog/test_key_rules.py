"""Key rules from the command line, combined with the configured rules."""

from __future__ import annotations

import pytest

from state.columns.paths import KeyPath
from state.columns.rules import FlatRules
from state.columns.types import ColumnType
from state.errors import ConfigError
from streaming.keylog.key_rules import KeyRuleSet


A, B = KeyPath(("a",)), KeyPath(("b",))


def test_key_rules_are_added_to_the_configured_rules() -> None:
    configured = FlatRules(whitelist=frozenset([A]), skip=("$.x",), pins={A: ColumnType.INT})
    found = KeyRuleSet(frozenset([B]), ("$.y*",), {B: ColumnType.STRING}).apply_to(configured)
    assert found.whitelist == {A, B}
    assert found.skip == ("$.x", "$.y*")
    assert found.pins == {A: ColumnType.INT, B: ColumnType.STRING}


def test_a_key_rule_overrides_the_configuration() -> None:
    configured = FlatRules(whitelist=frozenset([A]), pins={A: ColumnType.INT}, skip=("$.b",))
    found = KeyRuleSet(frozenset([B]), ("$.a",), {A: ColumnType.BIGINT}).apply_to(configured)
    assert found.skips(A)
    assert not found.skips(B)
    assert found.pins == {A: ColumnType.BIGINT}


def test_a_whitelist_beyond_the_cap_is_refused() -> None:
    with pytest.raises(ConfigError):
        KeyRuleSet(frozenset([A, B]), (), {}).apply_to(FlatRules(columns_max=1))
