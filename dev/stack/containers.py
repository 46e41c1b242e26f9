"""Runs the same stack in containers, through testcontainers: the launchers of this package run in the
project's own images. It makes no difference for tests. The endpoints on 127.0.0.1 are the same, because each
container publishes its port under the same number. The files are the same, because the directory of a cluster
is mounted under its own path and written as the user who runs the test. Images are built from
``images/Dockerfile`` and the cache, so a build needs no network; their tag is the hash of their content.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import docker
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from dev.stack.docker_engine import BASE_IMAGE
from dev.stack.downloads.jars import cache_dir, locate_jars, read_lock
from dev.stack.endpoints import ClusterEndpoints, Endpoints
from dev.stack.hive.java_build import build_harness, hash_harness
from dev.stack.hive.servers import Metastore, SqlEngine
from dev.stack.process.component import Component, wait_until_ready
from dev.stack.process.java_runtime import find_java
from dev.stack.servers.kafka import Kafka


Server = Kafka | Metastore | SqlEngine

HERE = Path(__file__).parent
LOG_TAIL_LINES = 30


class ContainerStack:
    """Kafka, source and target with their SQL engines, as five containers on a private network."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()
        self.kafka = Kafka(self.directory / "kafka")
        self.source = Metastore(self.directory / "source")
        self.target = Metastore(self.directory / "target")
        self.engines = {side: SqlEngine(side) for side in (self.source, self.target)}
        self._cleanup = ExitStack()

    def start(self) -> None:
        """Build missing images and start all containers.

        Raises ComponentFailed with the log of one that does not start.
        """
        images = {target: build_image(target) for target in ("kafka", "hive")}
        network = self._cleanup.enter_context(Network())
        for wave in ((self.kafka, self.source, self.target), tuple(self.engines.values())):
            containers = [self._container(images, component).with_network(network) for component in wave]
            with ThreadPoolExecutor(len(wave)) as pool:
                list(pool.map(self._run, wave, containers))

    def _container(self, images: dict[str, str], component: Server) -> DockerContainer:
        container = DockerContainer(images["kafka" if isinstance(component, Kafka) else "hive"])
        container.with_command(self._command(component))
        container.with_bind_ports(component.port, component.port)
        container.with_volume_mapping(str(component.directory), str(component.directory), "rw")
        container.with_volume_mapping(
            "/etc/passwd", "/etc/passwd", "ro"
        )  # Hadoop looks up the name of the user
        container.with_kwargs(user=f"{os.getuid()}:{os.getgid()}")
        return container.with_network_aliases(_alias(component))

    def _command(self, component: Server) -> list[str]:
        command = [component.name, "--dir", str(component.directory), "--port", str(component.port)]
        if isinstance(component, SqlEngine):
            side = next(side for side, engine in self.engines.items() if engine is component)
            command += ["--metastore", f"thrift://{_alias(side)}:{side.port}"]
        return command

    def _run(self, component: Server, container: DockerContainer) -> None:
        component.directory.mkdir(parents=True, exist_ok=True)
        container.start()
        self._cleanup.callback(_stop_container, component, container)
        wrapped = container.get_wrapped_container()

        def alive() -> bool:
            wrapped.reload()
            return bool(wrapped.status == "running")

        def log_tail() -> str:
            return str(wrapped.logs(tail=LOG_TAIL_LINES).decode(errors="replace"))

        wait_until_ready(component, alive, log_tail)

    def stop(self) -> None:
        """Stop all containers and store their logs next to the data."""
        self._cleanup.close()

    def endpoints(self) -> Endpoints:
        """Return the addresses and directories, the same as for processes."""
        return Endpoints(
            directory=str(self.directory),
            kafka=self.kafka.bootstrap,
            source=self._cluster(self.source),
            target=self._cluster(self.target),
        )

    def _cluster(self, side: Metastore) -> ClusterEndpoints:
        return ClusterEndpoints(
            metastore=side.uri,
            sql=self.engines[side].address,
            warehouse=str(side.layout.warehouse),
            external=str(side.layout.external),
            cmroot=str(side.layout.cmroot),
        )

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _alias(component: Component) -> str:
    """Return the name of the component on the network."""
    return f"{component.directory.name}-{component.name}"


def _stop_container(component: Component, container: DockerContainer) -> None:
    component.log.write_bytes(container.get_wrapped_container().logs())
    container.stop()


def build_image(target: str, base: str = BASE_IMAGE) -> str:
    """Build ``images/Dockerfile`` up to ``target`` unless an image of this content exists; return its tag."""
    tag = f"tideline-stack-{target}:{_content_hash(base)}"
    client = docker.from_env()
    if client.images.list(name=tag):
        return tag
    with tempfile.TemporaryDirectory() as context:
        _fill_context(Path(context))
        client.images.build(path=context, target=target, tag=tag, buildargs={"BASE": base}, rm=True)
    return tag


def _content_hash(base: str) -> str:
    digest = hashlib.sha256(f"{base} {hash_harness()}".encode())
    for file in sorted(HERE.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _fill_context(context: Path) -> None:
    shutil.copy(HERE / "images" / "Dockerfile", context)
    shutil.copytree(find_java().parent.parent, context / "java", copy_function=_link)
    shutil.copytree(HERE, context / "dev" / "stack", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE.parent / "__init__.py", context / "dev")
    cache = cache_dir()
    for name in ("kafka", "hive"):
        for jar in locate_jars(read_lock(name)):
            _link(jar, context / f"cache-{name}" / jar.relative_to(cache))
    _link(build_harness(), context / "cache-hive" / build_harness().relative_to(cache))
    template = Metastore.template_path()
    if not template.exists():
        with tempfile.TemporaryDirectory() as scratch:
            Metastore(Path(scratch)).prepare()
    shutil.copytree(template, context / "cache-hive" / template.relative_to(cache))


def _link(source: Path | str, target: Path | str) -> None:
    """Create a hard link if possible, because the context has half a gigabyte; otherwise copy."""
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
