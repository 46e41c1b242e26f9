"""Puts the parts of all capabilities together: loops, status sections, routes and the metrics registry."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics

from daemon.capability import Parts
from daemon.service.capabilities import CAPABILITIES
from daemon.status.metrics import StatusCollector


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemon.capability import Runtime
    from daemon.status.model import DaemonStatus, StatusSection


def all_sections() -> Sequence[StatusSection[Any]]:
    """Return the status sections of all capabilities, in the order in which they are printed."""
    return [section for capability in CAPABILITIES for section in capability.status_sections()]


def process_registry(
    status: Callable[[], DaemonStatus], sections: Sequence[StatusSection[Any]]
) -> CollectorRegistry:
    """Return the registry of the process, with what is read from its status and from the kernel.

    Names start with ``tideline_`` and end in their base unit. Labels are names from the configuration, event types and error
    codes, which are few. Tables are not labels, since there may be a million: how many are quarantined is a metric, which ones is
    in ``/api/v1/status``. docs/METRICS.md lists every metric; a test compares the two.
    """
    disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter, which nobody reads
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StatusCollector(status, sections))
    ProcessCollector(registry=registry)
    return registry


def build_parts(runtime: Runtime) -> Parts:
    """Return the parts of all capabilities; opens no connection and no file."""
    parts = [capability.build(runtime) for capability in CAPABILITIES]

    def joined(of: Callable[[Parts], Sequence[Any]]) -> tuple[Any, ...]:
        return tuple(chain.from_iterable(map(of, parts)))

    return Parts(
        jobs=joined(lambda part: part.jobs),
        sources=joined(lambda part: part.sources),
        projections=joined(lambda part: part.projections),
        sections=joined(lambda part: part.sections),
        routes=joined(lambda part: part.routes),
        close=joined(lambda part: part.close),
    )
