"""What a capability offers to the process, and what it is given to build its parts from.

A capability is one package of ``daemon``: replicas, timelines, flat tables and so on. It subclasses ``Capability`` in its module
``capability`` and appears in the list of ``daemon.service.capabilities``; nothing else names it. Methods import what they need
when they are called, because the list is also read by ``tideline --help``, which must not import Kafka or pydantic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from prometheus_client import CollectorRegistry
    from starlette.routing import Route

    from daemon.config.document import Document
    from daemon.config.model import Config
    from daemon.config.problem import Problem
    from daemon.config.section import ConfigSection
    from daemon.consumer.metrics import ProjectionMetrics
    from daemon.process.supervisor import Job
    from daemon.sources.connections import CallMetrics
    from daemon.status.model import DaemonStatus, StatusSection
    from daemon.status.reporter import ProjectionPart, SectionPart, SourcePart


@dataclass(frozen=True, slots=True)
class Command:
    """A command of ``tideline``; its module is imported when it is called."""

    name: str
    module: str
    """Module that defines the click command of this name."""
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What the parts of a running daemon are built from."""

    config: Config
    config_file: Path | None
    """Where the configuration was read from, for child processes that read it themselves."""
    registry: CollectorRegistry
    calls: CallMetrics
    projections: ProjectionMetrics
    status: Callable[[], DaemonStatus]
    relays_only: bool = False
    """Whether only relays run (``tideline relay``)."""

    def newest_event_id(self, source: str) -> int | None:
        """Return the newest event id of a source, as last seen."""
        return next((row.current_event_id for row in self.status().sources if row.name == source), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What one capability adds to the daemon. Building parts opens no connection and no file."""

    jobs: Sequence[Job] = ()
    sources: Sequence[SourcePart] = ()
    projections: Sequence[ProjectionPart] = ()
    sections: Sequence[SectionPart[Any]] = ()
    """Further sections of the status."""
    routes: Sequence[Route] = ()
    close: Sequence[Callable[[], None]] = field(default=())
    """Called after the loops and HTTP have ended."""


class Capability:
    """The protocol; a capability overrides what it has."""

    commands: Sequence[Command] = ()

    def config_sections(self) -> Sequence[ConfigSection[Any]]:
        """Return its sections of the configuration."""
        return ()

    def cross_problems(self, document: Document) -> Iterable[Problem]:
        """Yield what is wrong between its settings and others."""
        del document
        return ()

    def status_sections(self) -> Sequence[StatusSection[Any]]:
        """Return its sections of the daemon's status: how they read, print and are measured."""
        return ()

    def build(self, runtime: Runtime) -> Parts:
        """Return its loops, status parts and routes; its metrics register with ``runtime.registry``."""
        del runtime
        return Parts()

    def live_problems(self, config: Config) -> Iterable[Problem]:
        """Yield what is wrong with the running systems (``tideline config check --live``)."""
        del config
        return ()
