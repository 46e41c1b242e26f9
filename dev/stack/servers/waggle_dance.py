"""Waggle Dance, a proxy for the metastore's protocol in Java: the rival in the endpoint's benchmark. Its jars
are fetched on first use.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from dev.stack.downloads.jars import fetch, find_missing, locate_jars, read_lock
from dev.stack.downloads.maven_repository import find_repository
from dev.stack.process.component import Component
from dev.stack.process.java_runtime import OPENS, find_java
from dev.stack.process.ports import free_port


SERVER = """\
port: {port}
verbose: false
"""
FEDERATION = """\
primary-meta-store:
  name: primary
  remote-meta-store-uris: {metastore}
  access-control-type: READ_AND_WRITE_AND_CREATE
  latency: 600000
"""


class WaggleDance(Component):
    """A proxy in front of one metastore. ``latency`` is the time in milliseconds for which it waits for the
    metastore.
    """

    start_timeout_s = 240.0  # 15 s on an idle machine

    def __init__(self, directory: Path, metastore: str) -> None:
        super().__init__("waggle-dance", directory)
        self.jars = read_lock("waggle-dance")
        self.metastore = metastore
        self.port = free_port()
        self.http_port = free_port()

    def prepare(self) -> None:
        """Fetch missing jars and write the configuration."""
        if find_missing(self.jars):
            fetch(self.jars, find_repository())
        (self.directory / "server.yml").write_text(SERVER.format(port=self.port))
        (self.directory / "federation.yml").write_text(FEDERATION.format(metastore=self.metastore))

    def environment(self) -> dict[str, str]:
        """Return the class path."""
        return {"CLASSPATH": os.pathsep.join(map(str, locate_jars(self.jars)))}

    def command(self) -> list[str]:
        """Return the command of Waggle Dance, with the JVM's default collector and compilers."""
        return [
            str(find_java()),
            *OPENS,
            "-Xmx512m",
            "com.hotels.bdp.waggledance.WaggleDance",
            f"--server-config=file://{self.directory}/server.yml",
            f"--federation-config=file://{self.directory}/federation.yml",
            f"--server.port={self.http_port}",
        ]

    def check_ready(self) -> None:
        """Check that it accepts connections."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=1):
            pass
