"""HDFS in one directory: a NameNode and one or more DataNodes, one JVM each.

It serves tests and is not part of the default stack. Its jars are those of HBase, which contain Hadoop, and
those of ``hdfs.lock``. ::

    with Hdfs(directory) as hdfs:
        hdfs_native.Client(hdfs.uri)
"""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from dev.stack.downloads.jars import Jar, fetch, find_missing, locate_jars, read_lock
from dev.stack.downloads.maven_repository import find_repository
from dev.stack.errors import ComponentFailed
from dev.stack.process.component import Component
from dev.stack.process.java_runtime import FRUGAL, OPENS, find_java
from dev.stack.process.owner_watch import OwnerWatch
from dev.stack.process.ports import free_port
from dev.stack.process.started import Started


HOST = "127.0.0.1"
HEAP_MB = 256
READY_TIMEOUT_S = 5.0
TOOL_TIMEOUT_S = 60.0
NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"


def _list_jars() -> tuple[Jar, ...]:
    return (*read_lock("hbase"), *read_lock("hdfs"))


class HadoopProcess(Component):
    """Common parts of HDFS's processes."""

    def __init__(self, name: str, main: str, directory: Path, properties: Mapping[str, str]) -> None:
        super().__init__(name, directory)
        self.main = main
        self.properties = properties
        self.conf = self.directory / "conf"
        self.java: Path | None = None
        """The Java to run with instead of the one that the stack finds."""

    def prepare(self) -> None:
        """Fetch missing jars and write the configuration."""
        jars = _list_jars()
        if find_missing(jars):
            fetch(jars, find_repository())
        # The jars of Maven contain no web pages. Without their directories, the HTTP servers do not start.
        for name in ("hdfs", "datanode", "static"):
            (self.conf / "webapps" / name / "WEB-INF").mkdir(parents=True, exist_ok=True)
        for file in ("core-site.xml", "hdfs-site.xml"):
            (self.conf / file).write_text(render_site(self.properties))
        (self.conf / "log4j.properties").write_text(LOG4J)

    def environment(self) -> dict[str, str]:
        """Return the class path, which begins with the configuration."""
        return {"CLASSPATH": os.pathsep.join(map(str, [self.conf, *locate_jars(_list_jars())]))}

    def command(self) -> list[str]:
        """The command of one of HDFS's own servers."""
        options = [*FRUGAL, *OPENS, f"-Xmx{HEAP_MB}m", f"-Dhadoop.log.dir={self.directory}"]
        return [str(self.java or find_java()), *options, self.main]


