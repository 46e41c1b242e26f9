"""Finds the databases of a pattern (section ``policy_patterns``), and adds a replica for each.

At start, the replicas that have a state file are followed again at once: the source need not be reachable, and a database that has been
dropped there must be dropped on the target. Others are found by listing the databases of the source's metastore at intervals. A
database is found some seconds after its creation; its bootstrap then loads what was written meanwhile, so nothing is lost.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Protocol

import structlog

from daemon.process.heartbeat import wait
from daemon.process.state_file import state_path
from daemon.process.supervisor import Job
from daemon.replica.policies import STATE_KIND
from daemon.sources.connections import measured_metastore
from state.errors import ConfigError


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from daemon.capability import Runtime
    from daemon.config.model import Config
    from daemon.process.heartbeat import Heartbeat
    from daemon.replica.replicas import Replicas


log = structlog.get_logger(__name__)


class _Databases(Protocol):
    def database_names(self) -> list[str]:
        """Return the names of all databases; raise Transient."""


def known_policies(config: Config) -> Iterator[str]:
    """Yield the policies of patterns that have a state file, by name; those of databases that a pattern no longer covers are left out."""
    for pattern in config.policy_patterns:
        files = state_path(config.state.dir, STATE_KIND, f"{pattern}.*")
        for path in sorted(files.parent.glob(files.name)):
            name = path.name.removeprefix(f"{STATE_KIND}-").removesuffix(".db")
            if config.find_policy(name) is None:
                log.warning("a replica is no longer followed: no pattern covers its database", policy=name)
            else:
                yield name


def discovery_job(runtime: Runtime, pattern: str, replicas: Replicas) -> Job:
    """Return the loop that finds the databases of ``pattern`` and adds their replicas while the daemon runs."""
    start = partial(replicas.add, start=runtime.start_job)
    return Job(f"databases:{pattern}", partial(_run, runtime, pattern, start))


def _run(runtime: Runtime, pattern: str, start: Callable[[str], None], heartbeat: Heartbeat) -> None:
    settings = runtime.config.policy_patterns[pattern]
    addresses = runtime.config.sources[settings.source].metastore
    discovery = DatabaseDiscovery(runtime.config, pattern, start)
    with closing(measured_metastore(runtime.calls, settings.source, heartbeat.beat)(addresses)) as source:
        while not heartbeat.stopping.is_set():
            discovery.look(source)
            heartbeat.following()
            heartbeat.progress()
            wait(heartbeat, settings.discover_s)


class DatabaseDiscovery:
    """Starts the replica of each database once."""

    def __init__(self, config: Config, pattern: str, start: Callable[[str], None]) -> None:
        self._config = config
        self._pattern = pattern
        self._start = start
        self._started: set[str] = set()

    def look(self, source: _Databases) -> None:
        """Start the replicas of databases that are new; raise the first ConfigError after all others were started, and Transient."""
        problems = list(self._start_all(source.database_names()))
        if problems:
            raise problems[0]

    def _start_all(self, databases: Iterable[str]) -> Iterator[ConfigError]:
        for database in sorted(databases):
            name = f"{self._pattern}.{database}"
            if name in self._started or self._config.find_policy(name) is None:
                continue
            try:
                self._start(name)
            except ConfigError as error:
                yield error
                continue
            log.info("database found", policy=name, database=database)
            self._started.add(name)
