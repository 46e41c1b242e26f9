"""Metrics of the catalog: what is kept, loaded, refused and published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge


if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from daemon.consumer.metrics import ProjectionMetrics


class CatalogMetrics:
    """What catalogs count, beside the metrics of every projection."""

    def __init__(self, registry: CollectorRegistry, projections: ProjectionMetrics) -> None:
        names = ("projection",)
        self.projections = projections
        self.timelines = Gauge("tideline_timelines", "Timelines that are kept.", names, registry=registry)
        self.runs = Gauge(
            "tideline_timeline_runs", "Runs of all timelines together.", names, registry=registry
        )
        self.waiting = Gauge(
            "tideline_timeline_tables_loading", "Tables that wait to be loaded.", names, registry=registry
        )
        self.loads = Counter(
            "tideline_timeline_rebuilds",
            "Tables loaded from the source, by reason.",
            (*names, "reason"),
            registry=registry,
        )
        self.drift = Counter(
            "tideline_timeline_drift",
            "Timelines that a check found to differ from the source.",
            names,
            registry=registry,
        )
        self.refused = Counter(
            "tideline_timeline_values_refused",
            "Partition values that were not taken: no-time or stray.",
            (*names, "reason"),
            registry=registry,
        )
        self.published = Counter(
            "tideline_timelines_published",
            "Tables whose properties were to be written, by outcome.",
            (*names, "outcome"),
            registry=registry,
        )


class CatalogObserver:
    """Counts what the catalog of one source reports (``handlers.catalog.observer.Observer``)."""

    def __init__(self, metrics: CatalogMetrics, projection: str) -> None:
        self._metrics = metrics
        self._projection = projection

    def event_applied(self, kind: str) -> None:
        """An event changed what is followed."""
        self._metrics.projections.count_applied(self._projection, kind)

    def event_skipped(self, reason: str) -> None:
        """An event changed nothing."""
        self._metrics.projections.count_skipped(self._projection, reason)

    def table_loaded(self, reason: str) -> None:
        """A table was loaded from the source."""
        self._metrics.loads.labels(self._projection, reason).inc()

    def table_quarantined(self, code: str) -> None:
        """A table was quarantined."""
        self._metrics.projections.count_quarantined(self._projection, code)

    def values_refused(self, reason: str, count: int) -> None:
        """Partition values were not taken."""
        self._metrics.refused.labels(self._projection, reason).inc(count)

    def published(self, outcome: str) -> None:
        """A table's properties were written, or not."""
        self._metrics.published.labels(self._projection, outcome).inc()

    def count_drift(self, count: int) -> None:
        """Count timelines that a check found to differ from the source."""
        self._metrics.drift.labels(self._projection).inc(count)

    def set_sizes(self, timelines: int, runs: int) -> None:
        """Set how many timelines and runs are kept now."""
        self._metrics.timelines.labels(self._projection).set(timelines)
        self._metrics.runs.labels(self._projection).set(runs)

    def set_waiting(self, tables: int) -> None:
        """Set how many tables wait to be loaded."""
        self._metrics.waiting.labels(self._projection).set(tables)
