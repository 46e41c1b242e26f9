"""Removes the executor pods that killed drivers of a table left behind on Kubernetes.

A driver that ends removes its pods itself. The pods of a killed driver end too, because their executors notice, but they stay as completed
pods: their owner is the daemon's pod, which lives on. So each driver marks its pods with its table, and the next driver of the
table removes the completed ones, with their configuration maps.

Only completed pods are removed. A pod that runs may belong to another driver, which waits for the table's lease or holds it.
Nothing depends on the removal: if it fails, that is logged, and the next driver tries it again.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from state.errors import TidelineError, Transient


if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streaming.settings import FlatSettings, SparkSettings


LABEL: Final = "tideline-table"
"""Label of executor pods; its value is ``FlatSettings.fingerprint``."""
KEPT: Final = "spark.kubernetes.executor.deleteOnTermination"
APPLICATION: Final = "spark-app-selector"
"""Spark's label of pods and configuration maps with the id of the application."""
ROLE: Final = "spark-role"
EXECUTOR: Final = "executor"
COMPLETED: Final = ("Succeeded", "Failed")
_AUTHENTICATION: Final = "spark.kubernetes.authenticate"
"""Prefix of the settings with which a driver in client mode logs in."""
_LOG = logging.getLogger(__name__)


def label_pods(settings: FlatSettings) -> SparkSettings:
    """Return the settings of Spark, with the label of the table's executor pods on Kubernetes."""
    if not settings.spark.master.startswith("k8s://"):
        return settings.spark
    label = {f"spark.kubernetes.executor.label.{LABEL}": settings.fingerprint}
    return replace(settings.spark, conf={**label, **settings.spark.conf})


def start_removing(spark: SparkSession, settings: FlatSettings) -> threading.Thread | None:
    """Remove the completed pods of former drivers in a thread, on Kubernetes and unless Spark's settings keep such pods."""
    conf = spark.sparkContext.getConf()
    if not settings.spark.master.startswith("k8s://") or conf.get(KEPT, "true") != "true":
        return None
    thread = threading.Thread(target=_remove, args=(spark, settings.fingerprint), name="pods", daemon=True)
    thread.start()
    return thread


def _remove(spark: SparkSession, fingerprint: str) -> None:
    try:
        removed = remove_completed_pods(spark, fingerprint)
    except TidelineError as error:
        _LOG.warning("completed pods of former drivers were not removed: %s", error)
    else:
        if removed:
            _LOG.info("removed completed executor pods of former drivers: %s", ", ".join(removed))


def remove_completed_pods(spark: SparkSession, fingerprint: str) -> list[str]:
    """Remove the table's completed executor pods of other applications; return their names. Raises Transient if that fails."""
    from py4j.protocol import Py4JError

    try:
        client = _open_client(spark)
        try:
            return _remove_with(client, spark.sparkContext.applicationId, fingerprint)
        finally:
            client.close()
    except Py4JError as error:
        raise Transient(
            "the API server of Kubernetes refused to list or delete pods", reason=str(error)[:500]
        ) from error


def _remove_with(client: Any, own: str, fingerprint: str) -> list[str]:
    removed, ended, alive = [], set(), {own}
    for pod in client.pods().withLabel(LABEL, fingerprint).withLabel(ROLE, EXECUTOR).list().getItems():
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
        client.configMaps().withLabel(APPLICATION, application).withLabel(ROLE, EXECUTOR).delete()
    return removed


def _open_client(spark: SparkSession) -> Any:
    """Return a client with the address, namespace and login of the driver."""
    context: Any = spark.sparkContext
    jvm, conf = context._jvm, context._jsc.sc().conf()  # noqa: SLF001 - PySpark has no other way to its JVM
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
