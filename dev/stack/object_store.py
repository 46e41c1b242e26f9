"""An object store that speaks S3: MinIO, built from its pinned source by a Go that the machine has.

For the tests of files and flat tables on ``s3a://``; it is no part of the default stack. ::

    with ObjectStore(directory) as store:
        store.endpoint  # http://access:secret@127.0.0.1:PORT

``python -m dev.stack.object_store run COMMAND…`` runs a command with ``TIDELINE_TEST_S3`` pointing to one, as ``make s3`` does.

Its authors publish no binaries any more, so it is built once per machine (five minutes of two cores) and kept in the cache beside
the jars. Where Go takes modules from is Go's own business (``GOPROXY``). Nothing has to be believed: the module's checksum is pinned
here, and its own ``go.sum``, which that checksum covers, pins all it is built from; so Go's checksum database is not asked.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

from dev.stack.downloads.jars import cache_dir
from dev.stack.errors import FetchFailed, Missing, StackError
from dev.stack.process.component import Component
from dev.stack.process.owner_watch import OwnerWatch
from dev.stack.process.ports import free_port


if TYPE_CHECKING:
    from types import TracebackType


HOST = "127.0.0.1"
VARIABLE = "TIDELINE_TEST_S3"
"""Tells tests where a store is."""
MODULE = "github.com/minio/minio"
VERSION = "v0.0.0-20260212201848-7aac2a2c5b7c"
CHECKSUM = "h1:/qdoYujxF5MBLDMVLeiYJ/7fBa1HikX39Dvzb9Ji8pA="
"""Of the module's source, as ``go.sum`` writes it."""
GO_OLDEST = (1, 24)
ASK_TIMEOUT_S = 2.0


class ObjectStore(Component):
    """One server with one disk; a context manager, and ended with the process that owns it."""

    def __init__(self, directory: Path, port: int | None = None) -> None:
        super().__init__("minio", directory)
        self.port = port or free_port()
        self.access_key = "tideline"
        self.secret_key = secrets.token_hex(16)
        self._owner_watch: OwnerWatch | None = None

    @property
    def endpoint(self) -> str:
        """Its address with its keys, as the tests want it."""
        return f"http://{self.access_key}:{self.secret_key}@{HOST}:{self.port}"

    def prepare(self) -> None:
        """Build it where that was not done before."""
        built()
        (self.directory / "data").mkdir(exist_ok=True)

    def command(self) -> list[str]:
        """MinIO's own server, without its console."""
        return [
            str(_binary()),
            "server",
            "--quiet",
            "--address",
            f"{HOST}:{self.port}",
            f"{self.directory}/data",
        ]

    def environment(self) -> dict[str, str]:
        """Keys of our own, and no questions to anybody else."""
        return {
            "MINIO_ROOT_USER": self.access_key,
            "MINIO_ROOT_PASSWORD": self.secret_key,
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
        }

    def ask(self) -> None:
        """It serves when it says that it is ready for reading and writing."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=ASK_TIMEOUT_S)
        try:
            connection.request("GET", "/minio/health/cluster")
            status = connection.getresponse().status
        except http.client.HTTPException as error:
            raise TimeoutError(f"no answer: {error}") from error
        finally:
            connection.close()
        if status != http.client.OK:
            raise TimeoutError(f"not ready: HTTP status {status}")

    def __enter__(self) -> Self:
        built()
        self.directory.mkdir(parents=True, exist_ok=True)
        self._owner_watch = OwnerWatch(self.directory)
        try:
            self.start()
        except BaseException:
            self._owner_watch.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._owner_watch is not None:
            self._owner_watch.close()


def built() -> Path:
    """Return the server's program, built if it is not in the cache.

    Raises Missing without a Go that is new enough, FetchFailed where the source cannot be had, is not the pinned one, or does not
    compile.
    """
    final = _binary()
    if final.exists():
        return final
    _check_go()
    final.parent.mkdir(parents=True, exist_ok=True)
    # Beside its final place, since /tmp may be small: the source of all it is made from, and Go's own cache, take 3 GB.
    with tempfile.TemporaryDirectory(dir=final.parent.parent, prefix="building-") as scratch:
        source = _source(Path(scratch))
        part = Path(scratch) / "minio"
        _go(Path(scratch), "build", "-trimpath", "-ldflags=-s -w", "-o", str(part), ".", within=source)
        part.replace(final)
    return final


def _binary() -> Path:
    return cache_dir() / "go" / f"minio-{VERSION}" / "minio"


def _check_go() -> None:
    if shutil.which("go") is None:
        raise Missing(
            f"an object store is built with Go {GO_OLDEST[0]}.{GO_OLDEST[1]} or newer, and there is none here: install it"
        )
    answer = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=False)
    found = re.match(r"go(\d+)\.(\d+)", answer.stdout)
    if found is None or (int(found[1]), int(found[2])) < GO_OLDEST:
        raise Missing(
            f"Go {GO_OLDEST[0]}.{GO_OLDEST[1]} or newer is needed, this is {answer.stdout.strip() or 'unknown'}"
        )


def _source(scratch: Path) -> Path:
    """Return the directory of the module's source, of which the checksum is right."""
    told = json.loads(_go(scratch, "mod", "download", "-json", f"{MODULE}@{VERSION}", within=scratch))
    if told.get("Sum") != CHECKSUM:
        raise FetchFailed(f"{MODULE} {VERSION}: the checksum is {told.get('Sum')}, and {CHECKSUM} was pinned")
    return Path(told["Dir"])


def _go(scratch: Path, *arguments: str, within: Path) -> str:
    environment = os.environ | {
        "GOPATH": str(scratch / "path"),
        "GOCACHE": str(scratch / "cache"),
        "GOTMPDIR": str(scratch),
        "GOFLAGS": "-modcacherw -mod=readonly -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOSUMDB": "off",
        "GOWORK": "off",
        "CGO_ENABLED": "0",
    }
    done = subprocess.run(
        ["nice", "go", *arguments], cwd=within, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-2000:]
        raise FetchFailed(f"go {arguments[0]} failed; another source of modules: set GOPROXY. {said}")
    return done.stdout


def main(arguments: list[str]) -> int:
    """``run COMMAND…``; the command's exit code."""
    if len(arguments) < 2 or arguments[0] != "run":
        sys.exit("usage: python -m dev.stack.object_store run COMMAND…")
    try:
        with tempfile.TemporaryDirectory() as directory, ObjectStore(Path(directory)) as store:
            environment = os.environ | {VARIABLE: store.endpoint}
            return subprocess.run(arguments[1:], env=environment, check=False).returncode
    except StackError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
