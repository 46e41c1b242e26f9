"""A Spark cluster on one machine: Spark's own master and worker, from PySpark's jars, with executors as
separate processes."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import pyspark

from dev.stack.downloads.jars import locate_jars, read_lock
from dev.stack.process.component import Component
from dev.stack.process.ports import free_port
from streaming.driver import installation
from tests.builders.components.processes import children, command_line


if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest


HOME = Path(pyspark.__path__[0])
HOST = "127.0.0.1"
EXECUTORS = {"executors": 2, "executor_cores": 1, "executor_memory": "1g"}
"""Settings of a flat table that runs on two executors of one core."""


AUTHENTICATED: Final = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
"""``spark.conf`` of a driver on a cluster with a secret."""


def write_secret(conf_dir: Path) -> Path:
    """Write the settings of a cluster whose processes know each other by a secret; return their directory."""
    conf_dir.mkdir(parents=True)
    settings = conf_dir / "spark-defaults.conf"
    settings.touch(0o600)
    settings.write_text(
        "".join(f"{name} {value}\n" for name, value in AUTHENTICATED.items())
        + f"spark.authenticate.secret {secrets.token_hex(16)}\n"
    )
    return conf_dir


class _Daemon(Component):
    """One of Spark's daemons; Spark's own settings define where it logs."""

    program = ""
    conf_dir: Path | None = None

    def prepare(self) -> None:
        installation.use_java()

    def command(self) -> list[str]:
        return [str(HOME / "bin" / "spark-class"), self.program, *self.arguments()]

    def arguments(self) -> list[str]:
        """The arguments of the program."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        options = f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dtideline.directory={self.directory}"
        return {
            "SPARK_HOME": str(HOME),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": options,
            "SPARK_LOCAL_IP": HOST,
            **({} if self.conf_dir is None else {"SPARK_CONF_DIR": str(self.conf_dir)}),
        }


class Master(_Daemon):
    """Spark's standalone master."""

    program = "org.apache.spark.deploy.master.Master"

    def __init__(self, directory: Path) -> None:
        super().__init__("spark-master", directory)
        self.port = free_port()

    @property
    def url(self) -> str:
        """The address for drivers."""
        return f"spark://{HOST}:{self.port}"

    def arguments(self) -> list[str]:
        return ["--host", HOST, "--port", str(self.port), "--webui-port", "0"]

    def check_ready(self) -> None:
        socket.create_connection((HOST, self.port), timeout=1).close()


class Worker(_Daemon):
    """Spark's standalone worker, which starts executors and restarts them."""

    program = "org.apache.spark.deploy.worker.Worker"

    def __init__(self, directory: Path, master: str, cores: int, memory: str) -> None:
        super().__init__("spark-worker", directory)
        self._master, self._cores, self._memory = master, cores, memory

    def arguments(self) -> list[str]:
        given = {
            "--host": HOST,
            "--webui-port": "0",
            "--cores": str(self._cores),
            "--memory": self._memory,
            "--work-dir": str(self.directory / "work"),
        }
        return [*(each for pair in given.items() for each in pair), self._master]

    def check_ready(self) -> None:
        if "Successfully registered with master" not in self.log.read_text(errors="replace"):
            raise TimeoutError("the master does not know it yet")

    def executors(self) -> dict[int, int]:
        """Return the process of each running executor, by the number of the executor."""
        return {number: pid for pid in children(self.pid) if (number := _executor(pid)) is not None}


class SparkCluster:
    """A master and one worker for the duration of a ``with`` block."""

    def __init__(
        self, directory: Path, *, cores: int = 2, memory: str = "3g", conf_dir: Path | None = None
    ) -> None:
        """``conf_dir`` has the settings of a cluster with a secret (``write_secret``)."""
        self.master = Master(directory / "master")
        self.worker = Worker(directory / "worker", self.master.url, cores, memory)
        self.master.conf_dir = self.worker.conf_dir = conf_dir

    def kill_an_executor(self) -> int:
        """Kill a running executor, as a crash would, and return its number."""
        number, pid = min(self.worker.executors().items())
        os.kill(pid, signal.SIGKILL)
        return number

    def __enter__(self) -> Self:
        self.master.start()
        try:
            self.worker.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.stop()
        self.master.stop()


def use_spark_of_image(
    directory: Path, monkeypatch: pytest.MonkeyPatch, more_jars: Iterable[Path] = ()
) -> None:
    """Let drivers use a PySpark as in the image, with the Kafka source and ``more_jars`` among its jars.

    Executors of a ``SparkCluster`` have neither: they run PySpark's own jars, and no Python at all.
    """
    link_spark_of_image(directory, more_jars)
    for name, value in environment_of_image(directory).items():
        monkeypatch.setenv(name, value)


def environment_of_image(directory: Path) -> dict[str, str]:
    """Return the variables with which drivers use the PySpark in ``directory``."""
    return {"PYTHONPATH": str(directory), "PYSPARK_PYTHON": "/there/is/no/python"}


def link_spark_of_image(directory: Path, more_jars: Iterable[Path] = ()) -> None:
    """Make a PySpark of links in ``directory``, with the Kafka source and ``more_jars`` among its jars."""
    own, image = HOME, directory / "pyspark"
    (image / "jars").mkdir(parents=True)
    for entry in own.iterdir():
        if entry.name != "jars":
            (image / entry.name).symlink_to(entry)
    (image / "find_spark_home.py").unlink()  # it asks where it really is
    shutil.copy(own / "find_spark_home.py", image)
    for jar in [*(own / "jars").iterdir(), *locate_jars(read_lock("spark-kafka")), *more_jars]:
        (image / "jars" / jar.name).symlink_to(jar)


def _executor(pid: int) -> int | None:
    """Return the number of the executor that the process runs."""
    found = re.search(r"CoarseGrainedExecutorBackend .*--executor-id (\d+)", command_line(pid))
    return int(found[1]) if found else None
