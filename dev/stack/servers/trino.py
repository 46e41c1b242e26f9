"""Trino: one server with Hive catalogs, each at a metastore URI. Its archives, 540 MB, are fetched and
unpacked on first use.

It needs Java 24. The pinned wheel is older, because Hive's Hadoop client does not work with that version.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final
from urllib.request import Request, urlopen

from dev.stack.downloads.jars import cache_dir, fetch, find_missing, locate_jars, read_lock
from dev.stack.downloads.maven_repository import find_repository
from dev.stack.process.component import Component
from dev.stack.process.java_runtime import find_newer_java
from dev.stack.process.ports import free_port


HOST: Final = "127.0.0.1"
OLDEST_JAVA: Final = 24
TIMEOUT_S: Final = 300.0
PLACES: Final = {"trino-server-core": "lib", "trino-hive": "plugin/hive", "trino-hdfs": "plugin/hive/hdfs"}
"""Where the jars of an archive belong. The tarball has plugins as well, which are not needed."""
SERVER: Final = """\
coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port={port}
discovery.uri=http://{host}:{port}
plugin.dir={plugins}
query.max-memory=200MB
query.max-memory-per-node=200MB
"""
CATALOG: Final = """\
connector.name=hive
hive.metastore.uri={uri}
fs.hadoop.enabled=true
hive.non-managed-table-writes-enabled=true
"""


class Trino(Component):
    """A coordinator that is its own worker. ``catalogs`` maps the names of Hive catalogs to the URIs of their
    metastores.
    """

    start_timeout_s = 500.0  # 20 s on an idle machine

    def __init__(self, directory: Path, catalogs: Mapping[str, str]) -> None:
        super().__init__("trino", directory)
        self.catalogs = catalogs
        self.archives = read_lock("trino")
        self.port = free_port()

    @property
    def home(self) -> Path:
        """The directory with the unpacked archives, which all clones of the repository share."""
        return cache_dir() / "trino" / self.archives[0].sha256[:12]

    def prepare(self) -> None:
        """Fetch and unpack missing archives, and write the configuration."""
        if not self.home.exists():
            if find_missing(self.archives):
                fetch(self.archives, find_repository())
            self._unpack()
        server = SERVER.format(host=HOST, port=self.port, plugins=self.home / "plugin")
        (self.directory / "config.properties").write_text(server)
        (self.directory / "log.properties").write_text("io.trino=INFO\n")
        catalogs = self.directory / "catalog"
        catalogs.mkdir(exist_ok=True)
        for name, uri in self.catalogs.items():
            (catalogs / f"{name}.properties").write_text(CATALOG.format(uri=uri))

    def _unpack(self) -> None:
        self.home.parent.mkdir(parents=True, exist_ok=True)
        with self.home.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self.home.exists():
                return
            part = self.home.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            for archive, path in zip(self.archives, locate_jars(self.archives), strict=True):
                unpack_jars(path, part / PLACES[archive.coordinates.split(":")[1]])
            part.rename(self.home)

    def command(self) -> list[str]:
        """The command of Trino's own server, with the JVM options that it requires."""
        return [
            str(find_newer_java(OLDEST_JAVA)),
            "-Xmx1g",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "--add-modules=jdk.incubator.vector",
            "--add-opens=java.base/java.nio=ALL-UNNAMED",
            "--sun-misc-unsafe-memory-access=allow",
            "--enable-native-access=ALL-UNNAMED",
            "-Dnode.environment=test",
            f"-Dnode.internal-address={HOST}",
            f"-Dnode.bind-ip={HOST}",
            f"-Dnode.data-dir={self.directory}/data",
            f"-Dconfig={self.directory}/config.properties",
            f"-Dlog.levels-file={self.directory}/log.properties",
            f"-Dcatalog.config-dir={self.directory}/catalog",
            "-cp",
            f"{self.home}/lib/*",
            "io.trino.server.TrinoServer",
        ]

    def check_ready(self) -> None:
        """Check that it reports that it has started."""
        with urlopen(f"http://{HOST}:{self.port}/v1/info", timeout=5) as answer:
            if json.load(answer)["starting"]:
                raise TimeoutError("the server is starting")

    def run(self, catalog: str, statement: str) -> list[list[Any]]:
        """Run a statement in a catalog and return its rows; if it fails, raise ValueError with Trino's
        message.
        """
        request = Request(  # noqa: S310 - this machine
            f"http://{HOST}:{self.port}/v1/statement",
            data=statement.encode(),
            headers={"X-Trino-User": "test", "X-Trino-Catalog": catalog},
        )
        return [row for page in _pages(request) for row in page]


def _pages(request: Request | str | None) -> Iterator[list[list[Any]]]:
    """Yield the pages of an answer; each page has the address of the next one."""
    while request is not None:
        with urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 - as above
            page = json.load(answer)
        if "error" in page:
            raise ValueError(page["error"]["message"])
        yield page.get("data", [])
        request = page.get("nextUri")


def unpack_jars(archive: Path, target: Path) -> None:
    """Copy the jars of an archive into a directory: those in ``lib`` of a tarball, or all of a zip file."""
    target.mkdir(parents=True, exist_ok=True)
    for name, content in _jars_in(archive):
        with content, (target / name.rpartition("/")[2]).open("wb") as out:
            shutil.copyfileobj(content, out)


def _jars_in(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as zipped:
            for name in zipped.namelist():
                if name.endswith(".jar"):
                    yield name, zipped.open(name)
        return
    with tarfile.open(archive) as tarred:
        for member in tarred:
            content = tarred.extractfile(member) if member.name.split("/")[1:2] == ["lib"] else None
            if content is not None:  # a file, not the directory itself
                yield member.name, content
