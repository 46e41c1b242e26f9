"""What the process measures, in one registry of its own.

Names start with ``tideline_`` and end in their base unit. Labels are names from the configuration, event types and error codes:
few and known. Tables are no labels, since there may be a million; how many of them are quarantined is a figure, which ones is in
``/api/v1/status``. Positions, lags and states are not stored here but asked for when somebody scrapes (``StatusCollector``), so
that they cannot be stale. docs/METRICS.md lists everything; a test compares the two.

Parts that count do not know this module: each names the few methods it calls in a Protocol of its own, and gets a view.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

from daemon.flat.metrics import FlatMetrics
from daemon.keys.metrics import MiningMetrics
from daemon.partitions.metrics import PartitionMetrics
from daemon.process import buckets
from daemon.status.metrics import StatusCollector


if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.status.model import DaemonStatus


TYPES_MAX: Final = 80
"""Distinct event types that get a series of their own: Hive has some fifty; what a hostile topic makes up is ``other``."""


class Metrics:
    """The registry and its metrics; all methods are thread-safe and never raise."""

    def __init__(self, status: Callable[[], DaemonStatus] | None = None, *, process: bool = True) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series per counter, which nobody asks for
        self.registry = CollectorRegistry(auto_describe=False)
        self._make_projection_metrics()
        self._make_process_metrics()
        self._make_timeline_metrics()
        self.partitions = PartitionMetrics(self.registry)
        self.flat = FlatMetrics(self.registry)
        self.mining = MiningMetrics(self.registry)
        self._types: set[str] = set()
        self._lock = threading.Lock()
        if status is not None:
            self.registry.register(StatusCollector(status))
        if process:
            ProcessCollector(registry=self.registry)

    def _make_projection_metrics(self) -> None:
        names, registry = ("projection",), self.registry
        self.applied = Counter(
            "tideline_events_applied", "Events that took effect.", (*names, "type"), registry=registry
        )
        self.skipped = Counter(
            "tideline_events_skipped",
            "Events without effect, by reason.",
            (*names, "reason"),
            registry=registry,
        )
        self.silent_commits = Counter(
            "tideline_commits_without_files",
            "Commits that had write ids but no write events: dml.events is off or a writer is silent.",
            names,
            registry=registry,
        )
        self.apply_s = Histogram(
            "tideline_apply_seconds",
            "Time to apply one event.",
            names,
            buckets=buckets.APPLY_S,
            registry=registry,
        )
        self.visible_s = Histogram(
            "tideline_commit_to_visible_seconds",
            "Time from an event on the source to its effect here (a commit: visible), of the last event of each batch; event "
            "times are whole seconds of the source's clock.",
            names,
            buckets=buckets.VISIBLE_S,
            registry=registry,
        )

    def _make_process_metrics(self) -> None:
        registry = self.registry
        self.call_s = Histogram(
            "tideline_metastore_call_seconds",
            "Time of one metastore call.",
            ("cluster", "call"),
            buckets=buckets.CALL_S,
            registry=registry,
        )
        self.call_errors = Counter(
            "tideline_metastore_call_errors",
            "Metastore calls that failed, by error code.",
            ("cluster", "call", "code"),
            registry=registry,
        )
        self.errors = Counter(
            "tideline_errors",
            "Errors that ended a loop's run or confined a table, by code.",
            ("loop", "code"),
            registry=registry,
        )
        self.restarts = Counter(
            "tideline_loop_restarts", "New runs of a loop after a failure.", ("loop",), registry=registry
        )

    def _make_timeline_metrics(self) -> None:
        names, registry = ("projection",), self.registry
        self.timelines = Gauge("tideline_timelines", "Timelines that are kept.", names, registry=registry)
        self.timeline_runs = Gauge(
            "tideline_timeline_runs", "Runs of all timelines together.", names, registry=registry
        )
        self.timeline_waiting = Gauge(
            "tideline_timeline_tables_loading", "Tables that wait to be loaded.", names, registry=registry
        )
        self.timeline_loads = Counter(
            "tideline_timeline_rebuilds",
            "Tables loaded from the source, by reason.",
            (*names, "reason"),
            registry=registry,
        )
        self.timeline_drift = Counter(
            "tideline_timeline_drift",
            "Timelines that a check found to differ from the source.",
            names,
            registry=registry,
        )
        self.timeline_refused = Counter(
            "tideline_timeline_values_refused",
            "Partition values that were not taken: no-time or stray.",
            (*names, "reason"),
            registry=registry,
        )
        self.timeline_published = Counter(
            "tideline_timelines_published",
            "Tables whose properties were to be written, by outcome.",
            (*names, "outcome"),
            registry=registry,
        )

    def type_label(self, kind: str) -> str:
        """Return ``kind`` while there are few, else ``other``."""
        with self._lock:
            if kind in self._types or len(self._types) < TYPES_MAX:
                self._types.add(kind)
                return kind
        return "other"

    def loop_failed(self, loop: str, code: str) -> None:
        """Count an error that ended a loop's run."""
        self.errors.labels(loop, code).inc()

    def loop_restarted(self, loop: str) -> None:
        """Count a new run after a failure."""
        self.restarts.labels(loop).inc()


