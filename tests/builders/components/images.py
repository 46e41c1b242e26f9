"""Container images of the project, and commands of the Docker engine (``make docker-test``)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import pytest

from dev.stack.downloads.npm import find_registry
from tests.builders.daemon.running_daemon import RunningDaemon


REPOSITORY: Final = Path(__file__).parents[3]
DOCKERFILE: Final = REPOSITORY / "Dockerfile"


def docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the engine's client; the classic builder needs no plug-in."""
    environment = {**os.environ, "DOCKER_BUILDKIT": "0"}
    return subprocess.run(
        ["docker", *arguments], check=False, capture_output=True, text=True, env=environment
    )


def build_image(target: str, tag: str, *options: str) -> str:
    """Build a target of the Dockerfile and return ``tag``; without an engine, or without the base image,
    skip the test, or fail in CI."""
    if shutil.which("docker") is None or docker("info").returncode != 0:
        report_missing("no Docker engine answers")
    (base,) = re.findall(r"^ARG BASE=(\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
    if docker("image", "inspect", base).returncode != 0 and docker("pull", base).returncode != 0:
        report_missing(f"{base} is not here and cannot be pulled")
    # The host's network reaches the package index as the host does.
    done = docker("build", "--network", "host", *options, "--target", target, "--tag", tag, str(REPOSITORY))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return tag


def report_missing(reason: str) -> NoReturn:
    """Skip the test, or fail in CI unless that has no engine (``TIDELINE_DOCKER=off``)."""
    if os.environ.get("CI") and os.environ.get("TIDELINE_DOCKER") != "off":
        pytest.fail(reason)
    pytest.skip(reason)


def build_daemon_image(tag: str = "tideline-test:kerberos") -> str:
    """Build the daemon's image as ``make image`` does, with the Kafka client that has Kerberos."""
    return build_image("daemon", tag, "--build-arg", f"NPM_REGISTRY_URL={find_registry()}")


@dataclass
class ContainedDaemon(RunningDaemon):
    """A daemon in a container of an image, on this machine's network and files.

    It has no capabilities and a read-only file system, as in the chart. Its user is that of the stack's
    metastores, which make the directories that it writes to.
    """

    image: str = ""
    mounts: tuple[Path, ...] = ()
    """Directories and files of this machine that it sees, at the same path."""

    @property
    def _name(self) -> str:
        return f"tideline-{self.directory.name}"

    def start(self) -> None:
        """Start it."""
        with (self.directory / "daemon.log").open("a") as log:
            self.process = subprocess.Popen(
                self._run("--name", self._name, self.image, self.verb, "-c", str(self.config)),
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command in a container of its own."""
        command = self._run(self.image, *arguments, "-c", str(self.config))
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def kill(self) -> None:
        """Kill it, as a crash would."""
        docker("kill", self._name)
        super().kill()

    def _run(self, *arguments: str) -> list[str]:
        seen = [f"--volume={path}:{path}" for path in (self.directory, *self.mounts)]
        variables = [f"--env={name}={value}" for name, value in self.environment.items()]
        user = f"--user={os.getuid()}:{os.getgid()}"
        restricted = ["--read-only", "--cap-drop=ALL", "--tmpfs=/tmp", user]
        return ["docker", "run", "--rm", "--network=host", *restricted, *seen, *variables, *arguments]
