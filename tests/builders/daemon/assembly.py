"""The daemon's parts put together as the service does it, without starting anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, disable_created_metrics
from starlette.applications import Starlette
from starlette.routing import Route

from daemon.capability import Parts, Runtime
from daemon.config.model import Config
from daemon.consumer.metrics import ProjectionMetrics
from daemon.endpoint.metrics import EndpointMetrics
from daemon.http.actions import Audit, Recorded
from daemon.http.metrics import HttpMetrics
from daemon.process.loops.loop import Job
from daemon.process.metrics import LoopMetrics
from daemon.replica.http.pages import PolicySite, policy_pages
from daemon.service.capabilities import all_sections
from daemon.service.configuration import config_model
from daemon.service.lifecycle import build_parts
from daemon.site.routes import site_routes
from daemon.sources.connections import CallMetrics
from daemon.sources.shared_readers import SharedReaders
from daemon.state_directory.volume import VolumeCollector
from daemon.status.history import HistoryPoint
from daemon.status.metrics import StatusCollector
from daemon.status.model import DaemonStatus
from daemon.status.routes import Views, status_routes
from daemon.waits.metrics import WaitMetrics
from daemon.waits.waits import Waits
from tests.builders.daemon.loops import daemon_status


SECTIONS = all_sections()
"""The status sections of all capabilities."""


def config_of(values: dict[str, object] | None = None) -> Config:
    """Return a configuration with the sections of all capabilities."""
    return config_model().model_validate(values or {})


def registry_of(status: Callable[[], DaemonStatus] = daemon_status) -> CollectorRegistry:
    """Return a registry that reads ``status`` at each scrape."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # as the service does
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StatusCollector(status, SECTIONS))
    return registry


def _refuse(job: Job) -> None:
    raise AssertionError(f"nothing runs, so {job.name} cannot be started")


def runtime_of(
    config: Config | None = None,
    *,
    status: Callable[[], DaemonStatus] = daemon_status,
    relays_only: bool = False,
    config_file: Path | None = None,
    start_job: Callable[[Job], None] = _refuse,
) -> Runtime:
    """Return what capabilities build their parts from, with a registry of its own. Jobs can be started only
    with ``start_job``."""
    registry = registry_of(status)
    config = config or config_of()
    return Runtime(
        config=config,
        config_file=config_file,
        registry=registry,
        calls=CallMetrics(registry),
        readers=SharedReaders(config),
        projections=ProjectionMetrics(registry, LoopMetrics(registry)),
        status=status,
        sections=SECTIONS,
        waits=Waits(config.http.waits_max, WaitMetrics(registry)),
        relays_only=relays_only,
        start_job=start_job,
        audit=Audit(),
    )


def parts_of(
    config: Config | None = None, *, relays_only: bool = False, config_file: Path | None = None
) -> Parts:
    """Return the parts of all capabilities."""
    return build_parts(runtime_of(config, relays_only=relays_only, config_file=config_file))


def full_registry(status: Callable[[], DaemonStatus] = daemon_status) -> CollectorRegistry:
    """Return a registry with the metrics of all capabilities."""
    runtime = runtime_of(status=status)
    build_parts(runtime)
    EndpointMetrics(runtime.registry)  # has a process and a registry of its own
    HttpMetrics(runtime.registry)  # registered by the service
    runtime.registry.register(VolumeCollector(runtime.config.state.dir))
    return runtime.registry


def app_of(
    *routes: Route,
    status: Callable[[], DaemonStatus] = daemon_status,
    stuck: Callable[[], Sequence[str]] = tuple,
    registry: CollectorRegistry | None = None,
    history: Callable[[], Sequence[HistoryPoint]] = tuple,
    policies: PolicySite | None = None,
    actions: Callable[[], Sequence[Recorded]] = tuple,
) -> Starlette:
    """Return the HTTP application with ``routes`` beside those of the status."""
    views = Views(status, stuck, registry or registry_of(status), 300, SECTIONS)
    return Starlette(
        routes=site_routes(
            status,
            SECTIONS,
            [*policy_pages(policies or PolicySite(status, SECTIONS)), *status_routes(views), *routes],
            history,
            actions,
        )
    )
