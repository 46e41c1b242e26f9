"""Metrics of flat tables: rows, unusable records, lag, and the duration of batches.

The reports of the driver set counts and positions (``daemon.flat.status``). Each scrape computes the state
and the lag in seconds from the status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from prometheus_client import Counter, Gauge, Histogram

from daemon.flat.status import DriverProgress
from daemon.process.metrics import BATCH_BUCKETS_S, Metric, MetricTable


class FlatMetrics(MetricTable):
    """The metrics of all flat tables. Counters have the names of the fields of
    ``daemon.flat.status.Counts``.
    """

    common = ("flat",)

    batches = Metric(Counter, "tideline_flat_batches", "Batches written to the flat table.")
    rows = Metric(Counter, "tideline_flat_rows", "Rows written to the flat table.")
    bytes = Metric(Counter, "tideline_flat_bytes", "Bytes of JSON of the rows written to the flat table.")
    malformed = Metric(
        Counter, "tideline_flat_malformed_rows", "Rows that are not a JSON object; their text is in _rescued."
    )
    trailing = Metric(
        Counter,
        "tideline_flat_trailing_rows",
        "Rows with text after their first document; their text is in _rescued.",
    )
    rescued = Metric(Counter, "tideline_flat_rescued_rows", "Rows with a value that did not fit its column.")
    misfits = Metric(Counter, "tideline_flat_misfits", "Values that did not fit their column.")
    dead_letters = Metric(Counter, "tideline_flat_dead_letters", "Rows without a valid hour.", "reason")
    starts = Metric(Counter, "tideline_flat_driver_starts", "Starts of the flat table's driver.")
    refused = Metric(
        Counter,
        "tideline_flat_driver_lines_refused",
        "Unreadable lines of the driver's progress.",
    )
    lag = Metric(
        Gauge, "tideline_flat_lag_records", "Records of the topic after the last batch.", "partition"
    )
    columns = Metric(
        Gauge,
        "tideline_flat_columns",
        "Columns by state; reused ones are live and had another key before.",
        "state",
    )
    backlog = Metric(Gauge, "tideline_flat_seal_backlog_hours", "Hours due for sealing.")
    progress_time = Metric(
        Gauge,
        "tideline_flat_progress_timestamp_seconds",
        "Unix time at which the driver last reported progress.",
    )
    watermark = Metric(
        Gauge,
        "tideline_flat_watermark_timestamp_seconds",
        "Latest event time of the stream, as Unix time.",
    )
    version = Metric(Gauge, "tideline_flat_layout_version", "Version of the table's columns.")
    batch_s = Metric(
        Histogram,
        "tideline_flat_batch_seconds",
        "Duration of one batch, from reading to publication.",
        buckets=BATCH_BUCKETS_S,
    )
    upkeep_s = Metric(
        Histogram,
        "tideline_flat_upkeep_seconds",
        "Duration of sealing and other upkeep before one batch.",
        buckets=BATCH_BUCKETS_S,
    )


_COUNTERS: Final = ("batches", "rows", "bytes", "malformed", "trailing", "rescued", "misfits")


class FlatMeasures:
    """The metrics of one table."""

    def __init__(self, metrics: FlatMetrics, flat: str) -> None:
        self._metrics = metrics
        self._flat = flat
        for name in (*_COUNTERS, "starts", "refused"):
            self._of(name)

    def count_start(self) -> None:
        """Count a start of the driver."""
        self._of("starts").inc()

    def count_refused(self, count: int) -> None:
        """Count unreadable lines from the driver."""
        self._of("refused").inc(count)

    def observe_durations(self, durations: Mapping[str, float]) -> None:
        """Observe how long a batch and its upkeep took."""
        for name in ("batch_s", "upkeep_s"):
            if name in durations:
                self._of(name).observe(durations[name])

    def set_progress(self, before: DriverProgress, now: DriverProgress) -> None:
        """Count the progress since ``before``, and set the gauges to the driver's current values."""
        metrics, flat = self._metrics, self._flat
        for name in _COUNTERS:
            self._of(name).inc(getattr(now.counts, name) - getattr(before.counts, name))
        for reason, count in now.dead_letters.items():
            metrics.dead_letters.labels(flat, reason).inc(count - before.dead_letters.get(reason, 0))
        for partition, records in now.lag.items():
            metrics.lag.labels(flat, partition).set(records)
        for state, count in now.columns.items():
            metrics.columns.labels(flat, state).set(count)
        metrics.backlog.labels(flat).set(now.seal_backlog)
        for gauge, value in (
            (metrics.progress_time, now.reported_s),
            (metrics.watermark, now.watermark_s),
            (metrics.version, now.layout_version),
        ):
            if value is not None:
                gauge.labels(flat).set(value)

    def _of(self, name: str) -> Any:
        return getattr(self._metrics, name).labels(self._flat)
