from __future__ import annotations

import json
import re
from base64 import b64decode
from copy import deepcopy
from pathlib import Path
from typing import Any

import helm_python
import kubernetes_validate
import pytest
import yaml

from daemon.endpoint.answers.table_access import Reason
from daemon.endpoint.configured.loop import loop_name
from daemon.flat import settings
from daemon.process.loops.loop import LoopState
from daemon.service.configuration import load_config
from tests.builders.page_anchors import page_anchors
from tests.unit.helm.conftest import CHART, Render, Values


KUBERNETES_VERSIONS = ("1.29", "1.37")
EVERYTHING: Values = {
    "config": {
        "sources": {
            "lake": {
                "metastore": ["thrift://source:9083"],
                "topic": "tideline.lake",
                "read_roots": ["hdfs://s/w"],
            }
        },
        "targets": {"dr": {"metastore": ["thrift://target:9083"]}},
        "policies": {"shop": {"source": "lake", "target": "dr", "database": "shop"}},
        "kafka": {"bootstrap": "kafka:9092"},
        "supervisor": {"drain_s": 40.5},
        "http": {"port": 9000},
    },
    "commonLabels": {"team": "lake"},
    "podLabels": {"colour": "blue"},
    "podAnnotations": {"note": "x"},
    "env": [{"name": "TZ", "value": "UTC"}],
    "envFrom": [{"secretRef": {"name": "tideline-kafka"}}],
    "imagePullSecrets": [{"name": "registry"}],
    "extraVolumes": [{"name": "keytab", "secret": {"secretName": "keytab"}}],
    "extraVolumeMounts": [{"name": "keytab", "mountPath": "/run/keytab", "readOnly": True}],
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
    "initContainers": [
        {"name": "wait", "image": "busybox:1", "command": ["true"], "restartPolicy": "Always"}
    ],
    "sidecars": [{"name": "agent", "image": "agent:1"}],
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "host": "tideline.example.org",
        "annotations": {"a": "b"},
        "tls": [{"hosts": ["tideline.example.org"], "secretName": "tls"}],
    },
    "priorityClassName": "high",
    "persistence": {"storageClass": "fast"},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}, "relayLagSeconds": 90},
    "networkPolicy": {
        "enabled": True,
        "from": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        "egress": [{"ports": [{"port": 9092, "protocol": "TCP"}]}],
    },
}
FLAT: Values = {
    "config": {
        "flat": {
            "events": {
                "table": "web.events_flat",
                "raw_table": "web.events",
                "metastore": ["thrift://target:9083"],
                "location": "s3a://lake/web/events_flat",
                "source": {"kind": "kafka", "topic": "web.events", "bootstrap": "kafka:9092"},
                "event_time": {"key": "epoch"},
                "spark": {"master": "k8s://https://kubernetes.default.svc"},
            }
        }
    },
    "networkPolicy": {"enabled": True},
}
OPERATORS = {"ServiceMonitor", "PrometheusRule"}
EXECUTORS = "prod-demo-tideline-executors"
BOTH = pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])


def pod(objects: dict[str, dict[str, Any]]) -> Any:
    return objects["StatefulSet"]["spec"]["template"]["spec"]


@BOTH
def test_the_chart_is_linted_without_a_finding(values: Values) -> None:
    report = helm_python.lint(str(CHART), values, strict=True)
    findings = [each for each in report["messages"] if "icon is recommended" not in each["error"]]
    assert (findings, report["errors"]) == ([], [])


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
@BOTH
def test_every_object_is_valid_kubernetes(render: Render, values: Values, version: str) -> None:
    objects = render(values)
    assert {"ConfigMap", "StatefulSet", "Service", "ServiceAccount", "PodDisruptionBudget", "Test"} <= set(
        objects
    )
    for kind, each in objects.items():
        if kind not in OPERATORS:  # not types of Kubernetes itself: their schemas are the operator's
            kubernetes_validate.validate(each, version, strict=True)


