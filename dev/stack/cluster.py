"""The whole stack: Kafka, a source cluster and a target cluster, started side by side in one directory.

A context manager for tests and scripts::

    with Stack(directory) as stack:
        stack.source.sql().run("create database d")

Everything ends with the ``with`` block, or with the process that owns it (``owner_watch.py``); ``detach`` gives up ownership.
The SQL engines start when they are first asked for, since each costs half a gigabyte.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from dev.stack.endpoints import ClusterEndpoints, Endpoints
from dev.stack.hive.java_build import harness_jar
from dev.stack.hive.servers import Metastore, SqlEngine
from dev.stack.hive.sql_session import Session
from dev.stack.process.owner_watch import OwnerWatch
from dev.stack.servers.kafka import Kafka


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import TracebackType

    from dev.stack.hive.settings import ClusterSettings, Database
    from dev.stack.process.component import Component


class HiveCluster:
    """One side: a metastore, and an engine as soon as somebody wants to speak SQL."""

    def __init__(
        self, directory: Path, settings: ClusterSettings | None = None, database: Database | None = None
    ) -> None:
        self.metastore = Metastore(directory, settings=settings, database=database)
        self.engine = SqlEngine(self.metastore)
        self._engine_lock = threading.Lock()

    def sql(self) -> Session:
        """A new session; the first one starts the engine."""
        with self._engine_lock:
            if self.engine.pid is None:
                self.engine.start()
        return Session.connect(self.engine.address)

    def endpoints(self) -> ClusterEndpoints:
        """Where its parts are."""
        layout = self.metastore.layout
        return ClusterEndpoints(
            metastore=self.metastore.uri,
            sql=self.engine.address,
            warehouse=str(layout.warehouse),
            external=str(layout.external),
            cmroot=str(layout.cmroot),
        )


class Stack:
    """Kafka, source and target. ``source`` and ``target`` settings may differ; ``kafka`` takes extra broker properties."""

    def __init__(
        self,
        directory: Path,
        source: ClusterSettings | None = None,
        target: ClusterSettings | None = None,
        kafka: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory.resolve()
        self.kafka = Kafka(self.directory / "kafka", extra=kafka)
        self.source = HiveCluster(self.directory / "source", source)
        self.target = HiveCluster(self.directory / "target", target)
        self._owner_watch: OwnerWatch | None = None

    @property
    def components(self) -> tuple[Component, ...]:
        """Every process, running or not."""
        return (
            self.kafka,
            self.source.metastore,
            self.target.metastore,
            self.source.engine,
            self.target.engine,
        )

    def start(self, *, engines: bool = False) -> None:
        """Start all side by side, the SQL engines too if asked for; the jars must be there.

        Raises ComponentFailed with a log's tail when one does not come up; the others are stopped then.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        self._owner_watch = OwnerWatch(self.directory)
        try:
            harness_jar()
            _side_by_side(
                [self.kafka.start, *(_starter(side, engines) for side in (self.source, self.target))]
            )
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all; fine when some do not run."""
        _side_by_side([component.stop for component in self.components])
        if self._owner_watch is not None:
            self._owner_watch.close()
            self._owner_watch = None

    def detach(self) -> None:
        """Leave everything running when this process ends; ``python -m dev.stack down`` stops it then."""
        if self._owner_watch is not None:
            self._owner_watch.dismiss()
            self._owner_watch = None

    def endpoints(self) -> Endpoints:
        """Where everything is."""
        return Endpoints(
            directory=str(self.directory),
            kafka=self.kafka.bootstrap,
            source=self.source.endpoints(),
            target=self.target.endpoints(),
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _starter(side: HiveCluster, engine: bool) -> Callable[[], None]:  # noqa: FBT001 (private, named at its only call)
    def start() -> None:
        side.metastore.start()
        if engine:
            side.engine.start()

    return start


def _side_by_side(actions: list[Callable[[], None]]) -> None:
    """Run all at once, to the end; raise the first failure afterwards."""
    with ThreadPoolExecutor(len(actions)) as pool:
        running = [pool.submit(action) for action in actions]
    for each in running:
        each.result()
