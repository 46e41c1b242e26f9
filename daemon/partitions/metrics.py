"""What the partition index measures: what is kept and loaded, and what answers cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import Counter, Gauge, Histogram

from daemon.process.metrics import ANSWER_BUCKETS_S


if TYPE_CHECKING:
    from collections.abc import Mapping

    from prometheus_client import CollectorRegistry


_COSTS: Final = {
    "plans": ("tideline_partitions_plans", "Filters that were planned; one that comes again is not."),
    "ranges": ("tideline_partitions_ranges", "Ranges of keys of the planned filters."),
    "caps-hit": ("tideline_partitions_caps_hit", "Planned filters whose ranges were joined, being too many."),
    "rows-scanned": ("tideline_partitions_rows_scanned", "Keys read for answers."),
    "answers-unknown": (
        "tideline_partitions_answers_unknown",
        "Answers to expressions that may hold partitions which do not match.",
    ),
}


class PartitionMetrics:
    """The metrics, in the process' registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        names = ("projection",)
        self.tables = Gauge(
            "tideline_partitions_tables", "Tables in the partition index.", names, registry=registry
        )
        self.indexed = Gauge(
            "tideline_partitions_indexed", "Partitions in the partition index.", names, registry=registry
        )
        self.staged = Gauge(
            "tideline_partitions_loading_staged",
            "Partitions that are loaded of tables under load.",
            names,
            registry=registry,
        )
        self.expected = Gauge(
            "tideline_partitions_loading_expected",
            "Partitions that tables under load have at the source.",
            names,
            registry=registry,
        )
        self.drift = Counter(
            "tideline_partitions_drift",
            "Partitions that a check found to differ from the source.",
            names,
            registry=registry,
        )
        self.matched = Counter(
            "tideline_partitions_rows_matched", "Partitions that were answered.", names, registry=registry
        )
        self.answer_s = Histogram(
            "tideline_partitions_answer_seconds",
            "Time of one answer from the partition index, waiting for a change included.",
            (*names, "call"),
            buckets=ANSWER_BUCKETS_S,
            registry=registry,
        )
        self.costs = {
            cost: Counter(name, text, names, registry=registry) for cost, (name, text) in _COSTS.items()
        }


class PartitionMeasures:
    """What the index of one projection tells (``handlers.catalog.index.partition_queries.QueryObserver``)."""

    def __init__(self, metrics: PartitionMetrics, projection: str) -> None:
        self._metrics = metrics
        self._projection = projection

    def query_answered(self, call: str, seconds: float, costs: Mapping[str, int], matched: int) -> None:
        """A question was answered in ``seconds`` with so many partitions."""
        self._metrics.answer_s.labels(self._projection, call).observe(seconds)
        self._metrics.matched.labels(self._projection).inc(matched)
        for cost, count in costs.items():
            if cost in self._metrics.costs:
                self._metrics.costs[cost].labels(self._projection).inc(count)

    def drifted(self, count: int) -> None:
        """A check found so many partitions that differ from the source."""
        self._metrics.drift.labels(self._projection).inc(count)

    def counted(self, indexed: Mapping[str, int], staged: int, expected: int) -> None:
        """So much is kept now, and so far are the loads that are under way."""
        self._metrics.tables.labels(self._projection).set(len(indexed))
        self._metrics.indexed.labels(self._projection).set(sum(indexed.values()))
        self._metrics.staged.labels(self._projection).set(staged)
        self._metrics.expected.labels(self._projection).set(expected)