@BOTH
def test_every_object_carries_the_common_labels_and_the_namespace(render: Render, values: Values) -> None:
    for kind, each in render(values).items():
        labels = each["metadata"]["labels"]
        assert {"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component"} <= set(
            labels
        )
        assert each["metadata"]["namespace"] == "prod"
        if kind != "Test":
            assert {f"app.kubernetes.io/{name}" for name in ("version", "part-of", "managed-by")} <= set(
                labels
            )
            assert labels["helm.sh/chart"] == "tideline-0.1.0"
            assert all(labels[name] == value for name, value in values.get("commonLabels", {}).items())


@BOTH
def test_selectors_meet_the_daemon_and_not_the_test_pod(render: Render, values: Values) -> None:
    objects = render(values)
    labels = objects["StatefulSet"]["spec"]["template"]["metadata"]["labels"].items()
    selectors = [
        objects["StatefulSet"]["spec"]["selector"]["matchLabels"],
        objects["Service"]["spec"]["selector"],
        objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
    ]
    if "NetworkPolicy" in objects:
        selectors.append(objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"])
    for selector in selectors:
        assert selector.items() <= labels
        assert not selector.items() <= objects["Test"]["metadata"]["labels"].items()


@BOTH
def test_pods_are_locked_down(render: Render, values: Values) -> None:
    objects = render(values)
    for spec in (pod(objects), objects["Test"]["spec"]):
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] == 10001
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"][:1]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert "memory" in container["resources"]["limits"]
            assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert not any("hostPath" in volume for volume in spec.get("volumes", []))
        assert not spec.get("hostNetwork")


@BOTH
def test_the_config_map_is_a_configuration_that_the_daemon_accepts(
    render: Render, values: Values, tmp_path: Path
) -> None:
    objects = render(values)
    path = tmp_path / "tideline.yaml"
    path.write_text(objects["ConfigMap"]["data"]["tideline.yaml"])
    config = load_config(path, {})
    container = pod(objects)["containers"][0]
    assert config.http.host == "0.0.0.0"  # noqa: S104 - inside a pod
    assert container["ports"] == [
        {"name": "http", "containerPort": config.http.port},
        {"name": "probes", "containerPort": config.http.probes_port},
    ]
    assert {each.file.parent.as_posix() for each in config.http.tokens.values()} == {
        mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "tokens"
    }
    assert {each.file.name for each in config.http.tokens.values()} == set(objects["Secret"]["data"])
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts["state"] == str(config.state.dir)
    assert container["args"] == ["run", "--config", f"{mounts['config']}/tideline.yaml"]
    assert pod(objects)["terminationGracePeriodSeconds"] > config.supervisor.drain_s + 5


def test_flat_tables_get_scratch_space_and_only_executors_get_rights(render: Render, tmp_path: Path) -> None:
    plain, flat = render({}), render(FLAT)
    volumes = {volume["name"]: volume for volume in pod(flat)["volumes"]}
    assert volumes["tmp"]["emptyDir"] == {"sizeLimit": "10Gi"}
    assert {volume["name"]: volume for volume in pod(plain)["volumes"]}["tmp"]["emptyDir"] == {}
    assert {"Role", "RoleBinding"}.isdisjoint(flat)
    assert pod(flat)["automountServiceAccountToken"] is False

    executors = render({**FLAT, "spark": {"executors": True}})
    assert pod(executors)["automountServiceAccountToken"] is True
    (rule,) = executors["Role"]["rules"]
    assert rule["apiGroups"] == [""]
    assert set(rule["resources"]) == {"pods", "configmaps"}
    assert "deletecollection" not in rule["verbs"]
    (subject,) = executors["RoleBinding"]["subjects"]
    assert subject["name"] == executors["ServiceAccount"]["metadata"]["name"]
    assert len(executors["NetworkPolicy"]["spec"]["ingress"]) == 2
    for kind, each in executors.items():
        if kind != "Test":
            kubernetes_validate.validate(each, KUBERNETES_VERSIONS[0], strict=True)
    path = tmp_path / "tideline.yaml"
    path.write_text(executors["ConfigMap"]["data"]["tideline.yaml"])
    table = settings.FLAT.of(load_config(path, {}))["events"]
    assert table.is_written
    assert table.spark.conf["spark.kubernetes.namespace"] == EXECUTORS
    report = helm_python.lint(str(CHART), {**FLAT, "spark": {"executors": True}}, strict=True)
    assert report["errors"] == []


