"""YARN in one directory: a ResourceManager and a NodeManager, one JVM each, with Spark's version of Hadoop.

It serves the tests of flat tables and copy jobs whose executors are containers, and is not part of the
default stack. ::

    with Yarn(directory) as yarn:
        os.environ["HADOOP_CONF_DIR"] = str(yarn.conf)
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from dev.stack.downloads.jars import fetch, find_missing, locate_jars, read_lock
from dev.stack.downloads.maven_repository import find_repository
from dev.stack.process.component import Component
from dev.stack.process.java_runtime import FRUGAL, OPENS, find_java
from dev.stack.process.owner_watch import OwnerWatch
from dev.stack.process.ports import free_port
from dev.stack.process.started import Started
from dev.stack.servers.hdfs import LOG4J, render_site


HOST: Final = "127.0.0.1"
HEAP_MB: Final = 256
READY_TIMEOUT_S: Final = 5.0
PACKAGE: Final = "org.apache.hadoop.yarn.server"


class _Process(Component):
    """The common parts of both processes."""

    def __init__(
        self,
        name: str,
        main: str,
        directory: Path,
        properties: Mapping[str, str],
        file_system: Mapping[str, str],
    ) -> None:
        super().__init__(name, directory)
        self.main = main
        self.properties = properties
        self.file_system = file_system
        self.conf = self.directory / "conf"

    def prepare(self) -> None:
        """Fetch missing jars and write the configuration."""
        jars = read_lock("yarn")
        if find_missing(jars):
            fetch(jars, find_repository())
        self.conf.mkdir(exist_ok=True)
        (self.conf / "yarn-site.xml").write_text(render_site(self.properties))
        core = {**self.file_system, "hadoop.tmp.dir": f"{self.directory}/scratch"}
        (self.conf / "core-site.xml").write_text(render_site(core))
        (self.conf / "log4j.properties").write_text(LOG4J)

    def environment(self) -> dict[str, str]:
        """Return the class path, which begins with the configuration."""
        return {"CLASSPATH": os.pathsep.join(map(str, [self.conf, *locate_jars(read_lock("yarn"))]))}

    def command(self) -> list[str]:
        """The command of one of YARN's own servers."""
        options = [*FRUGAL, *OPENS, f"-Xmx{HEAP_MB}m", f"-Dyarn.log.dir={self.directory}"]
        return [str(find_java()), *options, self.main]

    def metrics(self) -> dict[str, Any]:
        """Return the metrics of the cluster; raise OSError if the ResourceManager does not answer."""
        address = self.properties["yarn.resourcemanager.webapp.address"]
        url = f"http://{address}/ws/v1/cluster/metrics"
        with urllib.request.urlopen(url, timeout=READY_TIMEOUT_S) as answer:  # noqa: S310 - a fixed scheme
            found: dict[str, Any] = json.load(answer)["clusterMetrics"]
            return found


class ResourceManager(_Process):
    """The ResourceManager. It is ready when it answers over HTTP."""

    def check_ready(self) -> None:
        """Check that it answers."""
        self.metrics()


class NodeManager(_Process):
    """The only node. It is ready when the ResourceManager has registered it."""

    def check_ready(self) -> None:
        """Check that the cluster has an active node."""
        if self.metrics()["activeNodes"] < 1:
            raise TimeoutError("the ResourceManager has not registered the NodeManager yet")


class Yarn(Started):
    """Both processes. They stop at the end of the ``with`` block or of the owning process.

    ``file_system`` are the settings of the default file system, for example of an HDFS. By default, it is the
    local disk.
    """

    def __init__(self, directory: Path, file_system: Mapping[str, str] | None = None) -> None:
        self.directory = directory.resolve()
        properties, files = build_properties(self.directory), dict(file_system or {})
        self.resource_manager = ResourceManager(
            "resourcemanager", f"{PACKAGE}.resourcemanager.ResourceManager", self.directory, properties, files
        )
        self.node_manager = NodeManager(
            "nodemanager", f"{PACKAGE}.nodemanager.NodeManager", self.directory, properties, files
        )
        self._owner_watch: OwnerWatch | None = None

    @property
    def conf(self) -> Path:
        """The directory with the configuration of its clients."""
        return self.resource_manager.conf

    def start(self) -> None:
        """Start both; if one does not start, raise ComponentFailed with the end of its log."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._owner_watch = OwnerWatch(self.directory)
        try:
            self.resource_manager.start()
            self.node_manager.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop both."""
        self.node_manager.stop()
        self.resource_manager.stop()
        if self._owner_watch is not None:
            self._owner_watch.close()
            self._owner_watch = None


def build_properties(directory: Path) -> dict[str, str]:
    """Return the settings of servers with free ports and their data below ``directory``."""
    manager, node = "yarn.resourcemanager", "yarn.nodemanager"
    addresses = [
        f"{manager}.address",
        f"{manager}.scheduler.address",
        f"{manager}.resource-tracker.address",
        f"{manager}.admin.address",
        f"{manager}.webapp.address",
        f"{node}.address",
        f"{node}.localizer.address",
        f"{node}.webapp.address",
    ]
    return {
        **{name: f"{HOST}:{free_port()}" for name in addresses},
        f"{manager}.hostname": HOST,
        # The other schedulers need a file that lists their queues.
        f"{manager}.scheduler.class": f"{PACKAGE}.resourcemanager.scheduler.fair.FairScheduler",
        # Applications of the user "root" would be sent to the queue "root", which has other queues.
        "yarn.scheduler.fair.user-as-default-queue": "false",
        "yarn.scheduler.minimum-allocation-mb": "256",
        f"{node}.hostname": HOST,
        f"{node}.local-dirs": f"{directory}/containers",
        f"{node}.log-dirs": f"{directory}/logs",
        f"{node}.resource.memory-mb": "6144",
        f"{node}.resource.cpu-vcores": "4",
        f"{node}.vmem-check-enabled": "false",
        f"{node}.disk-health-checker.enable": "false",
    }
