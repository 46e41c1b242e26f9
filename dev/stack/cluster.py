"""The complete stack: Kafka, a source cluster and a target cluster, started in parallel in one directory.

A context manager for tests and scripts::

    with Stack(directory) as stack:
        stack.source.sql().run("create database d")

Everything stops at the end of the ``with`` block, or when the owning process ends
(``process/owner_watch.py``), unless the owner has called ``detach``. SQL engines start on first use, because
each takes half a gigabyte of memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dev.stack.endpoints import ClusterEndpoints, Endpoints
from dev.stack.hive.java_build import build_harness
from dev.stack.hive.servers import Metastore, SqlEngine
from dev.stack.hive.settings import ClusterSettings, Database
from dev.stack.hive.sql_session import Session
from dev.stack.process.component import Component
from dev.stack.process.owner_watch import OwnerWatch
from dev.stack.process.started import Started
from dev.stack.servers.kafka import Kafka


class HiveCluster:
    """One cluster: a metastore, and a SQL engine that starts with the first session."""

    def __init__(
        self, directory: Path, settings: ClusterSettings | None = None, database: Database | None = None
    ) -> None:
        self.metastore = Metastore(directory, settings=settings, database=database)
        self.engine = SqlEngine(self.metastore)
        self._engine_lock = threading.Lock()

    def sql(self) -> Session:
        """Open a session; the first one starts the engine."""
        with self._engine_lock:
            if self.engine.pid is None:
                self.engine.start()
        return Session.connect(self.engine.address)

    def endpoints(self) -> ClusterEndpoints:
        """Return the addresses and directories of the cluster. Its settings may place the directories on
        another file system.
        """
        layout, chosen = self.metastore.layout, self.metastore.settings.extra
        return ClusterEndpoints(
            metastore=self.metastore.uri,
            sql=self.engine.address,
            warehouse=chosen.get("hive.metastore.warehouse.dir", str(layout.warehouse)),
            external=chosen.get("hive.metastore.warehouse.external.dir", str(layout.external)),
            cmroot=chosen.get("hive.repl.cmrootdir", str(layout.cmroot)),
        )


class Stack(Started):
    """Kafka, a source and a target. Settings of ``source`` and ``target`` may differ; ``kafka`` adds broker
    properties.

    ``databases`` are those of the two metastores; None for embedded ones.
    """

    def __init__(
        self,
        directory: Path,
        source: ClusterSettings | None = None,
        target: ClusterSettings | None = None,
        kafka: Mapping[str, str] | None = None,
        databases: tuple[Database | None, Database | None] = (None, None),
    ) -> None:
        self.directory = directory.resolve()
        self.kafka = Kafka(self.directory / "kafka", extra=kafka)
        self.source = HiveCluster(self.directory / "source", source, databases[0])
        self.target = HiveCluster(self.directory / "target", target, databases[1])
        self._owner_watch: OwnerWatch | None = None

    @property
    def components(self) -> tuple[Component, ...]:
        """All components, running or not."""
        return (
            self.kafka,
            self.source.metastore,
            self.target.metastore,
            self.source.engine,
            self.target.engine,
        )

    def start(self, *, engines: bool = False) -> None:
        """Start all components in parallel, with ``engines`` also the SQL engines. The jars must have been
        fetched.

        If one does not start, the others are stopped and ComponentFailed is raised with the end of its log.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        self._owner_watch = OwnerWatch(self.directory)
        try:
            build_harness()
            _run_in_parallel(
                [self.kafka.start, *(_make_starter(side, engines) for side in (self.source, self.target))]
            )
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all components that run."""
        _run_in_parallel([component.stop for component in self.components])
        if self._owner_watch is not None:
            self._owner_watch.close()
            self._owner_watch = None

    def detach(self) -> None:
        """Leave everything running when this process ends; ``python -m dev.stack down`` stops it."""
        if self._owner_watch is not None:
            self._owner_watch.dismiss()
            self._owner_watch = None

    def endpoints(self) -> Endpoints:
        """Return the addresses and directories of the stack."""
        return Endpoints(
            directory=str(self.directory),
            kafka=self.kafka.bootstrap,
            source=self.source.endpoints(),
            target=self.target.endpoints(),
        )


def _make_starter(side: HiveCluster, engine: bool) -> Callable[[], None]:  # noqa: FBT001 (private, named at its only call)
    def start() -> None:
        side.metastore.start()
        if engine:
            side.engine.start()

    return start


def _run_in_parallel(actions: list[Callable[[], None]]) -> None:
    """Run all actions in parallel until all have ended, then raise the first failure."""
    with ThreadPoolExecutor(len(actions)) as pool:
        running = [pool.submit(action) for action in actions]
    for each in running:
        each.result()
