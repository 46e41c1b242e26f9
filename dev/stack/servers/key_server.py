"""Hadoop's key server (KMS), which HDFS needs for encryption zones: one JVM.

Its keys are in a file, and every user may use them. ::

    with KeyServer(directory / "keys") as keys, Hdfs(directory / "hdfs", keys.settings) as hdfs:
        create_key(hdfs)
        create_zone(hdfs, "/secret")
"""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Final

from dev.stack.downloads.jars import locate_jars, read_lock
from dev.stack.process.ports import free_port
from dev.stack.process.started import Started
from dev.stack.servers.hdfs import HOST, READY_TIMEOUT_S, HadoopProcess, Hdfs, render_site


MAIN: Final = "org.apache.hadoop.crypto.key.kms.server.KMSWebServer"
CRYPTO_ADMIN: Final = "org.apache.hadoop.hdfs.tools.CryptoAdmin"
KEY_SHELL: Final = "org.apache.hadoop.crypto.key.KeyShell"
KEY: Final = "zones"
OPERATIONS: Final = ("MANAGEMENT", "GENERATE_EEK", "DECRYPT_EEK", "READ")


class _KeyServerProcess(HadoopProcess):
    """The process of the key server. It is ready when it lists its keys."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        super().__init__("kms", MAIN, directory, {"hadoop.tmp.dir": f"{directory.resolve()}/scratch"})

    def prepare(self) -> None:
        """Write the settings of the key server next to those of Hadoop."""
        super().prepare()
        settings = {
            "hadoop.kms.key.provider.uri": f"jceks://file@{self.directory}/keys.jceks",
            "hadoop.kms.http.host": HOST,
            "hadoop.kms.http.port": str(self.port),
        }
        (self.conf / "kms-site.xml").write_text(render_site(settings))
        rights = {f"default.key.acl.{operation}": "*" for operation in OPERATIONS}
        (self.conf / "kms-acls.xml").write_text(render_site(rights))

    def command(self) -> list[str]:
        """The command of the server, with the system properties that name its settings."""
        program, *rest = super().command()
        return [
            program,
            f"-Dkms.config.dir={self.conf}",
            f"-Dkms.home.dir={self.directory}",
            f"-Dkms.log.dir={self.directory}",
            *rest,
        ]

    def check_ready(self) -> None:
        """Check that it answers."""
        address = f"http://{HOST}:{self.port}/kms/v1/keys/names?user.name=tideline"
        # S310: a fixed scheme
        with urllib.request.urlopen(address, timeout=READY_TIMEOUT_S) as answer:  # noqa: S310
            json.load(answer)


class KeyServer(Started):
    """The process, and the settings with which HDFS uses it."""

    def __init__(self, directory: Path) -> None:
        self.process = _KeyServerProcess(directory)
        self.settings = {"hadoop.security.key.provider.path": f"kms://http@{HOST}:{self.process.port}/kms"}

    def start(self) -> None:
        """Start the server; if it does not start, raise ComponentFailed with the end of its log."""
        try:
            self.process.start()
        except BaseException:
            self.process.stop()
            raise

    def stop(self) -> None:
        """Stop it if it runs."""
        self.process.stop()


def list_client_jars() -> tuple[Path, ...]:
    """Return the jars that Hive needs, in addition to its own, for files in encryption zones. HDFS has
    fetched them.
    """
    return tuple(locate_jars(jar for jar in read_lock("hdfs") if "bouncycastle" in jar.coordinates))


def create_key(hdfs: Hdfs) -> None:
    """Create the key of all zones."""
    hdfs.administer(KEY_SHELL, "create", KEY)


def create_zone(hdfs: Hdfs, path: str) -> None:
    """Make an empty directory an encryption zone."""
    hdfs.administer(CRYPTO_ADMIN, "-createZone", "-keyName", KEY, "-path", path)
