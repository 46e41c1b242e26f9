"""Metrics of mining: queries read, unresolved and unreadable queries, and the last complete pass over each
source.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Counter, Gauge, Histogram

from daemon.keys.status import SourcePass
from daemon.process.metrics import BATCH_BUCKETS_S, Metric, MetricTable


class MiningMetrics(MetricTable):
    """The metrics of all query sources."""

    common = ("source",)

    queries = Metric(Counter, "tideline_mining_queries", "Queries read.")
    queries_with_keys = Metric(
        Counter, "tideline_mining_queries_with_keys", "Queries that request keys of raw JSON."
    )
    requests = Metric(
        Counter, "tideline_mining_requests", "Recorded requests, each for one key by one user in one query."
    )
    unresolved = Metric(
        Counter,
        "tideline_mining_unresolved",
        "Uses of raw JSON without a recognizable key.",
        "reason",
    )
    dead = Metric(Counter, "tideline_mining_dead_records", "Unreadable records of a query source.", "reason")
    failures = Metric(Counter, "tideline_mining_failures", "Passes that read the source only in part.")
    read = Metric(
        Gauge,
        "tideline_mining_read_timestamp_seconds",
        "Unix time at which the source was last read completely.",
    )
    pass_s = Metric(
        Histogram,
        "tideline_mining_pass_seconds",
        "Time of one pass over the new queries of a source.",
        buckets=BATCH_BUCKETS_S,
    )

    def show_sources(self, sources: Iterable[str]) -> None:
        """Create the counters of the sources at 0, so that Prometheus sees their first increase."""
        for source in sources:
            for counter in (self.queries, self.queries_with_keys, self.requests, self.failures):
                counter.labels(source)

    def count_pass(self, source_pass: SourcePass, now_s: float) -> None:
        """Count a pass over one source."""
        self.queries.labels(source_pass.source).inc(source_pass.queries)
        self.queries_with_keys.labels(source_pass.source).inc(source_pass.queries_with_keys)
        self.requests.labels(source_pass.source).inc(source_pass.requests)
        for counter, counts in ((self.unresolved, source_pass.unresolved), (self.dead, source_pass.dead)):
            for reason, count in counts.items():
                counter.labels(source_pass.source, reason).inc(count)
        self.pass_s.labels(source_pass.source).observe(source_pass.took_s)
        if source_pass.error is None:
            self.read.labels(source_pass.source).set(now_s)
        else:
            self.failures.labels(source_pass.source).inc()
