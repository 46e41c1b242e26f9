"""Metrics of all projections: events applied and skipped, and the delay from the source to their effect."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from daemon.process.metrics import APPLY_BUCKETS_S, VISIBLE_BUCKETS_S, LoopMetrics, Metric, MetricTable


TYPES_MAX: Final = 80
"""Number of event types with their own series. Hive has about fifty; a topic can contain any, so all
others share ``other``."""


class ProjectionMetrics(MetricTable):
    """The metrics, labeled by projection; thread-safe, never raises."""

    common = ("projection",)

    applied = Metric(Counter, "tideline_events_applied", "Events applied, by type.", "type")
    skipped = Metric(
        Counter,
        "tideline_events_skipped",
        "Events without effect on the projection, by reason.",
        "reason",
    )
    apply_s = Metric(Histogram, "tideline_apply_seconds", "Time to apply one event.", buckets=APPLY_BUCKETS_S)
    visible_s = Metric(
        Histogram,
        "tideline_commit_to_visible_seconds",
        "Delay from an event on the source to its effect, for the last event of each batch. For a commit, "
        "the effect is the visibility of its rows. Event times have the source's clock and whole seconds.",
        buckets=VISIBLE_BUCKETS_S,
    )
    stage_s = Metric(
        Histogram,
        "tideline_commit_stage_seconds",
        "Stages of tideline_commit_to_visible_seconds: relay (until the record is in the topic), read (until "
        "it is decoded), queue (until its batch begins) and apply (until the batch is applied).",
        "stage",
        buckets=VISIBLE_BUCKETS_S,
    )

    def __init__(self, registry: CollectorRegistry, loops: LoopMetrics) -> None:
        super().__init__(registry)
        self.loops = loops
        self.series = loops.series
        self.series.register(self)
        self._types: set[str] = set()
        self._lock = threading.Lock()

    def type_label(self, kind: str) -> str:
        """Return ``kind``, or ``other`` for a new type once there are ``TYPES_MAX`` labels."""
        with self._lock:
            if kind in self._types or len(self._types) < TYPES_MAX:
                self._types.add(kind)
                return kind
        return "other"

    def count_applied(self, projection: str, kind: str) -> None:
        """Count an applied event."""
        self.applied.labels(self.series.label(projection), self.type_label(kind)).inc()

    def count_skipped(self, projection: str, reason: str) -> None:
        """Count an event that had no effect."""
        self.skipped.labels(self.series.label(projection), reason).inc()

    def count_quarantined(self, projection: str, code: str) -> None:
        """Count a quarantined table."""
        self.loops.loop_failed(projection, code)

    def observe_visible(self, projection: str, event_id: int, event_time_s: int) -> None:
        """Observe the delay between an event at ``event_time_s`` (Unix time) and its effect, which is visible
        now.
        """
        delay_s = max(0.0, time.time() - event_time_s)
        self.visible_s.labels(self.series.label(projection)).observe(delay_s, _exemplar(event_id))

    def observe_stages(self, projection: str, event_id: int, stages_s: Mapping[str, float]) -> None:
        """Observe how long each stage took; the argument of a stage is ``NAME_s``."""
        label, exemplar = self.series.label(projection), _exemplar(event_id)
        for name, seconds in stages_s.items():
            self.stage_s.labels(label, name.removesuffix("_s")).observe(seconds, exemplar)


def _exemplar(event_id: int) -> dict[str, str]:
    """Return the exemplar labels that identify one event of a bucket (OpenMetrics only)."""
    return {"event_id": str(event_id)}
