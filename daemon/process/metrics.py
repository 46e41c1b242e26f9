"""Tables of metrics, the buckets of histograms of times, and the metrics of loops.

Each capability declares its metrics in one ``MetricTable``.

Histograms of calls, events and answers have the same bounds between a millisecond and 2.5 seconds, so that
they can be compared; they differ in the lowest and highest bounds. Histograms of delays that users see have
bounds at round values: a minute, a quarter of an hour, a day. Do not change a bound, because queries of
dashboards name it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)


_COMMON_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)

APPLY_BUCKETS_S: Final = (0.0005, *_COMMON_S, 5, 10, 60, 600)
"""For one event: from a call that changes nothing to copying all files of a partition."""

CALL_BUCKETS_S: Final = (*_COMMON_S, 5, 10, 30, 60)
"""For one metastore call, which includes a network and a database."""

ANSWER_BUCKETS_S: Final = (0.0001, 0.00025, 0.0005, *_COMMON_S, 10)
"""For one answer from the partition index, from memory or a local file."""

BATCH_BUCKETS_S: Final = (0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400)
"""For one step of a Spark driver or one mining pass."""

VISIBLE_BUCKETS_S: Final = (0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400)
"""For the time from an event at the source to its effect."""


def build_registry() -> CollectorRegistry:
    """Return a registry with the metrics of the process that the operating system provides."""
    # Omits the ``_created`` series of each counter
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    return registry


M = TypeVar("M", bound="Counter | Gauge | Histogram")


class Metric(Generic[M]):
    """A row in a table of metrics: kind, name, help text, labels and, for a histogram, its buckets."""

    def __init__(
        self, kind: Callable[..., M], name: str, text: str, *labels: str, buckets: Sequence[float] = ()
    ) -> None:
        self._kind = kind
        self._name, self._text = name, text
        self.labels = labels
        self._options: dict[str, Any] = {"buckets": buckets} if buckets else {}

    def register(self, registry: CollectorRegistry, common: Sequence[str]) -> M:
        """Create the metric in ``registry``, with the labels ``common`` before its own, and return it."""
        return self._kind(self._name, self._text, (*common, *self.labels), registry=registry, **self._options)

    def __get__(self, table: MetricTable, owner: type[MetricTable]) -> M:
        """Declare the attribute's type for the type checker. Never called: an instance has the metric as its
        own attribute.
        """
        raise AttributeError(self._name)


class MetricTable:
    """Subclasses declare their metrics as class attributes. An instance has the registered metrics under the
    same names.
    """

    common: ClassVar[Sequence[str]] = ()
    """The labels that all metrics of the table have, before their own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        for name, row in vars(type(self)).items():
            if isinstance(row, Metric):
                setattr(self, name, row.register(registry, self.common))

    def clear(self, label: str) -> None:
        """Delete the series of all metrics that have this label."""
        for name, row in vars(type(self)).items():
            if isinstance(row, Metric) and label in (*self.common, *row.labels):
                getattr(self, name).clear()


ALL: Final = "all"
"""The label of sums over many policies."""
POLICIES_MAX: Final = 20


class PolicySeries:
    """Decides whether each policy has its own series of metrics. Thread-safe.

    Up to ``policies_max`` policies have their own series. With one more policy, all share the series ``ALL``,
    and the earlier series disappear: counters start again, as after a restart.
    """

    def __init__(self, policies_max: int = POLICIES_MAX) -> None:
        self._policies_max = policies_max
        self._policies: frozenset[str] = frozenset()
        self._tables: list[MetricTable] = []
        self._lock = threading.Lock()
        self.are_summed = False

    def register(self, table: MetricTable) -> None:
        """Delete the series of ``table`` when all policies begin to share one."""
        self._tables.append(table)

    def join(self, projection: str) -> None:
        """Count one more policy, given by the name of its projection."""
        with self._lock:
            self._policies |= {projection}
            if self.are_summed or len(self._policies) <= self._policies_max:
                return
            self.are_summed = True
        for table in self._tables:
            table.clear("projection")

    def label(self, name: str) -> str:
        """Return the label of a projection or loop: its name, or ``ALL`` if policies share their series."""
        return ALL if self.are_summed and name in self._policies else name


class LoopMetrics(MetricTable):
    """The metrics of failures and restarts of loops. Thread-safe, never raises."""

    errors = Metric(
        Counter,
        "tideline_errors",
        "Errors that ended a run of a loop or quarantined a table, by code.",
        "loop",
        "code",
    )
    restarts = Metric(Counter, "tideline_loop_restarts", "Restarts of a loop after a failure.", "loop")

    def __init__(self, registry: CollectorRegistry, series: PolicySeries | None = None) -> None:
        super().__init__(registry)
        self.series = series or PolicySeries()

    def loop_failed(self, loop: str, code: str) -> None:
        """Count an error that ended a loop's run, or that quarantined a table of its projection."""
        self.errors.labels(self.series.label(loop), code).inc()

    def loop_restarted(self, loop: str) -> None:
        """Count a restart after a failure."""
        self.restarts.labels(self.series.label(loop)).inc()
