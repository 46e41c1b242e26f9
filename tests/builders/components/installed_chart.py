"""The chart on an API server, as a user installs it, and what its account did there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.builders.components.chart import NAMESPACE, RELEASE, render_chart


if TYPE_CHECKING:
    from dev.stack.servers.kubernetes import ApiServer
    from tests.builders.components.kubernetes_api import Api


IMAGE = "registry.example.org/tideline:0.1.0-flat"
ACCOUNT = f"{RELEASE}-tideline"
VALUES = {
    "image": {"repository": "registry.example.org/tideline", "tag": "0.1.0-flat"},
    "spark": {"executors": True},
    "networkPolicy": {"enabled": True},
}
FORBIDDEN = 403


def install(api: Api, values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Create all objects of the chart, each after a trial on the server."""
    objects = render_chart(values)
    del objects["Test"]
    for each in objects.values():
        assert api.create(each, dry_run=True)["metadata"]["namespace"] == NAMESPACE
        api.create(each)
    return objects


def create_daemons_pod(api: Api, objects: dict[str, dict[str, Any]]) -> str:
    """Create the pod of the stateful set, as its controller does, and report that it runs; return its
    name."""
    name = f"{ACCOUNT}-0"
    template = objects["StatefulSet"]["spec"]["template"]
    claim = {"name": "state", "persistentVolumeClaim": {"claimName": f"state-{name}"}}
    spec = template["spec"] | {"volumes": [*template["spec"]["volumes"], claim]}
    api.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"] | {"name": name}, "spec": spec}
    )
    ready = [{"type": "Ready", "status": "True"}]
    api.set_status("Pod", name, {"phase": "Running", "podIP": "127.0.0.1", "conditions": ready})
    return name


def names_of_executors(api: Api) -> set[str]:
    """Return the names of all executor pods."""
    return {pod["metadata"]["name"] for pod in api.items("Pod", "spark-role=executor")}


def configuration_maps(api: Api) -> set[str]:
    """Return the names of the configuration maps of executors."""
    return {each["metadata"]["name"] for each in api.items("ConfigMap", "spark-role=executor")}


def requests_of_account(server: ApiServer) -> tuple[set[tuple[str, str]], list[str]]:
    """Return the verbs and resources that the account used, and its refused requests."""
    used, refused = set(), []
    for line in server.audit.read_text().splitlines():
        event = json.loads(line)
        if event["user"]["username"] == f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}":
            used.add((event["verb"], event["objectRef"]["resource"]))
            if event["responseStatus"]["code"] == FORBIDDEN:
                refused.append(line)
    return used, refused
