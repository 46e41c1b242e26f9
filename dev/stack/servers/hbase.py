"""HBase in one directory: master, region server and ZooKeeper in one JVM, the Thrift gateway in another.

It serves the tests of the partition index and is not part of the default stack, which needs its memory for
Hive. Its files are on the local file system: a power failure may lose data, but a killed process does not,
and tests only kill processes. ::

    with HBase(directory) as hbase:
        happybase.Connection("127.0.0.1", hbase.port)

Its jars have a separate lock and are fetched with the others.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from dev.stack.downloads.jars import fetch, find_missing, locate_jars, read_lock
from dev.stack.downloads.maven_repository import find_repository
from dev.stack.process.component import Component
from dev.stack.process.java_runtime import FRUGAL, OPENS, find_java
from dev.stack.process.owner_watch import OwnerWatch
from dev.stack.process.ports import free_port
from dev.stack.process.started import Started
from dev.stack.servers.hdfs import render_site


HOST = "127.0.0.1"
READY_TIMEOUT_MS = 5000
_MORE_OPENS = [
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
]


class _Process(Component):
    """The common parts of both processes: the class path and the configuration directory."""

    heap_mb = 256
    main: tuple[str, ...] = ()

    def __init__(self, name: str, directory: Path, properties: Mapping[str, str]) -> None:
        super().__init__(name, directory)
        self.properties = properties
        self.conf = self.directory / "conf"

    def prepare(self) -> None:
        """Fetch missing jars and write the configuration."""
        jars = read_lock("hbase")
        if find_missing(jars):
            fetch(jars, find_repository())
        self.conf.mkdir(parents=True, exist_ok=True)
        (self.conf / "hbase-site.xml").write_text(render_site(self.properties))
        (self.conf / "log4j.properties").write_text(LOG4J)

    def environment(self) -> dict[str, str]:
        """Return the class path, which begins with the configuration."""
        return {"CLASSPATH": os.pathsep.join(map(str, [self.conf, *locate_jars(read_lock("hbase"))]))}

    def command(self) -> list[str]:
        """The command of one of HBase's own servers."""
        options = [*FRUGAL, *OPENS, *_MORE_OPENS, f"-Xmx{self.heap_mb}m", f"-Dhbase.log.dir={self.directory}"]
        return [str(find_java()), *options, *self.main]


class HBaseServer(_Process):
    """Master, region server and ZooKeeper."""

    heap_mb = 512
    main = ("org.apache.hadoop.hbase.master.HMaster", "start")

    def __init__(self, directory: Path, zookeeper_port: int) -> None:
        super().__init__("hbase", directory, _build_properties(directory.resolve(), zookeeper_port))

    def check_ready(self) -> None:
        """Check that its log says so. Only the gateway has clients, and it waits for the master."""
        if "Master has completed initialization" not in self.log.read_text(errors="replace"):
            raise TimeoutError("the master is still starting")

    def prepare(self) -> None:
        """Also start a new log, because ``check_ready`` reads the log."""
        super().prepare()
        self.log.unlink(missing_ok=True)


class HBaseGateway(_Process):
    """The Thrift gateway (version 1 of the interface, binary protocol, buffered transport)."""

    def __init__(self, directory: Path, zookeeper_port: int, port: int | None = None) -> None:
        super().__init__("thrift", directory, _build_properties(directory.resolve(), zookeeper_port))
        self.port = port or free_port()
        serve = ("start", "-p", str(self.port), "--bind", HOST, "--infoport", "-1")
        self.main = ("org.apache.hadoop.hbase.thrift.ThriftServer", *serve)

    def check_ready(self) -> None:
        """Check that it returns the names of the tables."""
        with socket.create_connection((HOST, self.port), timeout=1):
            pass
        import happybase
        from thriftpy2.thrift import TException

        try:
            with closing(happybase.Connection(HOST, self.port, timeout=READY_TIMEOUT_MS)) as connection:
                connection.tables()
        except TException as error:
            raise TimeoutError(f"getTableNames failed: {error}") from error


class HBase(Started):
    """Both processes. They start one after the other, and stop at the end of the ``with`` block or of the
    owning process.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()
        zookeeper_port = free_port()
        self.server = HBaseServer(self.directory, zookeeper_port)
        self.gateway = HBaseGateway(self.directory, zookeeper_port)
        self._owner_watch: OwnerWatch | None = None

    @property
    def port(self) -> int:
        """The port of the gateway on 127.0.0.1."""
        return self.gateway.port

    def start(self) -> None:
        """Start both; if one does not start, raise ComponentFailed with the end of its log."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._owner_watch = OwnerWatch(self.directory)
        try:
            self.server.start()
            self.gateway.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop both processes if they run."""
        self.gateway.stop()
        self.server.stop()
        if self._owner_watch is not None:
            self._owner_watch.close()
            self._owner_watch = None


def _build_properties(directory: Path, zookeeper_port: int) -> dict[str, str]:
    return {
        "hbase.rootdir": f"file://{directory}/root",
        "hbase.tmp.dir": f"{directory}/scratch",
        "hbase.cluster.distributed": "false",
        "hbase.zookeeper.quorum": HOST,
        "hbase.zookeeper.property.clientPort": str(zookeeper_port),
        "hbase.zookeeper.property.dataDir": f"{directory}/zookeeper",
        # The local file system cannot sync, and HBase would refuse to start on it.
        "hbase.unsafe.stream.capability.enforce": "false",
        "hbase.wal.provider": "filesystem",
        "hbase.procedure.store.region.wal.provider": "filesystem",
        "hbase.localcluster.assign.random.ports": "true",
        "hbase.master.ipc.address": HOST,
        "hbase.regionserver.ipc.address": HOST,
        "hbase.unsafe.regionserver.hostname": "localhost",
        "hbase.master.hostname": "localhost",
        "hbase.master.info.port": "-1",
        "hbase.regionserver.info.port": "-1",
        "hbase.thrift.info.port": "-1",
        "hbase.regionserver.handler.count": "5",
        "hbase.hregion.memstore.flush.size": str(32 << 20),
        # Tests create many small tables, each of which would otherwise take 2 MB for its first row.
        "hbase.hregion.memstore.mslab.enabled": "false",
    }


LOG4J = """\
log4j.rootLogger=WARN,out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{HH:mm:ss,SSS} %p [%t] %c{2}: %m%n
log4j.logger.org.apache.hadoop.hbase.master.HMaster=INFO
"""
