"""Executor pods on Kubernetes: starts the executor in a pod, and removes the pods that killed drivers left
behind.

Spark starts an executor pod from an image with the argument ``executor``. Environment variables describe the
executor (Spark's ``BasicExecutorFeatureStep``), and the image must start a JVM from them. In Tideline's
image, ``replace_process`` does this. Driver and executors therefore use the same image and cannot differ in
Spark, Java or connector, which is the usual cause of failures. The JVM replaces the process, so the
container's init process passes signals to the JVM, and the JVM's exit code is the pod's.

A driver that ends removes its own pods one by one (``remove_own_pods``). Spark would remove them with a
single request, which needs a right that the chart does not grant. If a driver is killed, its executors notice
and end, but their completed pods remain. So each driver labels its pods with its table or policy, and the
next driver of the same table or policy removes completed pods with this label, and their configuration maps.

It removes only completed pods. A running pod may belong to another driver, which waits for the table's lease
or holds it. The removal is not essential: if it fails, the driver logs that, and the next driver tries it
again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from state.errors import ConfigError, TidelineError, Transient
from streaming.driver.installation import check_installed, use_java


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from streaming.settings import FlatSettings, SparkSettings


PROGRAM: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
ARGUMENTS: Final = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
MEMORY: Final = "SPARK_EXECUTOR_MEMORY"
_OPTION: Final = re.compile(r"SPARK_JAVA_OPT_(\d+)", re.ASCII)
TABLE: Final = "tideline-table"
"""Label of the executor pods of a flat table; its value is ``FlatSettings.fingerprint``."""
POLICY: Final = "tideline-policy"
"""Label of the executor pods of copy jobs."""
KEPT: Final = "spark.kubernetes.executor.deleteOnTermination"
APPLICATION: Final = "spark-app-selector"
"""Spark's label of pods and configuration maps with the id of the application."""
ROLE: Final = "spark-role"
EXECUTOR: Final = "executor"
COMPLETED: Final = ("Succeeded", "Failed")
_AUTHENTICATION: Final = "spark.kubernetes.authenticate"
"""Prefix of the settings with which a driver in client mode logs in."""
_LOG = logging.getLogger(__name__)


def replace_process() -> NoReturn:
    """Replace this process with the executor that the environment describes.

    Raises ConfigError if Spark, its Java or a variable set by Spark is missing.
    """
    check_installed()
    use_java()
    spec = find_spec("pyspark")
    assert spec is not None, "just checked"
    assert spec.submodule_search_locations, "a package"
    command = build_command(os.environ, Path(spec.submodule_search_locations[0]) / "jars")
    os.execv(command[0], command)  # noqa: S606 - the JVM is meant to replace this process


def build_command(environment: Mapping[str, str], jars: Path) -> list[str]:
    """Return the command of the JVM. Raises ConfigError with the names of missing variables."""
    required = [*ARGUMENTS.values(), MEMORY]
    if missing := [name for name in required if not environment.get(name)]:
        raise ConfigError(
            "environment variables of an executor are not set",
            missing=missing,
            hint="Spark on Kubernetes sets them in executor pods; users do not run this command.",
        )
    heap = environment[MEMORY]
    return [
        f"{environment['JAVA_HOME']}/bin/java",
        *_read_options(environment),
        f"-Xms{heap}",
        f"-Xmx{heap}",
        "-cp",
        _build_class_path(environment, jars),
        PROGRAM,
        *(word for option, name in ARGUMENTS.items() for word in (option, environment[name])),
    ]


def _read_options(environment: Mapping[str, str]) -> list[str]:
    """Return Java's options in the order of their numbers, so that a later one overrides an earlier one."""
    options = {
        int(numbered[1]): text for name, text in environment.items() if (numbered := _OPTION.fullmatch(name))
    }
    return [options[number] for number in sorted(options)]


def _build_class_path(environment: Mapping[str, str], jars: Path) -> str:
    """Return the class path: configuration, the user's additions (``spark.executor.extraClassPath``), then
    Spark's own jars.
    """
    paths = [environment.get(name, "") for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "SPARK_CLASSPATH")]
    return ":".join([*filter(None, paths), f"{jars}/*"])


@dataclass(frozen=True, slots=True)
class PodLabel:
    """The label by which a driver finds the pods of former drivers of the same table, or of the same policy's
    copy jobs.
    """

    name: str
    value: str

    @staticmethod
    def of_table(settings: FlatSettings) -> PodLabel:
        """Return the label of a flat table."""
        return PodLabel(TABLE, settings.fingerprint)

    @staticmethod
    def of_policy(policy: str) -> PodLabel:
        """Return the label of a policy, whose name may have characters that labels cannot have."""
        return PodLabel(POLICY, hashlib.sha256(policy.encode()).hexdigest()[:16])


