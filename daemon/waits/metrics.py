"""Metrics of the waits."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

from daemon.process.metrics import Metric, MetricTable


class WaitMetrics(MetricTable):
    """The metrics; thread-safe, never raises."""

    present = Metric(Gauge, "tideline_waits", "Requests that are waiting for a condition.")
    ended = Metric(
        Counter,
        "tideline_waits_ended",
        "Completed waits, by result: true, timeout, left (the client closed its connection), failed "
        "(such as an unknown name), refused (too many at once).",
        "result",
    )
