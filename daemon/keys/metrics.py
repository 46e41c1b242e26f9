"""What mining measures: what was read, what could not be followed or read, and when each source was last read to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import Counter, Gauge, Histogram

from daemon.process.metrics import BATCH_BUCKETS_S


if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import CollectorRegistry

    from daemon.keys.progress import SourcePass


_COUNTERS: Final = {
    "queries": "Queries that were read.",
    "queries_with_keys": "Queries that ask for keys of raw JSON.",
    "asks": "Questions that were recorded: a key, asked by somebody in a query.",
}
_BY_REASON: Final = {
    "unresolved": ("tideline_mining_unresolved", "Uses of raw JSON that could not be followed to a key."),
    "dead": ("tideline_mining_dead_records", "Records of a query source that could not be read."),
}


class MiningMetrics:
    """The metrics, in the process' registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        names = ("source",)
        self.counters = {
            each: Counter(f"tideline_mining_{each}", text, names, registry=registry)
            for each, text in _COUNTERS.items()
        }
        self.by_reason = {
            each: Counter(name, text, (*names, "reason"), registry=registry)
            for each, (name, text) in _BY_REASON.items()
        }
        self.failures = Counter(
            "tideline_mining_failures",
            "Passes that did not read the source to its end.",
            names,
            registry=registry,
        )
        self.read = Gauge(
            "tideline_mining_read_time_seconds",
            "Unix time at which the source was last read to its end.",
            names,
            registry=registry,
        )
        self.pass_s = Histogram(
            "tideline_mining_pass_seconds",
            "Time of one pass over the source's news.",
            names,
            buckets=BATCH_BUCKETS_S,
            registry=registry,
        )

    def expect(self, sources: Iterable[str]) -> None:
        """Show the sources' counters from the start, so that their first growth is seen."""
        for source in sources:
            for counter in (*self.counters.values(), self.failures):
                counter.labels(source)

    def took(self, done: SourcePass, now_s: float) -> None:
        """A pass over one source has ended."""
        for name, counter in self.counters.items():
            counter.labels(done.source).inc(getattr(done, name))
        for name, by_reason in self.by_reason.items():
            for reason, count in getattr(done, name).items():
                by_reason.labels(done.source, reason).inc(count)
        self.pass_s.labels(done.source).observe(done.took_s)
        if done.error is None:
            self.read.labels(done.source).set(now_s)
        else:
            self.failures.labels(done.source).inc()
