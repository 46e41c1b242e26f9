"""The metastore client with a stopwatch: how long each call takes, and how it fails.

It measures where a call enters the client, so reconnects and retries are included: that is what the caller waits for.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

from prometheus_client import Counter, Histogram

from daemon.process import buckets
from handlers.metastore.client import Metastore
from state.errors import TidelineError


if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from handlers.metastore.calls import AnyCall


R = TypeVar("R")


class CallMetrics:
    """Metrics of metastore calls, labeled by cluster; thread-safe, never raises."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.call_s = Histogram(
            "tideline_metastore_call_seconds",
            "Time of one metastore call.",
            ("cluster", "call"),
            buckets=buckets.CALL_S,
            registry=registry,
        )
        self.errors = Counter(
            "tideline_metastore_call_errors",
            "Metastore calls that failed, by error code.",
            ("cluster", "call", "code"),
            registry=registry,
        )


def measured_metastore(metrics: CallMetrics, cluster: str) -> type[Metastore]:
    """Return the client's class for ``cluster`` (the name of a source or target); its clones are measured too."""

    class MeasuredMetastore(Metastore):
        """Counts the calls that go through it."""

        def _invoke(self, call: AnyCall[R], *arguments: Any) -> R:
            started = time.perf_counter()
            try:
                return super()._invoke(call, *arguments)
            except TidelineError as error:
                metrics.errors.labels(cluster, call.name, error.code).inc()
                raise
            finally:
                metrics.call_s.labels(cluster, call.name).observe(time.perf_counter() - started)

    return MeasuredMetastore
