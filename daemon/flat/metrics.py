"""What flat tables measure: what came in, what could not be used, how far behind, how long batches take.

Positions, lags and counts come from the last news of each driver when somebody scrapes (``daemon.flat.progress``); only durations are
collected as they are told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import Counter, Gauge, Histogram

from daemon.process.metrics import BATCH_BUCKETS_S


if TYPE_CHECKING:
    from collections.abc import Mapping

    from prometheus_client import CollectorRegistry

    from daemon.flat.progress import Counts, DriverNews


_COUNTERS: Final = {
    "batches": ("tideline_flat_batches", "Batches that are in the flat table."),
    "rows": ("tideline_flat_rows", "Rows that came into the flat table."),
    "bytes": ("tideline_flat_bytes", "Bytes of JSON that those rows were."),
    "malformed": (
        "tideline_flat_malformed_rows",
        "Rows that were no JSON object; their text is in _rescued.",
    ),
    "rescued": ("tideline_flat_rescued_rows", "Rows with a value that did not fit its column."),
    "misfits": ("tideline_flat_misfits", "Values that did not fit their column."),
}


class FlatMetrics:
    """The metrics, in the process' registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        names = ("flat",)

        def gauge(name: str, text: str, *more: str) -> Gauge:
            return Gauge(f"tideline_flat_{name}", text, (*names, *more), registry=registry)

        def histogram(name: str, text: str) -> Histogram:
            return Histogram(f"tideline_flat_{name}", text, names, buckets=BATCH_BUCKETS_S, registry=registry)

        self.counters = {
            each: Counter(name, text, names, registry=registry) for each, (name, text) in _COUNTERS.items()
        }
        self.letters = Counter(
            "tideline_flat_dead_letters", "Rows that no hour takes.", (*names, "reason"), registry=registry
        )
        self.starts = Counter(
            "tideline_flat_driver_starts", "Starts of the flat table's driver.", names, registry=registry
        )
        self.refused = Counter(
            "tideline_flat_driver_lines_refused",
            "Lines of the driver that could not be read.",
            names,
            registry=registry,
        )
        self.lag = gauge("lag_records", "Records of the topic behind the last batch.", "partition")
        self.columns = gauge(
            "columns", "Columns by state; reused ones are live and had another key before.", "state"
        )
        self.backlog = gauge("seal_backlog_hours", "Hours that are due to be sealed.")
        self.told = gauge("progress_time_seconds", "Unix time at which the driver last told how it stands.")
        self.watermark = gauge("watermark_time_seconds", "Event time, Unix, that the stream has come to.")
        self.version = gauge("layout_version", "Version of the table's columns.")
        self.batch_s = histogram("batch_seconds", "Time of one batch, from its rows to the table.")
        self.upkeep_s = histogram("upkeep_seconds", "Time of sealing and other upkeep before one batch.")


class FlatMeasures:
    """What one table's driver tells."""

    def __init__(self, metrics: FlatMetrics, flat: str) -> None:
        self._metrics = metrics
        self._flat = flat
        for counter in (*metrics.counters.values(), metrics.starts, metrics.refused):
            counter.labels(flat)

    def started(self) -> None:
        """A driver was started."""
        self._metrics.starts.labels(self._flat).inc()

    def refused(self, count: int) -> None:
        """So many lines could not be read."""
        self._metrics.refused.labels(self._flat).inc(count)

    def took(self, durations: Mapping[str, float]) -> None:
        """A batch took so long."""
        for name, histogram in (("batch_s", self._metrics.batch_s), ("upkeep_s", self._metrics.upkeep_s)):
            if name in durations:
                histogram.labels(self._flat).observe(durations[name])

    def news(self, before: DriverNews, now: DriverNews) -> None:
        """The driver told something."""
        metrics, flat = self._metrics, self._flat
        for name, counter in metrics.counters.items():
            counter.labels(flat).inc(_grown(name, before.counts, now.counts))
        for reason, count in now.letters.items():
            metrics.letters.labels(flat, reason).inc(count - before.letters.get(reason, 0))
        for partition, behind in now.lag.items():
            metrics.lag.labels(flat, partition).set(behind)
        for state, count in now.columns.items():
            metrics.columns.labels(flat, state).set(count)
        metrics.backlog.labels(flat).set(now.seal_backlog)
        for gauge, value in (
            (metrics.told, now.told_s),
            (metrics.watermark, now.watermark_s),
            (metrics.version, now.layout_version),
        ):
            if value is not None:
                gauge.labels(flat).set(value)


def _grown(name: str, before: Counts, now: Counts) -> int:
    grown: int = getattr(now, name) - getattr(before, name)
    return grown