def test_copy_jobs_get_executors_like_flat_tables(render: Render, tmp_path: Path) -> None:
    config = deepcopy(EVERYTHING["config"])
    conf = {"spark.kubernetes.container.image": "tideline:0.1.0-flat"}
    master = "k8s://https://kubernetes.default.svc"
    config["policies"]["shop"]["copy_jobs"] = {"spark": {"master": master, "executors": 4, "conf": conf}}
    objects = render({"config": config, "spark": {"executors": True}, "networkPolicy": {"enabled": True}})
    assert pod(objects)["automountServiceAccountToken"] is True
    assert objects["Role"]["metadata"]["namespace"] == EXECUTORS
    path = tmp_path / "tideline.yaml"
    path.write_text(objects["ConfigMap"]["data"]["tideline.yaml"])
    jobs = load_config(path, {}).policies["shop"].copy_jobs
    assert jobs is not None
    assert jobs.spark.value().conf == conf | {
        "spark.executor.instances": "4",
        "spark.kubernetes.namespace": EXECUTORS,
        "spark.kubernetes.executor.podTemplateFile": "/etc/tideline/executor.yaml",
    }


def test_clients_reach_the_metastore_endpoints_that_the_daemon_runs(render: Render, tmp_path: Path) -> None:
    config = {
        **EVERYTHING["config"],
        "sources": {
            name: {"metastore": [f"thrift://{name}:9083"], "topic": f"tideline.{name}", "read_roots": []}
            for name in ("lake", "pond", "sea")
        },
        "policies": {},
        "catalog": {name: {"partitions": {"tables": ["*.*"]}} for name in ("lake", "pond", "sea")},
        "serve": {
            "lake": {},
            "pond": {"listen": "0.0.0.0:9084"},
            "sea": {"listen": "0.0.0.0:9085", "run": False},
        },
    }
    clients = [{"podSelector": {"matchLabels": {"app": "spark"}}}]
    values: Values = {"config": config, "networkPolicy": {"enabled": True, "clients": clients}}
    objects = render(values)
    for kind in ("StatefulSet", "Service", "NetworkPolicy"):
        kubernetes_validate.validate(objects[kind], KUBERNETES_VERSIONS[0], strict=True)
    ports = {each["name"]: each["containerPort"] for each in pod(objects)["containers"][0]["ports"]}
    assert ports == {"http": 9000, "probes": 8471, "metastore-0": 9083, "metastore-1": 9084}
    services = {each["name"]: each["port"] for each in objects["Service"]["spec"]["ports"]}
    assert services == {"http": 8470, "probes": 8471, "metastore-0": 9083, "metastore-1": 9084}
    rule = objects["NetworkPolicy"]["spec"]["ingress"][1]
    assert [each["port"] for each in rule["ports"]] == ["metastore-0", "metastore-1"]
    assert rule["from"] == clients
    path = tmp_path / "tideline.yaml"
    path.write_text(objects["ConfigMap"]["data"]["tideline.yaml"])
    assert load_config(path, {}).http.port == 9000
    assert yaml.safe_load(path.read_text())["serve"]["lake"] == {"listen": "0.0.0.0:9083"}


def test_what_the_user_sets_wins_over_what_the_chart_adds(render: Render) -> None:
    objects = render({"config": {"state": {"dir": "/data"}, "http": {"host": "127.0.0.1"}}})
    written = yaml.safe_load(objects["ConfigMap"]["data"]["tideline.yaml"])
    assert written["state"] == {"dir": "/data"}
    assert written["http"]["host"] == "127.0.0.1"
    assert written["http"]["port"] == 8470


def test_the_tokens_are_secrets_that_nobody_can_guess_and_may_be_those_of_the_user(render: Render) -> None:
    first, second = render({})["Secret"], render({})["Secret"]
    tokens = [b64decode(token) for each in (first, second) for token in each["data"].values()]
    assert len(set(tokens)) == 4
    assert {len(token) for token in tokens} == {48}
    own = render({"httpTokens": {"existingSecret": "mine"}})
    assert "Secret" not in own
    volumes = {volume["name"]: volume for volume in pod(own)["volumes"]}
    assert volumes["tokens"]["secret"] == {"secretName": "mine"}
    (variable,) = own["Test"]["spec"]["containers"][0]["env"]
    assert variable["valueFrom"]["secretKeyRef"] == {"name": "mine", "key": "view"}