class ReplicationMeasures:
    """What replay of one policy tells (``handlers.replication.context.Observer``)."""

    def __init__(self, metrics: Metrics, projection: str) -> None:
        self._metrics = metrics
        self._projection = projection
        self._apply_s = metrics.apply_s.labels(projection)

    def event_applied(self, kind: str, seconds: float) -> None:
        """An event in scope took effect on the target in ``seconds``."""
        self._metrics.applied.labels(self._projection, self._metrics.type_label(kind)).inc()
        self._apply_s.observe(seconds)

    def event_skipped(self, kind: str, reason: str) -> None:  # noqa: ARG002 - the port names the type, its series would be many
        """An event had no effect."""
        self._metrics.skipped.labels(self._projection, reason).inc()

    def table_quarantined(self, table: str, code: str) -> None:  # noqa: ARG002 - tables are no labels
        """A table is not followed any more."""
        self._metrics.errors.labels(self._projection, code).inc()

    def transaction_without_files(self, txn_id: int) -> None:  # noqa: ARG002 - ids are no labels
        """A transaction that had write ids committed without a single write event."""
        self._metrics.silent_commits.labels(self._projection).inc()


class CatalogMeasures:
    """What the catalog of one source tells (``handlers.catalog.following.ports.Observer``)."""

    def __init__(self, metrics: Metrics, projection: str) -> None:
        self._metrics = metrics
        self._projection = projection

    def event_applied(self, kind: str) -> None:
        """An event changed what is followed."""
        self._metrics.applied.labels(self._projection, self._metrics.type_label(kind)).inc()

    def event_skipped(self, reason: str) -> None:
        """An event changed nothing."""
        self._metrics.skipped.labels(self._projection, reason).inc()

    def table_loaded(self, reason: str) -> None:
        """A table was loaded from the source."""
        self._metrics.timeline_loads.labels(self._projection, reason).inc()

    def table_quarantined(self, code: str) -> None:
        """A table is not followed any more."""
        self._metrics.errors.labels(self._projection, code).inc()

    def values_refused(self, reason: str, count: int) -> None:
        """Partition values were not taken."""
        self._metrics.timeline_refused.labels(self._projection, reason).inc(count)

    def published(self, outcome: str) -> None:
        """A table's properties were written, or not."""
        self._metrics.timeline_published.labels(self._projection, outcome).inc()

    def drifted(self, count: int) -> None:
        """A check found so many timelines that differ from the source."""
        self._metrics.timeline_drift.labels(self._projection).inc(count)

    def counted(self, timelines: int, runs: int, waiting: int) -> None:
        """So much is kept now, and so many tables wait to be loaded."""
        self._metrics.timelines.labels(self._projection).set(timelines)
        self._metrics.timeline_runs.labels(self._projection).set(runs)
        self._metrics.timeline_waiting.labels(self._projection).set(waiting)
