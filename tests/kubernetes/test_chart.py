"""The chart on a real API server: it accepts every combination of values, and upgrades."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.builders.components.chart import NAMESPACE, render_chart
from tests.builders.components.chart_values import MATRIX, RELEASES
from tests.builders.components.kubernetes_api import Api, Refused


OPERATORS = {"ServiceMonitor", "PrometheusRule"}
INVALID = 422


def create_all(api: Api, objects: dict[str, dict[str, Any]], known: set[str]) -> None:
    """Let the server check all objects; namespaces are created, once."""
    for namespace in {
        each["metadata"]["namespace"] for each in objects.values() if each["kind"] != "Namespace"
    }:
        if namespace not in known:
            known.add(namespace)
            api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for each in objects.values():
        if each["kind"] not in OPERATORS | {"Namespace"}:
            api.create(each, dry_run=True)


def test_the_server_accepts_every_combination_of_values_and_names_of_digits(administrator: Api) -> None:
    known = {NAMESPACE}
    for name, values in MATRIX.items():
        for release in RELEASES:
            try:
                create_all(administrator, render_chart(values, release), known)
            except Refused as refused:
                pytest.fail(f"{name}, {release}: {refused}")


def test_an_upgrade_is_accepted_and_one_from_ordered_pods_only_after_the_set_was_removed(
    administrator: Api,
) -> None:
    """A set of an earlier chart cannot be changed to replace pods that are not ready; the README says how."""
    stateful = render_chart({})["StatefulSet"]
    earlier = deepcopy(stateful)
    earlier["spec"]["serviceName"] = "demo-tideline"
    del earlier["spec"]["podManagementPolicy"]
    administrator.create(earlier)
    with pytest.raises(Refused) as refused:
        administrator.replace(stateful)
    assert refused.value.status == INVALID
    administrator.delete("StatefulSet", "demo-tideline")
    administrator.create(stateful)
    changed = render_chart({"config": {"logs": {"level": "debug"}}})["StatefulSet"]
    for each in (changed, stateful):  # upgrade and rollback
        administrator.replace(each)
