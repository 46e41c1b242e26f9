"""The protocol through which a capability adds its parts to the daemon.

A capability is one package of ``daemon``: replicas, timelines or flat tables, for example. Its module
``capability`` has a subclass of ``Capability``, listed in ``daemon.service.capabilities``; nothing else
refers to it. Methods import their dependencies when called, because ``tideline --help`` reads the list too
and must not import Kafka or pydantic.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from prometheus_client import CollectorRegistry
    from starlette.routing import Route

    from daemon.config.document import Document, Problem
    from daemon.config.model import Config
    from daemon.config.section import ConfigSection
    from daemon.consumer.metrics import ProjectionMetrics
    from daemon.http.actions import Audit
    from daemon.process.loops.loop import Job
    from daemon.sources.connections import CallMetrics
    from daemon.sources.shared_readers import SharedReaders
    from daemon.status.model import DaemonStatus, StatusSection
    from daemon.status.reporter import ProjectionPart, SectionPart, SourcePart
    from daemon.waits.conditions import WaitKind
    from daemon.waits.waits import Waits


class Nudges:
    """Wakes the relay of a source, so that it reads the notification log at once instead of after its pause.

    Thread-safe. A nudge stays set until the relay takes it, so none is lost between two pauses.
    """

    def __init__(self) -> None:
        self._events: dict[str, threading.Event] = {}

    def of(self, source: str) -> threading.Event:
        """Return the flag that makes the relay of this source read at once."""
        return self._events.setdefault(source, threading.Event())


@dataclass(frozen=True, slots=True)
class Command:
    """A command of ``tideline``. Its module is imported when the command is called."""

    name: str
    module: str
    """The module that defines the click command of this name."""
    help: str
    is_internal: bool = False
    """Whether only Tideline or Spark call the command; ``--help`` does not list it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The configuration and the shared services from which a capability builds its parts."""

    config: Config
    config_file: Path | None
    """The file of the configuration, for child processes, which read it themselves."""
    registry: CollectorRegistry
    calls: CallMetrics
    readers: SharedReaders
    """Read the topic of each source once for all of its projections."""
    projections: ProjectionMetrics
    status: Callable[[], DaemonStatus]
    sections: Sequence[StatusSection[Any]] = ()
    """The sections of the status, of all capabilities."""
    relays_only: bool = False
    """Whether only relays run (``tideline relay``)."""
    start_job: Callable[[Job], None]
    """Starts a further loop while the daemon runs. The status shows its projection from then on
    (``Parts.later_projections``)."""
    nudges: Nudges = field(default_factory=Nudges)
    """Make the relay of a source read at once."""
    waits: Waits
    """Clients that wait for the progress of a projection."""
    audit: Audit
    """The record of the actions done over HTTP."""

    def newest_event_id(self, source: str) -> int | None:
        """Return the newest event id of a source; None while the source is unreadable."""
        return self.status().newest_event_id(source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A capability's additions to the daemon. Building parts opens no connection and no file."""

    jobs: Sequence[Job] = ()
    sources: Sequence[SourcePart] = ()
    projections: Sequence[ProjectionPart] = ()
    later_projections: Sequence[Callable[[], Sequence[ProjectionPart]]] = ()
    """Functions that return the projections whose loops were started later."""
    sections: Sequence[SectionPart[Any]] = ()
    """Further sections of the status."""
    routes: Sequence[Route] = ()
    wait_kinds: Sequence[WaitKind[Any]] = ()
    """Conditions of waits over HTTP."""
    close: Sequence[Callable[[], None]] = field(default=())
    """Functions to call after the loops and the HTTP server have stopped."""


class Capability:
    """Base class of the capabilities. Each one overrides the methods for the parts that it has."""

    commands: Sequence[Command] = ()
    heading: str = ""
    """Heading of its commands in ``tideline --help``; capabilities may share one."""
    divides_policies: bool = False
    """Whether each of several daemons runs a share of it; otherwise daemon 0 runs all of it."""

    def config_sections(self) -> Sequence[ConfigSection[Any]]:
        """Return the sections of the configuration that the capability adds."""
        return ()

    def cross_problems(self, document: Document) -> Iterable[Problem]:
        """Yield contradictions between its settings and those of other sections."""
        del document
        return ()

    def status_sections(self) -> Sequence[StatusSection[Any]]:
        """Return the sections of the daemon's status that the capability adds."""
        return ()

    def build(self, runtime: Runtime) -> Parts:
        """Return the loops, status parts and routes, and register the metrics with ``runtime.registry``."""
        del runtime
        return Parts()

    def live_problems(self, config: Config) -> Iterable[Problem]:
        """Yield problems of the running systems (``tideline config check --live``)."""
        del config
        return ()
