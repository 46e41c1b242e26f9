"""Metrics of the catalog: its timelines and loads, refused partition values, and published properties."""

from __future__ import annotations

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from daemon.consumer.metrics import ProjectionMetrics
from daemon.process.metrics import Metric, MetricTable
from state.errors import TidelineError


log = structlog.get_logger(__name__)


class CatalogMetrics(MetricTable):
    """The metrics of catalogs, in addition to those of every projection."""

    common = ("projection",)

    timelines = Metric(Gauge, "tideline_timelines", "Timelines.")
    runs = Metric(Gauge, "tideline_timeline_runs", "Runs in all timelines.")
    waiting = Metric(Gauge, "tideline_timeline_tables_loading", "Tables waiting for their load.")
    loads = Metric(
        Counter, "tideline_timeline_rebuilds", "Tables loaded from the source, by reason.", "reason"
    )
    drift = Metric(Counter, "tideline_timeline_drift", "Timelines that differed from the source in a check.")
    refused = Metric(
        Counter,
        "tideline_timeline_values_refused",
        "Refused partition values, by reason: no-time or stray.",
        "reason",
    )
    published = Metric(
        Counter,
        "tideline_timelines_published",
        "Attempts to write the timelines of a table into its properties, by outcome.",
        "outcome",
    )

    def __init__(self, registry: CollectorRegistry, projections: ProjectionMetrics) -> None:
        super().__init__(registry)
        self.projections = projections


class CatalogObserver:
    """Counts the reports of one source's catalog (``handlers.catalog.observer.Observer``)."""

    def __init__(self, metrics: CatalogMetrics, projection: str) -> None:
        self._metrics = metrics
        self._projection = projection

    def event_applied(self, kind: str) -> None:
        """Count an event that changed the catalog."""
        self._metrics.projections.count_applied(self._projection, kind)

    def event_skipped(self, reason: str) -> None:
        """Count an event that changed nothing."""
        self._metrics.projections.count_skipped(self._projection, reason)

    def table_loaded(self, reason: str) -> None:
        """Count a table loaded from the source."""
        self._metrics.loads.labels(self._projection, reason).inc()

    def table_quarantined(self, table: str, error: TidelineError) -> None:
        """Count a quarantined table, and log the reason."""
        log.error(
            "table quarantined", projection=self._projection, table=table, code=error.code, reason=str(error)
        )
        self._metrics.projections.count_quarantined(self._projection, error.code)

    def load_failed(self, table: str, error: TidelineError, pause_s: float) -> None:
        """Log a load that failed, and count it as a failure of the loop."""
        log.warning(
            "table cannot be loaded now",
            projection=self._projection,
            table=table,
            code=error.code,
            reason=str(error),
            pause_s=round(pause_s),
        )
        self._metrics.projections.loops.loop_failed(self._projection, error.code)

    def values_refused(self, reason: str, count: int) -> None:
        """Count refused partition values."""
        self._metrics.refused.labels(self._projection, reason).inc(count)

    def published(self, outcome: str) -> None:
        """Count an attempt to write a table's properties."""
        self._metrics.published.labels(self._projection, outcome).inc()

    def count_drift(self, count: int) -> None:
        """Count timelines that a check found to differ from the source."""
        self._metrics.drift.labels(self._projection).inc(count)

    def set_sizes(self, timelines: int, runs: int) -> None:
        """Set the current numbers of timelines and runs."""
        self._metrics.timelines.labels(self._projection).set(timelines)
        self._metrics.runs.labels(self._projection).set(runs)

    def set_waiting(self, tables: int) -> None:
        """Set the number of tables that wait for their load."""
        self._metrics.waiting.labels(self._projection).set(tables)