class NameNode(HadoopProcess):
    """The NameNode, which is formatted at its first start. It is ready when it answers over HTTP."""

    def __init__(self, directory: Path, properties: Mapping[str, str]) -> None:
        super().__init__("namenode", NAME_NODE, directory, properties)

    def prepare(self) -> None:
        """Format the storage directory if it does not exist."""
        super().prepare()
        if (self.directory / "names" / "current").exists():
            return
        with self.log.open("ab") as log:
            done = subprocess.run(
                [*self.command(), "-format", "-nonInteractive", "-force"],
                env=os.environ | self.environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode != 0:
            raise ComponentFailed(f"formatting the NameNode failed. {self.log_tail()}")

    def live_data_nodes(self) -> int:
        """Return how many DataNodes have registered.

        Raises OSError or TimeoutError if the NameNode does not answer.
        """
        address = self.properties["dfs.namenode.http-address"]
        query = "jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        # S310: a fixed scheme
        with urllib.request.urlopen(f"http://{address}/{query}", timeout=READY_TIMEOUT_S) as answer:  # noqa: S310
            beans = json.load(answer)["beans"]
        return int(beans[0]["NumLiveDataNodes"]) if beans else 0

    def check_ready(self) -> None:
        """Check that it answers."""
        self.live_data_nodes()


class DataNode(HadoopProcess):
    """A DataNode with its own addresses and directory. It is ready when the NameNode has registered
    ``number`` DataNodes.
    """

    def __init__(
        self, directory: Path, properties: Mapping[str, str], name_node: NameNode, number: int = 1
    ) -> None:
        super().__init__("datanode", DATA_NODE, directory, {**properties, **_build_own_addresses(directory)})
        self._name_node = name_node
        self._number = number

    def check_ready(self) -> None:
        """Check that the NameNode has registered this DataNode and those before it."""
        if self._name_node.live_data_nodes() < self._number:
            raise TimeoutError("the NameNode has not registered the DataNode yet")


class Hdfs(Started):
    """All processes. They start one after the other, and stop at the end of the ``with`` block or of the
    owning process.
    """

    def __init__(
        self, directory: Path, extra: Mapping[str, str] | None = None, *, data_nodes: int = 1
    ) -> None:
        self.directory = directory.resolve()
        self.port = free_port()
        properties = build_properties(self.directory, self.port) | dict(extra or {})
        self.name_node = NameNode(self.directory, properties)
        self.data_nodes = tuple(
            DataNode(self.directory / f"dn{number}", properties, self.name_node, number)
            for number in range(1, data_nodes + 1)
        )
        self._owner_watch: OwnerWatch | None = None

    @property
    def uri(self) -> str:
        """The root of the file system."""
        return f"hdfs://{HOST}:{self.port}"

    def start(self) -> None:
        """Start all processes; if one does not start, raise ComponentFailed with the end of its log."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._owner_watch = OwnerWatch(self.directory)
        try:
            self.name_node.start()
            for each in self.data_nodes:
                each.launch()
            for each in self.data_nodes:
                each.wait_ready()
        except BaseException:
            self.stop()
            raise

    def administer(self, tool: str, *arguments: str) -> str:
        """Run one of HDFS's command line programs and return its output; if it fails, raise ComponentFailed
        with its output.
        """
        return run_tool(self.name_node, tool, *arguments)

    def stop(self) -> None:
        """Stop all processes that run."""
        for each in self.data_nodes:
            each.stop()
        self.name_node.stop()
        if self._owner_watch is not None:
            self._owner_watch.close()
            self._owner_watch = None


def build_properties(directory: Path, port: int) -> dict[str, str]:
    """Return the settings of servers with their data below ``directory``; ``port`` is the NameNode's."""
    return {
        "fs.defaultFS": f"hdfs://{HOST}:{port}",
        "hadoop.tmp.dir": f"{directory}/scratch",
        "dfs.replication": "1",
        "dfs.namenode.name.dir": f"file://{directory}/names",
        "dfs.namenode.http-address": f"{HOST}:{free_port()}",
        "dfs.namenode.rpc-bind-host": HOST,
        "dfs.datanode.hostname": HOST,
        "dfs.namenode.safemode.extension": "0",
        "dfs.heartbeat.interval": "1",
        "dfs.namenode.handler.count": "4",
        "dfs.blocksize": str(16 << 20),
        # Tests of checksums have files of several blocks.
        "dfs.namenode.fs-limits.min-block-size": str(64 << 10),
    }


def _build_own_addresses(directory: Path) -> dict[str, str]:
    return {
        "dfs.datanode.data.dir": f"file://{directory}/blocks",
        "dfs.datanode.address": f"{HOST}:{free_port()}",
        "dfs.datanode.http.address": f"{HOST}:{free_port()}",
        "dfs.datanode.ipc.address": f"{HOST}:{free_port()}",
    }


def run_tool(node: NameNode, tool: str, *arguments: str) -> str:
    """Run one of HDFS's command line programs with the configuration of ``node``.

    Raises ComponentFailed if it fails.
    """
    done = subprocess.run(
        [*node.command()[:-1], tool, *arguments],
        env=os.environ | node.environment(),
        capture_output=True,
        text=True,
        timeout=TOOL_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise ComponentFailed(f"{tool} {' '.join(arguments)} failed: {done.stdout}{done.stderr}")
    return done.stdout


def render_site(properties: Mapping[str, str]) -> str:
    """Return the properties as a Hadoop configuration file."""
    rows = (
        f"<property><name>{name}</name><value>{escape(value)}</value></property>"
        for name, value in properties.items()
    )
    return "\n".join(["<configuration>", *rows, "</configuration>", ""])


LOG4J = """\
log4j.rootLogger=WARN,out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{HH:mm:ss,SSS} %p [%t] %c{2}: %m%n
"""
