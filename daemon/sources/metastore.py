"""The metastore's client with a stopwatch: how long each kind of call takes, and how it fails.

Measured where a call enters the client, so reconnecting and repeating are part of it: that is what the caller waits for.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

from handlers.metastore.client import Metastore
from state.errors import TidelineError


if TYPE_CHECKING:
    from daemon.service.metrics import Metrics
    from handlers.metastore.calls import AnyCall


R = TypeVar("R")


def measured_metastore(metrics: Metrics, cluster: str) -> type[Metastore]:
    """Return the client's class for ``cluster`` (a source's or target's name); its clones are measured too."""

    class MeasuredMetastore(Metastore):
        """Counts what goes through it."""

        def _invoke(self, call: AnyCall[R], *arguments: Any) -> R:
            started = time.perf_counter()
            try:
                return super()._invoke(call, *arguments)
            except TidelineError as error:
                metrics.call_errors.labels(cluster, call.name, error.code).inc()
                raise
            finally:
                metrics.call_s.labels(cluster, call.name).observe(time.perf_counter() - started)

    return MeasuredMetastore
