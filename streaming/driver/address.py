"""The address of a driver.

Executors on other machines connect to the driver, so it must be reachable at an address other than loopback. In a pod, Spark also
needs the pod's name and namespace: the pod then owns the executors, and Kubernetes removes them together.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from streaming.settings import SparkSettings


NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def make_reachable(spark: SparkSettings) -> SparkSettings:
    """Return the settings with the driver's address, if it has executors; configured values take precedence."""
    if spark.master.startswith("local"):
        return spark
    name = socket.gethostname()
    conf = {"spark.driver.bindAddress": "0.0.0.0", "spark.driver.host": name}  # noqa: S104 - executors connect to it
    with suppress(OSError):
        conf["spark.driver.host"] = socket.gethostbyname(name)
    if spark.master.startswith("k8s://") and "KUBERNETES_SERVICE_HOST" in os.environ:
        conf["spark.kubernetes.driver.pod.name"] = name
        with suppress(OSError):
            conf["spark.kubernetes.namespace"] = NAMESPACE_FILE.read_text().strip()
    return replace(spark, conf=conf | dict(spark.conf))
