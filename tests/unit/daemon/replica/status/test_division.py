"""The status lists the daemons that divide the policies, and commands name the one that follows a policy."""

from __future__ import annotations

import pytest

from daemon.config.settings.daemons import DaemonsConfig
from daemon.replica.policies import require_policy
from daemon.replica.status.division import DAEMONS, PoliciesOfDaemon
from state.errors import ConfigError
from tests.builders.daemon.assembly import config_of


SIX = tuple(f"p{index}" for index in range(6))


def test_one_daemon_is_not_listed() -> None:
    assert not DAEMONS.text((PoliciesOfDaemon(0, is_self=True, policies=SIX),), 0.0)


def test_each_of_several_daemons_has_a_row_with_the_first_of_its_policies() -> None:
    text = DAEMONS.text((PoliciesOfDaemon(0, is_self=False, policies=SIX), PoliciesOfDaemon(1, True)), 0.0)
    assert "p0, p1, p2, p3, p4 and 1 more" in text
    assert "1 (this one)" in text


def test_metrics_count_the_policies_that_are_known_and_followed() -> None:
    value = (PoliciesOfDaemon(0, is_self=False, policies=SIX), PoliciesOfDaemon(1, True, ("q",)))
    found = {sample.name: sample.value for family in DAEMONS.families(value) for sample in family.samples}
    assert found == {"tideline_daemons": 2, "tideline_policies_known": 7, "tideline_policies_owned": 1}


def test_a_command_for_a_policy_of_another_daemon_is_refused_with_its_number() -> None:
    owner = DaemonsConfig(count=2).owner_of("shop")
    values = {"policies": {"shop": {"source": "lake", "target": "dr", "database": "shop"}}}
    config = config_of({**values, "daemons": {"count": 2, "ordinal": 1 - owner}})
    with pytest.raises(ConfigError, match="another daemon follows the policy") as refused:
        require_policy(config, "shop")
    assert f"daemon {owner}" in str(refused.value.hint)
