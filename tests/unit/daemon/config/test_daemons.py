"""Policies are divided over daemons by the number of daemons and the policy's name alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from daemon.config.settings.daemons import DaemonsConfig
from tests.builders.daemon.assembly import config_of


NAMES = st.lists(st.text("abcdefghij_0123456789.", min_size=1, max_size=20), unique=True, max_size=50)


@given(NAMES, st.integers(1, 8))
def test_each_policy_has_exactly_one_daemon(names: list[str], count: int) -> None:
    daemons = [DaemonsConfig(count=count, ordinal=ordinal) for ordinal in range(count)]
    assert all(sum(each.owns(name) for each in daemons) == 1 for name in names)


@given(NAMES, st.integers(1, 8))
def test_a_further_daemon_only_takes_policies_over(names: list[str], count: int) -> None:
    before, after = DaemonsConfig(count=count), DaemonsConfig(count=count + 1)
    assert all(after.owner_of(name) in {before.owner_of(name), count} for name in names)


def test_policies_are_divided_about_equally() -> None:
    owners = [DaemonsConfig(count=4).owner_of(f"all.database_{index}") for index in range(1000)]
    assert all(200 < owners.count(ordinal) < 300 for ordinal in range(4))


def test_a_daemon_beyond_the_number_of_daemons_is_refused() -> None:
    with pytest.raises(ValidationError, match="must be below count = 2"):
        config_of({"daemons": {"count": 2, "ordinal": 2}})
