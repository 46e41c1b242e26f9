"""Provides a Docker engine for tests: an existing one, otherwise a private one.

``python -m dev.stack.docker_engine run COMMAND…`` runs a command with ``DOCKER_HOST`` set to an engine. If no
engine responds and the user is root on Debian, a private ``dockerd`` runs as long as the command. It has its
own socket and data below ``.run/docker`` and does not touch the firewall or forwarding of the machine:
published ports go through docker-proxy, and builds that need the network use ``--network host``. If that is
impossible, the command runs without an engine, and tests that need one are skipped with the reason.

A machine without a registry cannot pull images. The base image of the Dockerfiles is then built from Debian
packages (``debootstrap``) under its real name, so that the Dockerfiles are the same everywhere.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.stack.errors import ComponentFailed, Missing
from dev.stack.process.component import Component


BASE_IMAGE = "python:3.11-slim-bookworm"
BASE_PACKAGES = "ca-certificates,python3,python3-dev,python3-pip,python3-venv"
DIRECTORY = Path(".run") / "docker"
# Not a default of Docker, which another engine on this machine may use.
BRIDGE = "172.30.250.1/24"


class DockerEngine(Component):
    """A private ``dockerd``."""

    def __init__(self, directory: Path) -> None:
        super().__init__("dockerd", directory)

    @property
    def host(self) -> str:
        """``DOCKER_HOST`` for clients."""
        return f"unix://{self.directory}/docker.sock"

    def prepare(self) -> None:
        """Do nothing: dockerd creates its directories."""

    def command(self) -> list[str]:
        """Return the command of dockerd, which keeps all state below the directory and does not change the
        machine's network.
        """
        network = [
            "--iptables=false",
            "--ip6tables=false",
            "--ip-forward=false",
            "--ip-masq=false",
            f"--bip={BRIDGE}",
        ]
        state = [f"--data-root={self.directory}/root", f"--exec-root={self.directory}/exec"]
        return ["dockerd", f"--host={self.host}", f"--pidfile={self.directory}/docker.pid", *state, *network]

    def check_ready(self) -> None:
        """Check that ``docker info`` succeeds."""
        if not is_engine_available(self.host):
            raise TimeoutError("docker info failed")


def is_engine_available(host: str | None = None) -> bool:
    """Return whether the engine at the address responds, by default the standard engine."""
    if shutil.which("docker") is None:
        return False
    where = ["--host", host] if host else []
    return subprocess.run(["docker", *where, "info"], capture_output=True, check=False).returncode == 0


@contextmanager
def run_engine(directory: Path = DIRECTORY) -> Iterator[str | None]:
    """Provide the address of an engine during the block; None means the default one.

    Raises Missing if there is none and none can be started, ComponentFailed if a private one does not start.
    """
    if is_engine_available():
        yield None
        return
    _install()
    private = DockerEngine(directory)
    try:
        private.start()
        yield private.host
    finally:
        private.stop()


def _install() -> None:
    if os.geteuid() != 0:
        raise Missing(
            "no Docker engine responds, and only root can start one: start Docker or set DOCKER_HOST"
        )
    if shutil.which("dockerd") is None:
        _apt_get("docker.io")


def _apt_get(package: str) -> None:
    if shutil.which("apt-get") is None:
        raise Missing(f"{package} is required and cannot be installed automatically: install it manually")
    for step in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", package]):
        if subprocess.run(["apt-get", *step], capture_output=True, check=False).returncode != 0:
            raise Missing(f"{package} is required and 'apt-get {step[0]}' failed: install it manually")


def ensure_base(image: str = BASE_IMAGE, directory: Path = DIRECTORY) -> None:
    """Pull or build the base image unless it exists; raise Missing if neither is possible."""
    for attempt in (["image", "inspect", image], ["pull", "--quiet", image]):
        if subprocess.run(["docker", *attempt], capture_output=True, check=False).returncode == 0:
            return
    if os.geteuid() != 0:
        raise Missing(f"{image} cannot be pulled, and only root can build it: load it into the engine")
    if shutil.which("debootstrap") is None:
        _apt_get("debootstrap")
    _import(image, _build_root(directory))


def _build_root(directory: Path) -> Path:
    """Build a minimal Debian with Python and the certificates of this machine, once (about a minute).

    Returns its directory.
    """
    root = (directory / "base").resolve()
    if (root / "made").exists():
        return root
    shutil.rmtree(root, ignore_errors=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [
            "debootstrap",
            "--variant=minbase",
            f"--include={BASE_PACKAGES}",
            "bookworm",
            str(root),
            *_find_debian_mirror(),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ComponentFailed(f"debootstrap failed: {done.stdout[-2000:]}")
    certificates = Path("/etc/ssl/certs/ca-certificates.crt")
    if certificates.exists():
        shutil.copy(certificates, root / "etc/ssl/certs/ca-certificates.crt")
        (root / "etc/pip.conf").write_text(f"[global]\ncert = {certificates}\n")
    (root / "usr/bin/python").symlink_to("python3")
    for leftover in [*root.glob("var/cache/apt/archives/*.deb"), *root.glob("var/lib/apt/lists/*_*")]:
        leftover.unlink()
    (root / "made").touch()
    return root


def _find_debian_mirror() -> list[str]:
    sources = Path("/etc/apt/sources.list.d/debian.sources")
    lines = sources.read_text().splitlines() if sources.exists() else []
    return [line.split()[1] for line in lines if line.startswith("URIs:")][:1]


def _import(image: str, root: Path) -> None:
    with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as tar:
        imported = subprocess.run(
            ["docker", "import", "--change", 'CMD ["python3"]', "-", image],
            stdin=tar.stdout,
            capture_output=True,
            text=True,
            check=False,
        )
    if imported.returncode != 0:
        raise ComponentFailed(f"docker import failed: {imported.stderr}")


def main(arguments: list[str]) -> int:
    """Run ``run COMMAND…`` and return the exit code of the command."""
    if len(arguments) < 2 or arguments[0] != "run":
        sys.exit("usage: python -m dev.stack.docker_engine run COMMAND…")
    try:
        with run_engine() as host:
            began = time.monotonic()
            if host:
                os.environ |= {
                    "DOCKER_HOST": host,
                    "TESTCONTAINERS_RYUK_DISABLED": "true",
                }  # Ryuk's image cannot be pulled
            ensure_base()
            print(
                f"Docker engine and base image are ready after {time.monotonic() - began:.1f} s", flush=True
            )
            return subprocess.run(arguments[1:], check=False).returncode
    except Missing as reason:
        print(f"no Docker engine: {reason}", file=sys.stderr)
        return subprocess.run(arguments[1:], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