def label_pods(spark: SparkSettings, label: PodLabel) -> SparkSettings:
    """Add the label of executor pods to Spark's settings if the master is Kubernetes."""
    if not spark.master.startswith("k8s://"):
        return spark
    named = {f"spark.kubernetes.executor.label.{label.name}": label.value}
    return replace(spark, conf={**named, **spark.conf})


def start_removing(spark: SparkSession, label: PodLabel) -> threading.Thread | None:
    """Start a thread that removes pods of former drivers, if there can be any (``remove_former_pods``)."""
    if not _removes(spark):
        return None
    thread = threading.Thread(target=remove_former_pods, args=(spark, label), name="pods", daemon=True)
    thread.start()
    return thread


def remove_former_pods(spark: SparkSession, label: PodLabel) -> None:
    """Remove the completed pods of former drivers on Kubernetes, unless Spark's settings keep them; log a
    failure.
    """
    if not _removes(spark):
        return
    try:
        removed = remove_completed_pods(spark, label)
    except TidelineError as error:
        _LOG.warning("completed pods of former drivers were not removed: %s", error)
    else:
        if removed:
            _LOG.info("removed completed executor pods of former drivers: %s", ", ".join(removed))


@contextmanager
def remove_own_pods(spark: SparkSession) -> Iterator[None]:
    """After the block, which stops the session, remove the pods of this driver and their configuration maps;
    log a failure.
    """
    if not _removes(spark):
        yield
        return
    context: Any = spark.sparkContext
    jvm, conf = context._jvm, context._jsc.sc().conf()  # noqa: SLF001 - PySpark has no other way to its JVM
    application = str(context.applicationId)
    try:
        yield
    finally:
        _remove_pods_of(jvm, conf, application)


def _remove_pods_of(jvm: Any, conf: Any, application: str) -> None:
    from py4j.protocol import Py4JError

    try:
        client = _open_client(jvm, conf)
        try:
            for found in (client.pods(), client.configMaps()):
                for each in (
                    found.withLabel(APPLICATION, application).withLabel(ROLE, EXECUTOR).list().getItems()
                ):
                    found.withName(each.getMetadata().getName()).delete()
        finally:
            client.close()
    except (Py4JError, OSError) as error:  # such as a killed JVM: the next driver removes them
        _LOG.warning("the pods of this driver were not removed: %s", str(error)[:500])


def _removes(spark: SparkSession) -> bool:
    conf = spark.sparkContext.getConf()
    return str(conf.get("spark.master")).startswith("k8s://") and conf.get(KEPT, "true") == "true"


def remove_completed_pods(spark: SparkSession, label: PodLabel) -> list[str]:
    """Remove the completed executor pods of other applications with this label.

    Returns their names. Raises Transient.
    """
    from py4j.protocol import Py4JError

    try:
        context: Any = spark.sparkContext
        client = _open_client(context._jvm, context._jsc.sc().conf())  # noqa: SLF001 - PySpark has no other way
        try:
            return _remove_with(client, spark.sparkContext.applicationId, label)
        finally:
            client.close()
    except Py4JError as error:
        raise Transient(
            "the API server of Kubernetes refused to list or delete pods", reason=str(error)[:500]
        ) from error


def _remove_with(client: Any, own: str, label: PodLabel) -> list[str]:
    removed, ended, alive = [], set(), {own}
    for pod in client.pods().withLabel(label.name, label.value).withLabel(ROLE, EXECUTOR).list().getItems():
        name, application = (
            str(pod.getMetadata().getName()),
            str(pod.getMetadata().getLabels().get(APPLICATION)),
        )
        if application == own or str(pod.getStatus().getPhase()) not in COMPLETED:
            alive.add(application)
            continue
        client.pods().withName(name).delete()
        removed.append(name)
        ended.add(application)
    for application in ended - alive:
        maps = client.configMaps()
        for each in maps.withLabel(APPLICATION, application).withLabel(ROLE, EXECUTOR).list().getItems():
            maps.withName(each.getMetadata().getName()).delete()
    return removed


def _open_client(jvm: Any, conf: Any) -> Any:
    """Return a Kubernetes client with the address, namespace and login of the driver."""
    factory = jvm.org.apache.spark.deploy.k8s.SparkKubernetesClientFactory
    client_type = getattr(jvm.org.apache.spark.deploy.k8s, "SparkKubernetesClientFactory$ClientType$")
    option = jvm.scala.Option
    return factory.createKubernetesClient(
        str(conf.get("spark.master")).removeprefix("k8s://"),
        option.apply(conf.get("spark.kubernetes.namespace", "default")),
        _AUTHENTICATION,
        getattr(client_type, "MODULE$").Driver(),
        conf,
        option.empty(),
    )
