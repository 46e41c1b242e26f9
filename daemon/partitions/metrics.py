"""Metrics of the partition index: its size, the progress of loads, and the cost of answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from daemon.process.metrics import ANSWER_BUCKETS_S, Metric, MetricTable
from state.shared_tables import SharedTables


_COSTS: Final = {
    "plans": "plans",
    "ranges": "ranges",
    "caps-hit": "caps_hit",
    "rows-scanned": "rows_scanned",
    "answers-unknown": "answers_unknown",
}
"""The metrics by the names of costs (``PartitionIndex.counts``)."""


class PartitionMetrics(MetricTable):
    """The metrics of all indexes."""

    common = ("projection",)

    tables = Metric(Gauge, "tideline_partitions_tables", "Tables in the partition index.")
    indexed = Metric(Gauge, "tideline_partitions_indexed", "Partitions in the partition index.")
    staged = Metric(
        Gauge,
        "tideline_partitions_loading_staged",
        "Partitions loaded so far, of the tables being loaded.",
    )
    expected = Metric(
        Gauge,
        "tideline_partitions_loading_expected",
        "Partitions at the source, of the tables being loaded.",
    )
    drift = Metric(
        Counter, "tideline_partitions_drift", "Partitions that differed from the source in a check."
    )
    matched = Metric(Counter, "tideline_partitions_rows_matched", "Partitions in answers.")
    plans = Metric(Counter, "tideline_partitions_plans", "Planned filters, without cached plans.")
    ranges = Metric(Counter, "tideline_partitions_ranges", "Ranges of keys in the planned filters.")
    caps_hit = Metric(
        Counter,
        "tideline_partitions_caps_hit",
        "Planned filters whose ranges were joined, because there were too many.",
    )
    rows_scanned = Metric(Counter, "tideline_partitions_rows_scanned", "Keys read for answers.")
    answers_unknown = Metric(
        Counter,
        "tideline_partitions_answers_unknown",
        "Answers to expressions that may contain partitions that do not match.",
    )
    answer_s = Metric(
        Histogram,
        "tideline_partitions_answer_seconds",
        "Time of one answer from the partition index, including the wait for a change.",
        "call",
        buckets=ANSWER_BUCKETS_S,
    )


class PartitionMeasures:
    """The metrics of one projection's index. Thread-safe."""

    def __init__(self, metrics: PartitionMetrics, projection: str) -> None:
        self._metrics = metrics
        self._projection = projection
        self._costs: dict[str, Counter] = {cost: getattr(metrics, name) for cost, name in _COSTS.items()}

    def query_answered(self, call: str, seconds: float, costs: Mapping[str, int], matched: int) -> None:
        """Count a query, its duration, its costs and its matching partitions."""
        self._metrics.answer_s.labels(self._projection, call).observe(seconds)
        self._metrics.matched.labels(self._projection).inc(matched)
        for cost, count in costs.items():
            if cost in self._costs:
                self._costs[cost].labels(self._projection).inc(count)

    def count_drift(self, count: int) -> None:
        """Count partitions that a check found to differ from the source."""
        self._metrics.drift.labels(self._projection).inc(count)

    def set_sizes(self, indexed: SharedTables[int], staged: int, expected: int) -> None:
        """Set the current size, and the progress of the loads."""
        self._metrics.tables.labels(self._projection).set(len(indexed))
        self._metrics.indexed.labels(self._projection).set(sum(count for _, count in indexed.items()))
        self._metrics.staged.labels(self._projection).set(staged)
        self._metrics.expected.labels(self._projection).set(expected)
