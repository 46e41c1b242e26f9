"""Copy jobs whose executors are pods of a real API server, run as processes of this machine
(``PodRunner``)."""

from __future__ import annotations

from pathlib import Path

from daemon.replica.copy_jobs.runner import SparkJobs
from dev.stack.servers.kubernetes import ApiServer
from tests.builders.components.installed_chart import (
    ACCOUNT,
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
from tests.builders.components.kubernetes_api import Api
from tests.builders.components.pod_runner import PodRunner
from tests.builders.daemon.loops import eventually
from tests.builders.replication.copied_files import BYTES_PER_S, CopiedFiles, kill_the_driver
from tests.builders.replication.spark_jobs import JAVA, spark_jobs


DEADLINE_S = 600.0
"""How long a failing test waits; generous, because a busy machine must not fail a test."""


def jobs_of(files: CopiedFiles, api_server: ApiServer, token: Path, settings: dict[str, str]) -> SparkJobs:
    """Return jobs that copy these files, with the settings of a daemon in a pod of the chart."""
    conf = {
        **settings,
        "spark.kubernetes.authenticate.oauthTokenFile": str(token),
        "spark.kubernetes.authenticate.caCertFile": str(api_server.authority),
        "spark.kubernetes.executor.missingPodDetectDelta": "5m",
        "spark.driver.extraJavaOptions": JAVA,
        "spark.executor.extraJavaOptions": JAVA,
    }
    return spark_jobs(
        [str(files.source)],
        master=f"k8s://{api_server.url}",
        spark={"executors": 2, "executor_cores": 1, "executor_memory": "512m", "conf": conf},
        bytes_per_s_max=BYTES_PER_S,
        files_at_once=2,
    )


def test_pods_copy_all_files_although_one_and_then_the_driver_is_killed(
    administrator: Api, api_server: ApiServer, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    objects = install(administrator, VALUES)
    create_daemons_pod(administrator, objects)
    token.write_text(administrator.as_service_account(ACCOUNT).token)
    settings, executors = settings_of_executors(objects, tmp_path), of_executors(administrator)
    with PodRunner(executors, tmp_path / "pods") as runner:
        files = CopiedFiles(f"file:{tmp_path}/killed_pod")
        files.check(files.run(jobs_of(files, api_server, token, settings), lambda: kill_a_pod(runner)))
        check_pods(runner)
        eventually(lambda: runner.running() == [], DEADLINE_S)

        files = CopiedFiles(f"file:{tmp_path}/killed_driver")
        files.check(files.run(jobs_of(files, api_server, token, settings), kill_the_driver))
        eventually(lambda: runner.running() == [], DEADLINE_S)
        assert names_of_executors(executors) == set()
        assert configuration_maps(executors) == set()
    used, refused = requests_of_account(api_server)
    (rule,) = objects["Role"]["rules"]
    assert refused == []
    assert used <= {(verb, resource) for verb in rule["verbs"] for resource in rule["resources"]}


def kill_a_pod(runner: PodRunner) -> int:
    """Kill the process of a pod; return how many pods there were."""
    runner.kill(runner.running()[0])
    return len(runner.pods)


def check_pods(runner: PodRunner) -> None:
    """Check that the pods are as configured, and that they name their policy."""
    assert len(runner.pods) >= 2
    for pod in runner.pods.values():
        (container,) = pod["spec"]["containers"]
        check_pod(pod)
        assert len(pod["metadata"]["labels"]["tideline-policy"]) == 16
        environment = {each["name"]: each.get("value") for each in container["env"]}
        assert environment["HADOOP_USER_NAME"]