@BOTH
def test_probes_ask_for_heartbeats_and_never_for_freshness(render: Render, values: Values) -> None:
    """A pod that lags, perhaps for what an upgrade corrects, must not hold up that upgrade."""
    container = pod(render(values))["containers"][0]
    asked = {name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert asked == {
        "startupProbe": {"path": "/livez", "port": "probes"},
        "livenessProbe": {"path": "/livez", "port": "probes"},
        "readinessProbe": {"path": "/livez", "port": "probes"},
    }
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 600


def test_there_is_one_pod_with_one_volume_that_no_other_pod_can_mount(render: Render) -> None:
    objects = render({})
    stateful = objects["StatefulSet"]["spec"]
    assert stateful["replicas"] == 1
    (claim,) = stateful["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    assert stateful["persistentVolumeClaimRetentionPolicy"] == {
        "whenDeleted": "Retain",
        "whenScaled": "Retain",
    }
    assert objects["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1


def test_several_daemons_know_their_number_and_only_the_first_one_serves(render: Render) -> None:
    objects = render({"replicas": 3, "serviceMonitor": {"enabled": True}})
    config = yaml.safe_load(objects["ConfigMap"]["data"]["tideline.yaml"])
    assert config["daemons"] == {"count": 3}
    (container,) = pod(objects)["containers"]
    (ordinal,) = container["env"]
    assert ordinal["name"] == "TIDELINE__DAEMONS__ORDINAL"
    assert "pod-index" in ordinal["valueFrom"]["fieldRef"]["fieldPath"]
    selected = objects["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
    assert selected["app.kubernetes.io/component"] == "headless"


def test_a_changed_configuration_restarts_the_pod_and_nothing_else_does(render: Render) -> None:
    def checksum(values: Values) -> str:
        return str(
            render(values)["StatefulSet"]["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
        )

    assert checksum({}) == checksum({"service": {"port": 80}})
    assert checksum({}) != checksum({"config": {"logs": {"level": "debug"}}})


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({}, "tideline:0.1.0"),
        ({"repository": "r.example/t", "tag": "1.2"}, "r.example/t:1.2"),
        ({"tag": "1.2", "digest": f"sha256:{'a' * 64}"}, f"tideline@sha256:{'a' * 64}"),
    ],
)
def test_the_image_is_pinned(render: Render, image: dict[str, str], expected: str) -> None:
    objects = render({"image": image})
    for spec in (pod(objects), objects["Test"]["spec"]):
        assert [container["image"] for container in spec["containers"]] == [expected]


@pytest.mark.parametrize(
    "values",
    [
        {"replicas": 65},
        {"replica": 1},
        {"image": {"tag": "latest"}},
        {"image": {"digest": "sha256:abc"}},
        {"persistence": {"accessMode": "ReadWriteMany"}},
        {"podSecurityContext": {"runAsUser": 0}},
        {"service": {"port": 0}},
        {"config": ["x"]},
        {"terminationMarginSeconds": 0},
    ],
)
def test_values_that_would_break_a_promise_are_refused(render: Render, values: Values) -> None:
    with pytest.raises(helm_python.HelmValuesError):
        render(values)


def test_what_can_be_switched_off_is_off(render: Render) -> None:
    assert (OPERATORS | {"Ingress", "Namespace", "Role", "RoleBinding"}).isdisjoint(render({}))
    off = render(
        {
            "podDisruptionBudget": {"enabled": False},
            "serviceAccount": {"create": False, "name": "mine"},
            "networkPolicy": {"enabled": False},
        }
    )
    assert {"PodDisruptionBudget", "ServiceAccount", "NetworkPolicy"}.isdisjoint(off)
    assert pod(off)["serviceAccountName"] == "mine"


def test_the_service_monitor_finds_the_service(render: Render) -> None:
    objects = render(EVERYTHING)
    monitor = objects["ServiceMonitor"]
    assert (
        monitor["spec"]["selector"]["matchLabels"].items() <= objects["Service"]["metadata"]["labels"].items()
    )
    assert monitor["spec"]["endpoints"] == [{"port": "probes", "path": "/metrics", "interval": "15s"}]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert [port["name"] for port in objects["Service"]["spec"]["ports"]] == ["http", "probes"]


def test_the_alerts_name_metrics_and_runbooks_that_exist(render: Render) -> None:
    rule = render(EVERYTHING)["PrometheusRule"]
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    (group,) = rule["spec"]["groups"]
    docs = Path(__file__).parents[3] / "docs"
    listed = set(re.findall(r"^\| `(tideline_\w+)`", (docs / "METRICS.md").read_text(), re.MULTILINE))
    assert len({alert["alert"] for alert in group["rules"]}) == len(group["rules"])
    for alert in group["rules"]:
        assert set(re.findall(r"tideline_\w+", alert["expr"])) <= listed, alert["alert"]
        page, _, anchor = alert["annotations"]["runbook_url"].removeprefix("docs/").partition("#")
        assert anchor in page_anchors((docs / page).read_text()), alert["alert"]
        assert alert["labels"]["severity"] in {"warning", "critical"}
    assert any(alert["expr"] == "tideline_relay_lag_seconds > 90" for alert in group["rules"])


def test_alerts_of_the_endpoint_name_states_loops_and_reasons_that_exist(render: Render) -> None:
    rules = render(EVERYTHING)["PrometheusRule"]["spec"]["groups"][0]["rules"]
    found = {
        alert["alert"]: alert["expr"] for alert in rules if alert["alert"].startswith("TidelineEndpoint")
    }
    assert len(found) == 5
    text = " ".join(found.values())
    assert set(re.findall(r'state="([\w-]+)"', text)) <= set(LoopState)
    assert set(re.findall(r'reason!?="([\w-]+)"', text)) <= set(Reason)
    (pattern,) = re.findall(r'loop=~"([^"]+)"', text)
    assert re.fullmatch(pattern, loop_name("lake"))
    assert found["TidelineEndpointForwards"].endswith("> 0.5")


def test_the_network_policy_denies_what_it_does_not_name(render: Render) -> None:
    spec = render({})["NetworkPolicy"]["spec"]
    assert spec["policyTypes"] == ["Ingress"]
    assert all(rule.get("from") for rule in spec["ingress"])
    spec = render(EVERYTHING)["NetworkPolicy"]["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert len(spec["ingress"][0]["from"]) == 2
    assert [port["port"] for port in spec["egress"][0]["ports"]] == [53, 53]
    assert spec["egress"][1:] == [{"ports": [{"port": 9092, "protocol": "TCP"}]}]


def test_secrets_come_by_reference(render: Render) -> None:
    container = pod(render(EVERYTHING))["containers"][0]
    assert container["envFrom"] == [{"secretRef": {"name": "tideline-kafka"}}]
    assert {"name": "keytab", "mountPath": "/run/keytab", "readOnly": True} in container["volumeMounts"]


def test_every_value_has_a_default_a_schema_and_a_line_in_the_readme() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    readme = (CHART / "README.md").read_text()
    assert set(schema["properties"]) - {"global"} == set(values)
    table = "\n".join(line.partition(" | ")[0] for line in readme.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`([a-zA-Z]+)", table)) == set(values)


def test_long_names_stay_within_the_limits_of_kubernetes() -> None:
    with helm_python.Chart.load(str(CHART)) as chart:
        files = chart.render({"fullnameOverride": "n" * 80}, name="demo", namespace="prod")
    stateful = yaml.safe_load(files["tideline/templates/statefulset.yaml"])
    assert len(stateful["metadata"]["name"]) == 52


def test_the_charts_version_is_the_products() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    pyproject = (CHART.parents[1] / "pyproject.toml").read_text()
    assert f'version = "{chart["appVersion"]}"' in pyproject


def test_notes_say_what_to_do_next() -> None:
    with helm_python.Chart.load(str(CHART)) as chart:
        empty = chart.render({}, name="demo", namespace="prod")["tideline/templates/NOTES.txt"]
        full = chart.render(EVERYTHING, name="demo", namespace="prod")["tideline/templates/NOTES.txt"]
    assert "`config` is empty" in empty
    assert "is empty" not in full
    assert "Name Prometheus" in empty
    assert "Name Prometheus" not in full
    assert "kubectl -n prod exec demo-tideline-0 -- tideline status" in full
