"""A Kafka broker that is its own controller (KRaft)."""

from __future__ import annotations

import base64
import os
import secrets
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from dev.stack.downloads.jars import locate_jars, read_lock
from dev.stack.errors import ComponentFailed
from dev.stack.process.component import Component
from dev.stack.process.java_runtime import find_java
from dev.stack.process.ports import free_port


HOST = "127.0.0.1"
READY_TIMEOUT_S = 2.0


class Kafka(Component):
    """One broker. Topics must be created explicitly and have one partition and one replica by default."""

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        extra: Mapping[str, str] | None = None,
        host: str = HOST,
        advertised: str = HOST,
    ) -> None:
        super().__init__("kafka", directory)
        self.host = host
        self.advertised = advertised
        self.port = port or free_port()
        self.controller_port = free_port()
        self.extra = dict(extra or {})

    @property
    def bootstrap(self) -> str:
        """``bootstrap.servers`` for clients."""
        return f"{self.advertised}:{self.port}"

    def prepare(self) -> None:
        """Write the configuration; format the log directory at the first start."""
        (self.directory / "server.properties").write_text(self._server_properties())
        (self.directory / "log4j2.properties").write_text(LOG4J2)
        if not (self.directory / "log" / "meta.properties").exists():
            self._format()

    def command(self) -> list[str]:
        """The command of Kafka's own server."""
        return self._jvm("kafka.Kafka", str(self.directory / "server.properties"))

    def environment(self) -> dict[str, str]:
        """The class path."""
        return {"CLASSPATH": os.pathsep.join(map(str, locate_jars(read_lock("kafka"))))}

    def check_ready(self) -> None:
        """Check that its response to a metadata request contains a broker."""
        from confluent_kafka import KafkaException  # missing in the container that runs the server
        from confluent_kafka.admin import AdminClient

        with socket.create_connection(("127.0.0.1", self.port), timeout=READY_TIMEOUT_S):
            pass
        client = AdminClient({"bootstrap.servers": f"127.0.0.1:{self.port}", "log_level": 0})
        try:
            if not client.list_topics(timeout=READY_TIMEOUT_S).brokers:
                raise TimeoutError("no broker is registered yet")
        except KafkaException as error:
            raise TimeoutError(f"the metadata request failed: {error}") from error

    def _jvm(self, main: str, *arguments: str) -> list[str]:
        return [
            str(find_java()),
            "-Xms128m",
            "-Xmx384m",
            "-XX:+UseSerialGC",
            "-XX:-UsePerfData",
            "-Djava.net.preferIPv4Stack=true",
            f"-Dlog4j2.configurationFile={self.directory}/log4j2.properties",
            main,
            *arguments,
        ]

    def format_options(self) -> list[str]:
        """Further options of the command that formats the log directory, such as users."""
        return []

    def _format(self) -> None:
        cluster_id = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=").replace("-", "a")
        with self.log.open("ab") as log:
            done = subprocess.run(
                [
                    *self._jvm("kafka.tools.StorageTool", "format", "-t", cluster_id),
                    "-c",
                    str(self.directory / "server.properties"),
                    *self.format_options(),
                ],
                env=os.environ | self.environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode != 0:
            raise ComponentFailed(f"formatting the log directory of Kafka failed. {self.log_tail()}")

    def _server_properties(self) -> str:
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://{self.host}:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.advertised}:{self.port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.directory / "log"),
            **ONE_BROKER,
            **self.extra,
        }
        return "".join(f"{name}={value}\n" for name, value in properties.items())


ONE_BROKER = {
    "auto.create.topics.enable": "false",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # A killed broker can register again only when its session has expired, with this setting after 2 s
    # instead of 9 s.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "300",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "log.cleaner.dedupe.buffer.size": "16777216",
}

LOG4J2 = """\
status=warn
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{HH:mm:ss.SSS} %-5p [%t] %c{1}: %m%n
rootLogger.level=${sys:stack.log.level:-warn}
rootLogger.appenderRef.out.ref=out
logger.server.name=kafka.server.KafkaRaftServer
logger.server.level=info
"""
