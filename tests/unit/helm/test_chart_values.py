"""Every combination of values that the chart accepts is valid, and what is misspelt is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import helm_python
import kubernetes_validate
import pytest
import yaml

from streaming.driver import masters
from tests.builders.components.chart import render_chart
from tests.builders.components.chart_values import FLAT, MATRIX, PEER, RELEASES, SOURCE, Values
from tests.unit.helm.conftest import CHART


OPERATORS = {"ServiceMonitor", "PrometheusRule"}
ROOT = CHART.parents[1]
EXECUTORS: Values = {"config": FLAT, "spark": {"executors": True}}


def texts(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the names and values of all labels, annotations, selectors and names below."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key in {"labels", "annotations", "matchLabels", "nodeSelector", "selector"} and isinstance(
                each, dict
            ):
                yield from ((name, text) for name, text in each.items() if not isinstance(text, dict))
            if key in {"name", "namespace", "serviceName", "storageClassName", "priorityClassName"}:
                yield key, each
            yield from texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)


@pytest.mark.parametrize("version", ["1.29", "1.37"])
@pytest.mark.parametrize("name", MATRIX)
def test_every_combination_of_values_is_valid_kubernetes(name: str, version: str) -> None:
    for kind, each in render_chart(MATRIX[name]).items():
        if kind not in OPERATORS:
            kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize("name", MATRIX)
def test_every_combination_of_values_is_linted_without_a_finding(name: str) -> None:
    assert helm_python.lint(str(CHART), MATRIX[name], strict=True)["errors"] == []


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", MATRIX)
def test_names_and_labels_are_texts_also_if_they_consist_of_digits(name: str, release: str) -> None:
    for kind, each in render_chart(MATRIX[name], release).items():
        assert [pair for pair in texts(each) if not isinstance(pair[1], str)] == [], kind
        if kind.startswith("Service"):
            assert re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", each["metadata"]["name"]), kind


@pytest.mark.parametrize(
    ("config", "misspelt"),
    [
        ({"polices": {}}, "polices"),
        ({"policies": {"shop": {"source": "lake", "target": "dr", "databse": "shop"}}}, "databse"),
        ({"sources": {"lake": {**SOURCE["sources"]["lake"], "topik": "x"}}}, "topik"),
        ({"flat": {"events": {**FLAT["flat"]["events"], "sealing": {"file_byts": 1}}}}, "file_byts"),
        ({"http": {"port": "many"}}, "port"),
        ({"http": {"port": 70_000}}, "port"),
        ({"logs": {"level": "loud"}}, "level"),
    ],
)
def test_a_misspelt_setting_of_the_daemon_fails_before_anything_is_installed(
    config: Values, misspelt: str
) -> None:
    with pytest.raises(helm_python.HelmValuesError, match=misspelt):
        render_chart({"config": config})
    report = helm_python.lint(str(CHART), {"config": config}, strict=True)
    assert any(misspelt in error for error in report["errors"]), report["errors"]


def examples() -> Iterator[tuple[str, Values]]:
    """Yield the configurations in the documentation."""
    known = set(
        yaml.safe_load((CHART / "values.schema.json").read_text())["definitions"]["config.Config"][
            "properties"
        ]
    )
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), CHART / "README.md"):
        for block in re.findall(r"(?ms)^```yaml\n(.*?)^```", page.read_text()):
            found = yaml.safe_load(block)
            config = found.get("config", found) if isinstance(found, dict) else None
            if isinstance(config, dict) and set(config) <= known:
                yield page.name, config


def test_every_example_of_the_documentation_is_accepted() -> None:
    found = list(examples())
    assert len(found) > 20
    for page, config in found:
        helm_python.Chart.load(str(CHART)).render(
            {"config": config, "networkPolicy": {"clients": [PEER]}}, name="demo", namespace="prod"
        )
        assert page


def test_a_list_may_be_a_text_with_commas_and_anything_may_come_from_the_environment() -> None:
    render_chart({"config": {"sources": {"lake": {"metastore": "thrift://a:9083,thrift://b:9083"}}}})


def test_a_revision_replaces_a_pod_that_is_not_ready() -> None:
    objects = render_chart({})
    stateful = objects["StatefulSet"]["spec"]
    headless = objects[f"Service/{stateful['serviceName']}"]
    assert stateful["podManagementPolicy"] == "Parallel"
    assert headless["spec"]["clusterIP"] == "None"
    assert headless["spec"]["publishNotReadyAddresses"] is True
    assert headless["spec"]["selector"].items() <= stateful["template"]["metadata"]["labels"].items()


def test_metrics_are_scraped_once_although_there_are_two_services() -> None:
    objects = render_chart({"serviceMonitor": {"enabled": True}})
    selector = objects["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
    services = [each for each in objects.values() if each["kind"] == "Service"]
    assert len(services) == 2
    assert sum(selector.items() <= each["metadata"]["labels"].items() for each in services) == 1


@pytest.mark.parametrize(("given", "expected"), [("", None), ("-", ""), ("fast", "fast"), ("1", "1")])
def test_a_dash_means_no_storage_class(given: str, expected: str | None) -> None:
    objects = render_chart({"persistence": {"storageClass": given}})
    (claim,) = objects["StatefulSet"]["spec"]["volumeClaimTemplates"]
    assert claim["spec"].get("storageClassName") == expected


def test_who_may_connect_to_endpoints_is_said_explicitly() -> None:
    config = MATRIX["endpoints"]["config"]
    with pytest.raises(helm_python.HelmError, match=r"networkPolicy\.clients must name"):
        render_chart({"config": config})
    rendered = render_chart({"config": config, "networkPolicy": {"clients": [PEER]}})
    assert rendered["NetworkPolicy"]["spec"]["ingress"][1]["from"] == [PEER]
    assert "NetworkPolicy" not in render_chart({"config": config, "networkPolicy": {"enabled": False}})


def test_an_ingress_needs_a_host() -> None:
    with pytest.raises(helm_python.HelmError, match=r"ingress\.host is required"):
        render_chart({"ingress": {"enabled": True}})
    (rule,) = render_chart(MATRIX["ingress"])["Ingress"]["spec"]["rules"]
    assert rule["http"]["paths"][0]["backend"]["service"] == {
        "name": "demo-tideline",
        "port": {"name": "http"},
    }


def test_containers_of_the_user_run_before_and_beside_the_daemon() -> None:
    spec = render_chart(MATRIX["containers"])["StatefulSet"]["spec"]["template"]["spec"]
    assert [each["name"] for each in spec["initContainers"]] == ["first", "proxy"]
    assert [each["name"] for each in spec["containers"]] == ["tideline", "agent"]


def test_executors_run_in_a_namespace_without_the_daemons_secrets() -> None:
    objects = render_chart(EXECUTORS)
    names = {objects[kind]["metadata"]["namespace"] for kind in ("Role", "RoleBinding")}
    assert names == {objects["Namespace"]["metadata"]["name"]} == {"prod-demo-tideline-executors"}
    assert objects["RoleBinding"]["subjects"][0]["namespace"] == "prod"
    with pytest.raises(helm_python.HelmError, match="must not be the namespace of the release"):
        render_chart({"spark": {"executors": True, "namespace": "prod"}})
    elsewhere = render_chart(MATRIX["executors elsewhere"])
    assert "Namespace" not in elsewhere
    assert elsewhere["Role"]["metadata"]["namespace"] == "spark"


def test_the_namespace_of_executors_has_a_possible_name_of_its_own() -> None:
    names = set()
    for override in ("a" * 52, "a" * 51 + "b"):
        objects = render_chart({"spark": {"executors": True}, "fullnameOverride": override})
        names.add(objects["Namespace"]["metadata"]["name"])
    assert len(names) == 2
    assert all(len(name) <= 63 for name in names)


def test_pods_of_executors_are_restricted_and_belong_to_their_release() -> None:
    objects = render_chart(EXECUTORS)
    template = yaml.safe_load(objects["ConfigMap"]["data"]["executor.yaml"])
    kubernetes_validate.validate(template, "1.37", strict=True)
    assert template["spec"]["automountServiceAccountToken"] is False
    assert template["spec"]["securityContext"]["runAsNonRoot"] is True
    (container,) = template["spec"]["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert objects["Namespace"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_policies_let_only_the_executors_of_the_release_reach_its_drivers() -> None:
    objects = render_chart(EXECUTORS)
    labels = yaml.safe_load(objects["ConfigMap"]["data"]["executor.yaml"])["metadata"]["labels"].items()
    rule = objects["NetworkPolicy"]["spec"]["ingress"][1]
    (peer,) = rule["from"]
    assert peer["podSelector"]["matchLabels"].items() <= labels
    assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/instance"] == "demo"
    assert peer["namespaceSelector"]["matchLabels"] == {
        "kubernetes.io/metadata.name": objects["Namespace"]["metadata"]["name"]
    }
    assert rule["ports"] == [
        {"port": first, "endPort": first + masters.PORTS - 1, "protocol": "TCP"}
        for first in (masters.DRIVER_PORT, masters.BLOCKS_PORT)
    ]
    assert "spark-role" not in str(objects)
    theirs = objects["NetworkPolicy/demo-tideline-executors"]["spec"]
    assert theirs["podSelector"]["matchLabels"].items() <= labels
    daemon = objects["StatefulSet"]["spec"]["template"]["metadata"]["labels"].items()
    executors, drivers = theirs["ingress"][0]["from"]
    assert executors["podSelector"]["matchLabels"].items() <= labels
    assert drivers["podSelector"]["matchLabels"].items() <= daemon
    assert drivers["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "prod"}


def test_what_the_user_says_of_executors_wins() -> None:
    config: Values = {"flat": {"events": {**FLAT["flat"]["events"]}}}
    config["flat"]["events"]["spark"] = {
        "master": "k8s://https://kubernetes.default.svc",
        "conf": {"spark.kubernetes.container.image": "mine:1"},
    }
    objects = render_chart({"config": config, "spark": {"executors": True}})
    written = yaml.safe_load(objects["ConfigMap"]["data"]["tideline.yaml"])["flat"]["events"]["spark"]["conf"]
    assert written["spark.kubernetes.container.image"] == "mine:1"
    assert written["spark.kubernetes.executor.podTemplateFile"] == "/etc/tideline/executor.yaml"
