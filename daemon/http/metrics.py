"""Metrics of the HTTP servers: refusals, by reason."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from prometheus_client import Counter

from daemon.process.metrics import Metric, MetricTable


class HttpMetrics(MetricTable):
    """Refusals; thread-safe, never raises."""

    refused = Metric(
        Counter,
        "tideline_http_refused",
        "Connections and requests that an HTTP listener refused or closed, by reason: connections, address, "
        "descriptors, tls, head, body, unread, answer (limits of connections and of time), busy, memory "
        "(limits of answers), unauthenticated, forbidden (access).",
        "listener",
        "reason",
    )

    def refused_by(self, listener: str) -> Callable[..., None]:
        """Return the counter of one listener's refusals, by reason; a second argument is their number."""
        return partial(self._refuse, listener)

    def _refuse(self, listener: str, reason: str, number: int = 1) -> None:
        self.refused.labels(listener, reason).inc(number)
