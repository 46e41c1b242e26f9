"""Metrics of the supervisor's loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter


if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class LoopMetrics:
    """Failures and restarts of loops; thread-safe, never raises."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.errors = Counter(
            "tideline_errors",
            "Errors that ended a loop's run or quarantined a table, by code.",
            ("loop", "code"),
            registry=registry,
        )
        self.restarts = Counter(
            "tideline_loop_restarts", "New runs of a loop after a failure.", ("loop",), registry=registry
        )

    def loop_failed(self, loop: str, code: str) -> None:
        """Count an error that ended a loop's run, or that quarantined a table of its projection."""
        self.errors.labels(loop, code).inc()

    def loop_restarted(self, loop: str) -> None:
        """Count a new run after a failure."""
        self.restarts.labels(loop).inc()
