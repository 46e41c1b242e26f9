"""Collects the parts of all capabilities: loops, status sections and routes; and builds the metrics registry."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from daemon.capability import Parts
from daemon.process.metrics import build_registry
from daemon.service.capabilities import CAPABILITIES
from daemon.status.metrics import StatusCollector


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prometheus_client import CollectorRegistry

    from daemon.capability import Runtime
    from daemon.status.model import DaemonStatus, StatusSection


def all_sections() -> Sequence[StatusSection[Any]]:
    """Return the status sections of all capabilities, in the order in which they are printed."""
    return [section for capability in CAPABILITIES for section in capability.status_sections()]


def process_registry(
    status: Callable[[], DaemonStatus], sections: Sequence[StatusSection[Any]]
) -> CollectorRegistry:
    """Return the registry of the process, with the collectors of its status and of the operating system's process metrics.

    Names start with ``tideline_`` and end with their base unit. Labels are names from the configuration, event types and error codes,
    which are few. Tables are not labels, because there may be a million. The number of quarantined tables is a metric; their names are in
    ``/api/v1/status``. docs/METRICS.md lists every metric, and a test compares the two.
    """
    registry = build_registry()
    registry.register(StatusCollector(status, sections))
    return registry


def build_parts(runtime: Runtime) -> Parts:
    """Return the parts of all capabilities; opens no connection and no file."""
    parts = [capability.build(runtime) for capability in CAPABILITIES]

    def join(field: Callable[[Parts], Sequence[Any]]) -> tuple[Any, ...]:
        return tuple(chain.from_iterable(map(field, parts)))

    return Parts(
        jobs=join(lambda part: part.jobs),
        sources=join(lambda part: part.sources),
        projections=join(lambda part: part.projections),
        found_projections=join(lambda part: part.found_projections),
        sections=join(lambda part: part.sections),
        routes=join(lambda part: part.routes),
        close=join(lambda part: part.close),
    )
