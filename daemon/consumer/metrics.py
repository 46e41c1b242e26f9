"""Metrics that all projections share: events applied and skipped, and how long after the source they take effect."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from prometheus_client import Counter, Histogram

from daemon.process.metrics import APPLY_BUCKETS_S, VISIBLE_BUCKETS_S


if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from daemon.process.metrics import LoopMetrics


TYPES_MAX: Final = 80
"""Distinct event types that get their own series. Hive has about fifty. All further types are counted as ``other``, because a topic can contain any."""


class ProjectionMetrics:
    """The metrics, labeled by projection; thread-safe, never raises."""

    def __init__(self, registry: CollectorRegistry, loops: LoopMetrics) -> None:
        names = ("projection",)
        self.loops = loops
        self.applied = Counter(
            "tideline_events_applied", "Events that took effect.", (*names, "type"), registry=registry
        )
        self.skipped = Counter(
            "tideline_events_skipped",
            "Events without effect, by reason.",
            (*names, "reason"),
            registry=registry,
        )
        self.apply_s = Histogram(
            "tideline_apply_seconds",
            "Time to apply one event.",
            names,
            buckets=APPLY_BUCKETS_S,
            registry=registry,
        )
        self.visible_s = Histogram(
            "tideline_commit_to_visible_seconds",
            "Time from an event on the source to its effect here (a commit: visible), of the last event of each batch; event "
            "times are whole seconds of the source's clock.",
            names,
            buckets=VISIBLE_BUCKETS_S,
            registry=registry,
        )
        self._types: set[str] = set()
        self._lock = threading.Lock()

    def type_label(self, kind: str) -> str:
        """Return ``kind`` while there are few, else ``other``."""
        with self._lock:
            if kind in self._types or len(self._types) < TYPES_MAX:
                self._types.add(kind)
                return kind
        return "other"

    def count_applied(self, projection: str, kind: str) -> None:
        """Count an event that took effect."""
        self.applied.labels(projection, self.type_label(kind)).inc()

    def count_skipped(self, projection: str, reason: str) -> None:
        """Count an event that had no effect."""
        self.skipped.labels(projection, reason).inc()

    def count_quarantined(self, projection: str, code: str) -> None:
        """Count a table that was quarantined."""
        self.loops.loop_failed(projection, code)

    def observe_visible(self, projection: str, event_time_s: int) -> None:
        """Observe how long after an event of ``event_time_s`` (Unix time) its effect is visible now."""
        self.visible_s.labels(projection).observe(max(0.0, time.time() - event_time_s))
