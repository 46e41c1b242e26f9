"""Checks that the driver can reach the cluster of ``spark.master``, and makes the driver reachable for its
executors.

The checks need no JVM. Without them, Spark tries to reach a ResourceManager for a quarter of an hour, or ends
with a stack trace if Hadoop is not configured.

Executors on other machines connect to the driver, so it gets an address other than loopback, and ports of a
known range, which a firewall can name. On YARN and Kubernetes, Spark gives each application its own secret;
driver and executors authenticate each other and encrypt their traffic. A standalone cluster has one secret
for all, which its administrator sets; there, authentication and encryption are off unless ``spark.conf`` says
otherwise.

In a pod, Spark also needs the pod's name and namespace: the pod then owns the executors, and Kubernetes
removes them with it. Executors in another namespace have no owner, because ownership in Kubernetes does not
cross namespaces; they end when their driver ends.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from handlers.files.systems.hadoop_settings import read_site
from state.errors import ConfigError, Transient
from streaming.settings import SparkSettings


NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
TIMEOUT_S: Final = 5.0
CONF_DIRS: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
"""Variables with Hadoop's configuration; the first takes precedence."""
YARN_PORT: Final = "8032"
DRIVER_PORT: Final = 7_100
"""First port to which executors connect; each further driver of the machine or pod takes the next one."""
BLOCKS_PORT: Final = 7_200
"""First port from which executors fetch the blocks of a driver."""
EXECUTOR_PORT: Final = 7_300
"""Port of an executor in a pod, from which others fetch its blocks."""
PORTS: Final = 64
"""Ports of each range: as many drivers as there can be flat tables."""
AUTHENTICATED: Final[Mapping[str, str]] = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}
"""Mutual authentication by a secret of the application, and encryption of connections and of local files."""
_NAMESPACE: Final = "spark.kubernetes.namespace"
_PROXIES: Final = ("https_proxy", "HTTPS_PROXY")
_MANAGER: Final = "yarn.resourcemanager"
_VARIABLE: Final = re.compile(r"\$\{([\w.-]+)\}", re.ASCII)


def require_configuration(master: str, environment: Mapping[str, str] = os.environ) -> None:
    """Raise ConfigError if the master is YARN and the environment does not name its configuration."""
    if master != "yarn":
        return
    directories = _find_directories(environment)
    if not directories:
        raise ConfigError(
            "spark.master is yarn, and the environment of the daemon has no configuration of Hadoop",
            hint="Set HADOOP_CONF_DIR to the directory of core-site.xml, hdfs-site.xml and yarn-site.xml, "
            "and restart the daemon.",
        )
    if not _find_resource_managers(environment):
        raise ConfigError(
            "Hadoop's configuration names no ResourceManager",
            directories=[str(each) for each in directories],
            hint="Set yarn.resourcemanager.hostname in yarn-site.xml, or HADOOP_CONF_DIR to the right "
            "directory.",
        )


def require_reachable(master: str, environment: Mapping[str, str] = os.environ) -> None:
    """Connect to the cluster once. Raises Transient if none of its addresses answers, and ConfigError if it
    has no address.

    A master whose address only Spark can determine, such as one behind a proxy, counts as reachable.
    """
    require_configuration(master, environment)
    addresses, reasons = find_addresses(master, environment), []
    for host, port in addresses:
        try:
            socket.create_connection((host, port), TIMEOUT_S).close()
        except OSError as error:
            reasons.append(f"{host}:{port}: {error}")
        else:
            return
    if reasons:
        raise Transient(
            "the cluster of spark.master cannot be reached",
            master=master,
            reason="; ".join(reasons),
            hint="Check that it runs, and its address: spark.master, or yarn-site.xml in HADOOP_CONF_DIR.",
        )


def find_addresses(master: str, environment: Mapping[str, str] = os.environ) -> list[tuple[str, int]]:
    """Return the addresses of a master, at least one of which must answer; none if they are unknown."""
    if master == "yarn":
        texts = _find_resource_managers(environment)
    elif master.startswith("spark://"):
        texts = master.removeprefix("spark://").split(",")
    elif master.startswith("k8s://") and not any(environment.get(name) for name in _PROXIES):
        url = master.removeprefix("k8s://")
        split = urlsplit(url if "://" in url else f"https://{url}")
        texts = [f"{split.hostname}:{split.port or (80 if split.scheme == 'http' else 443)}"]
    else:
        texts = []
    parts = [text.strip().rpartition(":") for text in texts]
    return [(host.strip("[]"), int(port)) for host, _, port in parts if host and port.isdecimal()]


def _find_directories(environment: Mapping[str, str]) -> list[Path]:
    return [Path(environment[name]) for name in CONF_DIRS if environment.get(name)]


def _find_resource_managers(environment: Mapping[str, str]) -> list[str]:
    """Return ``host:port`` of each ResourceManager."""
    settings: dict[str, str] = {}
    for directory in reversed(_find_directories(environment)):
        settings |= read_site(directory / "core-site.xml") | read_site(directory / "yarn-site.xml")
    return list(_read_addresses(settings))


def _read_addresses(settings: Mapping[str, str]) -> Iterator[str]:
    is_doubled = settings.get(f"{_MANAGER}.ha.enabled") == "true"
    ids = settings.get(f"{_MANAGER}.ha.rm-ids", "").split(",") if is_doubled else [""]
    for name in ids:
        suffix = f".{name.strip()}" if name else ""
        address = settings.get(f"{_MANAGER}.address{suffix}")
        host = settings.get(f"{_MANAGER}.hostname{suffix}")
        if address or host:
            yield _VARIABLE.sub(
                lambda variable: settings.get(variable[1], variable[0]), address or f"{host}:{YARN_PORT}"
            )


def make_reachable(spark: SparkSettings) -> SparkSettings:
    """Add the driver's address and ports, authentication and encryption to the settings if it has executors;
    configured values take precedence.
    """
    if spark.master.startswith("local"):
        return spark
    name = socket.gethostname()
    # S104: executors connect to it
    conf = {"spark.driver.bindAddress": "0.0.0.0", "spark.driver.host": name}  # noqa: S104
    with suppress(OSError):
        conf["spark.driver.host"] = socket.gethostbyname(name)
    conf |= {
        "spark.driver.port": str(DRIVER_PORT),
        "spark.driver.blockManager.port": str(BLOCKS_PORT),
        "spark.port.maxRetries": str(PORTS - 1),
    }
    if not spark.master.startswith("spark://"):
        conf |= AUTHENTICATED
    if spark.master.startswith("k8s://"):
        conf["spark.blockManager.port"] = str(EXECUTOR_PORT)
        if "KUBERNETES_SERVICE_HOST" in os.environ:
            conf |= _describe_pod(name, spark.conf.get(_NAMESPACE))
    return replace(spark, conf=conf | dict(spark.conf))


def _describe_pod(name: str, namespace: str | None) -> dict[str, str]:
    """Return the settings for a driver in this pod and executors in ``namespace`` (None: the pod's own)."""
    try:
        own = NAMESPACE_FILE.read_text().strip()
    except OSError:
        own = namespace or ""
    conf = {_NAMESPACE: own} if own else {}
    return conf if namespace not in {None, own} else conf | {"spark.kubernetes.driver.pod.name": name}
