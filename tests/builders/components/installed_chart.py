"""The chart on an API server, as a user installs it, and what its account did there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dev.stack.servers.kubernetes import ApiServer
from tests.builders.components.chart import NAMESPACE, RELEASE, render_chart
from tests.builders.components.kubernetes_api import Api


IMAGE = "registry.example.org/tideline:0.1.0-flat"
EXECUTORS = f"{NAMESPACE}-{RELEASE}-tideline-executors"
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
    if namespace := objects.pop("Namespace", None):
        api.create(namespace)
        account = {"name": "default", "namespace": namespace["metadata"]["name"]}
        api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    for each in objects.values():
        assert api.create(each, dry_run=True)["metadata"]["namespace"] == each["metadata"]["namespace"]
        api.create(each)
    return objects


def of_executors(api: Api) -> Api:
    """Return the API for the namespace of the executors."""
    return api.in_namespace(EXECUTORS)


def settings_of_executors(objects: dict[str, dict[str, Any]], directory: Path) -> dict[str, str]:
    """Return the settings of Spark that the chart adds, with its template of pods in the directory."""
    template = directory / "executor.yaml"
    template.write_text(objects["ConfigMap"]["data"]["executor.yaml"])
    return {
        "spark.kubernetes.namespace": EXECUTORS,
        "spark.kubernetes.container.image": IMAGE,
        "spark.kubernetes.executor.podTemplateFile": str(template),
    }


def check_pod(pod: Mapping[str, Any]) -> None:
    """Check that an executor's pod is as the chart wants it: nothing owns it, because its owner would be in
    another namespace; it is restricted, and has the labels that the network policies name."""
    (container,) = pod["spec"]["containers"]
    assert (container["image"], container["args"]) == (IMAGE, ["executor"])
    assert "ownerReferences" not in pod["metadata"]
    assert pod["metadata"]["namespace"] == EXECUTORS
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert {
        "app.kubernetes.io/instance": RELEASE,
        "app.kubernetes.io/component": "executor",
    }.items() <= pod["metadata"]["labels"].items()
    environment = {each["name"]: each.get("value") for each in container["env"]}
    assert environment["_SPARK_AUTH_SECRET"], "the driver and its executors authenticate each other"
    assert not any("secret" in word.lower() for word in container["args"])


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
    """Return the verbs and resources that the account used, and its refused requests.

    Without Spark's attempts to remove everything of an application by one request, a right that the account
    does not have and whose lack Spark only logs.
    """
    used, refused = set(), []
    for line in server.audit.read_text().splitlines():
        event = json.loads(line)
        if event["user"]["username"] == f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}":
            if event["verb"] == "deletecollection" and event["responseStatus"]["code"] == FORBIDDEN:
                continue
            used.add((event["verb"], event["objectRef"]["resource"]))
            if event["responseStatus"]["code"] == FORBIDDEN:
                refused.append(line)
    return used, refused
