"""The chart on a real API server, and a flat table whose executors are pods of it.

No kubelet runs here: ``PodRunner`` starts the container of each pod as a process of this machine and reports it. Everything else is
real: Spark creates, watches and deletes the pods with the token of the chart's service account, the server authorizes each request by the
chart's role, and the executors split a topic into a table.
"""

from __future__ import annotations

import json
import socket
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from daemon.process.children.child import Child
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database
from tests.builders.components.chart import NAMESPACE, RELEASE, render_chart
from tests.builders.components.kubernetes_api import Refused
from tests.builders.components.pod_runner import PodRunner
from tests.builders.components.spark_cluster import EXECUTORS, use_spark_of_image
from tests.builders.daemon.loops import eventually
from tests.builders.flat.configured_table import DEADLINE_S, ConfiguredTable, has_caught_up, listen
from tests.builders.flat.feeds import TopicFeed


if TYPE_CHECKING:
    from dev.stack.endpoints import ClusterEndpoints
    from dev.stack.servers.kubernetes import ApiServer
    from tests.builders.components.kubernetes_api import Api

IMAGE = "registry.example.org/tideline:0.1.0-flat"
ACCOUNT = f"{RELEASE}-tideline"
VALUES = {
    "image": {"repository": "registry.example.org/tideline", "tag": "0.1.0-flat"},
    "flat": {"executors": True},
    "networkPolicy": {"enabled": True},
}
FORBIDDEN = 403
ROWS = 1_000


def install(api: Api, values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Create all objects of the chart, each after a trial on the server."""
    objects = render_chart(values)
    del objects["Test"]
    for each in objects.values():
        assert api.create(each, dry_run=True)["metadata"]["namespace"] == NAMESPACE
        api.create(each)
    return objects


def create_daemons_pod(api: Api, objects: dict[str, dict[str, Any]]) -> str:
    """Create the pod of the stateful set, as its controller does, and report that it runs; return its name."""
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


@pytest.fixture
def table(  # noqa: PLR0913, PLR0917 - fixtures
    source: ClusterEndpoints,
    database: str,
    kafka: str,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> ConfiguredTable:
    use_spark_of_image(tmp_path / "packages", monkeypatch)
    with closing(Metastore(source.metastore)) as metastore:
        metastore.create_database(Database(name=database))
    base = Path(source.external) / database
    (tmp_path / "daemon").mkdir()
    feed = TopicFeed(kafka, topic, records=2 * ROWS)
    return ConfiguredTable(
        base, database, source.metastore, source.sql, feed=feed, directory=tmp_path / "daemon"
    )


@pytest.mark.parametrize("with_executors", [True, False])
def test_the_charts_account_may_run_executors_in_its_namespace_and_nothing_else(
    administrator: Api,
    with_executors: bool,  # noqa: FBT001 - pytest's
) -> None:
    install(administrator, VALUES | {"flat": {"executors": with_executors}})
    account = administrator.as_service_account(ACCOUNT)
    other = "kube-system"
    paths = {
        f"api/v1/namespaces/{NAMESPACE}/pods": with_executors,
        f"api/v1/namespaces/{NAMESPACE}/configmaps": with_executors,
        f"api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims": with_executors,
        f"api/v1/namespaces/{NAMESPACE}/secrets": False,
        f"api/v1/namespaces/{NAMESPACE}/serviceaccounts": False,
        f"apis/apps/v1/namespaces/{NAMESPACE}/statefulsets": False,
        f"apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles": False,
        f"api/v1/namespaces/{other}/pods": False,
        "api/v1/pods": False,
        "api/v1/nodes": False,
    }
    assert {path: is_allowed(account, path) for path in paths} == paths


def is_allowed(api: Api, path: str) -> bool:
    """Whether the server answers a request for a list."""
    try:
        api.get(path)
    except Refused as refused:
        if refused.status != FORBIDDEN:
            raise
        return False
    return True


def test_executors_are_pods_and_a_killed_one_is_replaced_without_loss_or_duplicates(
    administrator: Api, api_server: ApiServer, table: ConfiguredTable, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    table.spark = {"master": f"k8s://{api_server.url}", **EXECUTORS}
    table.conf = {
        "spark.kubernetes.container.image": IMAGE,
        "spark.kubernetes.namespace": NAMESPACE,
        "spark.kubernetes.driver.pod.name": f"{ACCOUNT}-0",
        "spark.kubernetes.authenticate.oauthTokenFile": str(token),
        "spark.kubernetes.authenticate.caCertFile": str(api_server.authority),
        "spark.kubernetes.executor.missingPodDetectDelta": "5m",
    }
    objects = install(administrator, VALUES | {"config": table.configuration()})
    name = create_daemons_pod(administrator, objects)
    token.write_text(administrator.as_service_account(ACCOUNT).token)

    table.land(range(2), lambda n: n % 100, count=ROWS)
    with PodRunner(administrator, tmp_path / "pods") as runner:
        with Child(table.command("run")) as driver:
            listen(driver, has_caught_up)
            eventually(lambda: len(runner.running()) == 2, DEADLINE_S)
            check_pods(runner, administrator.read("Pod", name)["metadata"]["uid"])
            runner.kill(runner.running()[0])
            table.land(range(2, 4), lambda n: 10**5 * n, count=ROWS)
            listen(driver, has_caught_up)
            eventually(lambda: len(runner.running()) == 2, DEADLINE_S)
            assert len(runner.pods) == 3
        table.finished = table.check()
        assert table.finished == set(table.events) | table.lost
        eventually(lambda: runner.running() == [], DEADLINE_S)
        assert len(names_of_executors(administrator)) == 2, "pods of a killed driver end and stay"
        assert len(configuration_maps(administrator)) == 1
        table.land(range(4, 5), lambda n: f"x{n}")
        table.ends_well()
        assert names_of_executors(administrator) == set(), (
            "the next driver removes them, and its own at its end"
        )
        assert configuration_maps(administrator) == set()
    used, refused = requests_of_account(api_server)
    (rule,) = objects["Role"]["rules"]
    assert refused == []
    assert used <= {(verb, resource) for verb in rule["verbs"] for resource in rule["resources"]}


def names_of_executors(api: Api) -> set[str]:
    """Return the names of all executor pods."""
    return {pod["metadata"]["name"] for pod in api.items("Pod", "spark-role=executor")}


def configuration_maps(api: Api) -> set[str]:
    """Return the names of the configuration maps of executors."""
    return {each["metadata"]["name"] for each in api.items("ConfigMap", "spark-role=executor")}


def check_pods(runner: PodRunner, owner: str) -> None:
    """Check that the pods are as configured, that the pod of the daemon owns them, and that they name their table."""
    for pod in runner.pods.values():
        (container,) = pod["spec"]["containers"]
        assert (container["image"], container["args"]) == (IMAGE, ["executor"])
        assert container["resources"]["limits"]["memory"] == "1408Mi"
        assert container["resources"]["requests"] == {"cpu": "1", "memory": "1408Mi"}
        assert [each["uid"] for each in pod["metadata"]["ownerReferences"]] == [owner]
        assert len(pod["metadata"]["labels"]["tideline-table"]) == 16
        environment = {each["name"]: each.get("value") for each in container["env"]}
        here = socket.gethostbyname(socket.gethostname())  # in a pod, its address
        assert str(environment["SPARK_DRIVER_URL"]).startswith(f"spark://CoarseGrainedScheduler@{here}:")


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
