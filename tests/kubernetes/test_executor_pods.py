"""The chart on a real API server, and a flat table whose executors are pods of it.

No kubelet runs here: ``PodRunner`` starts the container of each pod as a process of this machine and reports
it. Everything else is real: Spark creates, watches and deletes the pods with the token of the chart's service
account, the server authorizes each request by the chart's role, and the executors split a topic into a table.
"""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest

from daemon.process.child import Child
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.servers.kubernetes import ApiServer
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database
from tests.builders.components.chart import NAMESPACE
from tests.builders.components.installed_chart import (
    ACCOUNT,
    FORBIDDEN,
    VALUES,
    check_pod,
    configuration_maps,
    create_daemons_pod,
    install,
    names_of_executors,
    of_executors,
    requests_of_account,
    settings_of_executors,
)
from tests.builders.components.installed_chart import EXECUTORS as EXECUTORS_NAMESPACE
from tests.builders.components.kubernetes_api import Api, Refused
from tests.builders.components.pod_runner import PodRunner
from tests.builders.components.spark_cluster import EXECUTORS, use_spark_of_image
from tests.builders.daemon.loops import eventually
from tests.builders.flat.configured_table import DEADLINE_S, ConfiguredTable, has_caught_up, listen
from tests.builders.flat.feeds import TopicFeed


ROWS = 1_000


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
    install(administrator, VALUES | {"spark": {"executors": with_executors}})
    account = administrator.as_service_account(ACCOUNT)
    other = "kube-system"
    paths = {
        f"api/v1/namespaces/{EXECUTORS_NAMESPACE}/pods": with_executors,
        f"api/v1/namespaces/{EXECUTORS_NAMESPACE}/configmaps": with_executors,
        f"api/v1/namespaces/{EXECUTORS_NAMESPACE}/persistentvolumeclaims": False,
        f"api/v1/namespaces/{EXECUTORS_NAMESPACE}/services": False,
        f"api/v1/namespaces/{EXECUTORS_NAMESPACE}/secrets": False,
        f"api/v1/namespaces/{NAMESPACE}/pods": False,
        f"api/v1/namespaces/{NAMESPACE}/configmaps": False,
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
        "spark.kubernetes.authenticate.oauthTokenFile": str(token),
        "spark.kubernetes.authenticate.caCertFile": str(api_server.authority),
        "spark.kubernetes.executor.missingPodDetectDelta": "5m",
    }
    objects = install(administrator, VALUES | {"config": table.configuration()})
    table.conf |= settings_of_executors(objects, tmp_path)
    executors = of_executors(administrator)
    create_daemons_pod(administrator, objects)
    token.write_text(administrator.as_service_account(ACCOUNT).token)

    table.land(range(2), lambda n: n % 100, count=ROWS)
    with PodRunner(executors, tmp_path / "pods") as runner:
        with Child(table.command("run")) as driver:
            listen(driver, has_caught_up)
            eventually(lambda: len(runner.running()) == 2, DEADLINE_S)
            check_pods(runner)
            runner.kill(runner.running()[0])
            table.land(range(2, 4), lambda n: 10**5 * n, count=ROWS)
            listen(driver, has_caught_up)
            eventually(lambda: len(runner.running()) == 2, DEADLINE_S)
            assert len(runner.pods) == 3
        table.finished = table.check()
        assert table.finished == set(table.events) | table.lost
        eventually(lambda: runner.running() == [], DEADLINE_S)
        assert len(names_of_executors(executors)) == 2, "pods of a killed driver end and stay"
        assert len(configuration_maps(executors)) == 1
        table.land(range(4, 5), lambda n: f"x{n}")
        table.ends_well()
        assert names_of_executors(executors) == set(), "the next driver removes them, and its own at its end"
        assert configuration_maps(executors) == set()
    used, refused = requests_of_account(api_server)
    (rule,) = objects["Role"]["rules"]
    assert refused == []
    assert used <= {(verb, resource) for verb in rule["verbs"] for resource in rule["resources"]}


def check_pods(runner: PodRunner) -> None:
    """Check that the pods are as configured, and that they name their table."""
    for pod in runner.pods.values():
        (container,) = pod["spec"]["containers"]
        check_pod(pod)
        assert container["resources"]["limits"]["memory"] == "1408Mi"
        assert container["resources"]["requests"] == {"cpu": "1", "memory": "1408Mi"}
        assert len(pod["metadata"]["labels"]["tideline-table"]) == 16
        environment = {each["name"]: each.get("value") for each in container["env"]}
        here = socket.gethostbyname(socket.gethostname())  # in a pod, its address
        assert str(environment["SPARK_DRIVER_URL"]).startswith(f"spark://CoarseGrainedScheduler@{here}:")
