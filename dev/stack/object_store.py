"""An object store with the S3 interface: MinIO, built from pinned source with the Go compiler of the machine.

It serves the tests of files and flat tables on ``s3a://`` and is not part of the default stack. ::

    with ObjectStore(directory) as store:
        store.endpoint  # http://access:secret@127.0.0.1:PORT

``python -m dev.stack.object_store run COMMAND…`` runs a command with ``TIDELINE_TEST_S3`` set to such a
store, as ``make s3`` does. ``try COMMAND…`` runs it without a store if none can be started, except in CI; the
tests of object stores are then skipped.

The authors of MinIO no longer publish binaries, so it is built once per machine (five minutes on two cores)
and kept in the cache next to the jars. This module pins the checksum of MinIO's source. The checksum covers
``go.sum``, which pins all its dependencies.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self

from dev.stack.downloads.go_compiler import check_go, run_go
from dev.stack.downloads.jars import cache_dir
from dev.stack.errors import FetchFailed, StackError
from dev.stack.process.component import Component
from dev.stack.process.owner_watch import OwnerWatch
from dev.stack.process.ports import free_port


HOST = "127.0.0.1"
VARIABLE = "TIDELINE_TEST_S3"
"""Environment variable with the endpoint of the store, for tests."""
MODULE = "github.com/minio/minio"
VERSION = "v0.0.0-20260212201848-7aac2a2c5b7c"
CHECKSUM = "h1:/qdoYujxF5MBLDMVLeiYJ/7fBa1HikX39Dvzb9Ji8pA="
"""Checksum of the module source, in the form of ``go.sum``."""
GO_OLDEST = (1, 24)
READY_TIMEOUT_S = 2.0


class ObjectStore(Component):
    """A server with one disk; a context manager that also stops when the owning process ends."""

    def __init__(self, directory: Path, port: int | None = None) -> None:
        super().__init__("minio", directory)
        self.port = port or free_port()
        self.access_key = "tideline"
        self.secret_key = secrets.token_hex(16)
        self._owner_watch: OwnerWatch | None = None

    @property
    def endpoint(self) -> str:
        """The address with its keys, in the form that tests use."""
        return f"http://{self.access_key}:{self.secret_key}@{HOST}:{self.port}"

    def prepare(self) -> None:
        """Build the server if it is not in the cache."""
        build_server()
        (self.directory / "data").mkdir(exist_ok=True)

    def command(self) -> list[str]:
        """MinIO's own server, without its console."""
        return [
            str(_binary_path()),
            "server",
            "--quiet",
            "--address",
            f"{HOST}:{self.port}",
            f"{self.directory}/data",
        ]

    def environment(self) -> dict[str, str]:
        """Return variables with generated keys, and without console and check for updates."""
        return {
            "MINIO_ROOT_USER": self.access_key,
            "MINIO_ROOT_PASSWORD": self.secret_key,
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
        }

    def check_ready(self) -> None:
        """Check that the health check for reading and writing succeeds."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=READY_TIMEOUT_S)
        try:
            connection.request("GET", "/minio/health/cluster")
            status = connection.getresponse().status
        except http.client.HTTPException as error:
            raise TimeoutError(f"the health check failed: {error}") from error
        finally:
            connection.close()
        if status != http.client.OK:
            raise TimeoutError(f"not ready: HTTP status {status}")

    def __enter__(self) -> Self:
        build_server()
        self.directory.mkdir(parents=True, exist_ok=True)
        self._owner_watch = OwnerWatch(self.directory)
        try:
            self.start()
        except BaseException:
            self._owner_watch.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._owner_watch is not None:
            self._owner_watch.close()


def build_server() -> Path:
    """Return the path of the server program, after building it if it is not in the cache.

    Raises Missing if Go is absent or too old, FetchFailed if the source cannot be downloaded, is not the
    pinned one, or does not compile.
    """
    final = _binary_path()
    if final.exists():
        return final
    check_go(GO_OLDEST, "the object store")
    final.parent.mkdir(parents=True, exist_ok=True)
    # Next to the final path, because /tmp may be small: all sources and Go's own cache take 3 GB.
    with tempfile.TemporaryDirectory(dir=final.parent.parent, prefix="building-") as scratch:
        source = _download_source(Path(scratch))
        part = Path(scratch) / "minio"
        run_go(Path(scratch), "build", "-trimpath", "-ldflags=-s -w", "-o", str(part), ".", within=source)
        part.replace(final)
    return final


def _binary_path() -> Path:
    return cache_dir() / "go" / f"minio-{VERSION}" / "minio"


def _download_source(scratch: Path) -> Path:
    """Download the module source, verify its checksum and return its directory."""
    module = json.loads(run_go(scratch, "mod", "download", "-json", f"{MODULE}@{VERSION}", within=scratch))
    if module.get("Sum") != CHECKSUM:
        raise FetchFailed(
            f"{MODULE} {VERSION}: the checksum is {module.get('Sum')}, but {CHECKSUM} is pinned"
        )
    return Path(module["Dir"])


def main(arguments: list[str]) -> int:
    """Run ``run COMMAND…`` or ``try COMMAND…`` and return the exit code of the command."""
    if len(arguments) < 2 or arguments[0] not in {"run", "try"}:
        sys.exit("usage: python -m dev.stack.object_store run|try COMMAND…")
    try:
        with tempfile.TemporaryDirectory() as directory, ObjectStore(Path(directory)) as store:
            environment = os.environ | {VARIABLE: store.endpoint}
            return subprocess.run(arguments[1:], env=environment, check=False).returncode
    except StackError as error:
        print(f"error: {error}", file=sys.stderr)
    if arguments[0] == "try" and not os.environ.get("CI"):
        return subprocess.run(arguments[1:], check=False).returncode
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
