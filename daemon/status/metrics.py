"""Metrics computed from the daemon's status at each scrape: positions, lags, states and counters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from daemon.process.loops.loop import LoopState
from daemon.process.metrics import POLICIES_MAX
from daemon.status.actions import KINDS
from daemon.status.model import POLICY_STATES, DaemonStatus, ProjectionView, SourceStatus, StatusSection
from daemon.status.summed_metrics import sum_up


_SOURCE_GAUGES: Final = (
    ("tideline_source_event_id", "Newest event id of the source.", "current_event_id"),
    ("tideline_relay_event_id", "Last event id whose record is completely in the topic.", "relayed_event_id"),
    ("tideline_relay_lag_events", "Events of the source not yet in the topic.", "lag_events"),
    (
        "tideline_relay_lag_seconds",
        "How long the relay has been behind the source or unable to read it; 0 if it has caught up.",
        "lag_s",
    ),
)
_SOURCE_COUNTERS: Final = (
    ("tideline_relay_records", "Records published.", "records"),
    ("tideline_relay_bytes", "Bytes published.", "size_bytes"),
    ("tideline_relay_commits_with_writes", "Commits with write events.", "commits_with_writes"),
    (
        "tideline_relay_commits_without_writes",
        (
            "Commits with write ids but no write events: a writer has hive.metastore.dml.events=false, or "
            "the commit was DDL."
        ),
        "commits_without_writes",
    ),
    (
        "tideline_relay_unread",
        (
            "Events, and write events of commits, relayed without their content because the metastore could "
            "not return them."
        ),
        "unread",
    ),
    (
        "tideline_relay_partitions_listed",
        "Partitions without a write event whose files the relay listed.",
        "listed",
    ),
    (
        "tideline_relay_partitions_unlisted",
        "Partitions without a write event that the relay could not list; replicas list them.",
        "unlisted",
    ),
)
_PROJECTION_COUNTERS: Final = (
    (
        "tideline_events_duplicate",
        "Records skipped because their events were already applied.",
        "duplicates",
    ),
    (
        "tideline_events_filled",
        "Events missing in the topic and read from the notification log.",
        "filled",
    ),
    (
        "tideline_events_undecodable",
        "Undecodable records, written to the dead-letter topic.",
        "undecodable",
    ),
    ("tideline_events_unknown", "Events of unknown types.", "unknown"),
    (
        "tideline_events_foreign",
        "Records that the source cannot have published, written to the dead-letter topic.",
        "foreign",
    ),
)
_PROJECTION_GAUGES: Final = (
    ("tideline_projection_event_id", "Last event id applied completely.", "event_id"),
    ("tideline_projection_lag_events", "Events of the source not applied yet.", "lag_events"),
    (
        "tideline_projection_lag_seconds",
        ("How long the projection has been behind the source or unable to read it; 0 if it has caught up."),
        "lag_s",
    ),
)


class StatusCollector(Collector):
    """Reads the status at each scrape. Unknown values have no sample."""

    def __init__(
        self,
        status: Callable[[], DaemonStatus],
        sections: Sequence[StatusSection[Any]] = (),
        policies_max: int = POLICIES_MAX,
    ) -> None:
        """With more than ``policies_max`` policies, samples are summed (``summed_metrics``)."""
        self._policies_max = policies_max
        self._status = status
        self._sections = sections

    def collect(self) -> Iterable[Metric]:
        """Yield all metric families, even without samples."""
        status = self._status()
        info = InfoMetricFamily("tideline", "Version of the daemon.")
        info.add_metric((), {"version": status.version})
        yield info
        yield GaugeMetricFamily(
            "tideline_start_timestamp_seconds", "Unix time at which the daemon started.", status.started_s
        )
        yield GaugeMetricFamily(
            "tideline_loops_stuck", "Loops without a heartbeat for too long.", len(status.stuck)
        )
        actions = GaugeMetricFamily(
            "tideline_operator_actions",
            "States that need an operator, by kind; 'tideline status' lists them with their commands.",
            labels=["kind"],
        )
        for kind in KINDS:
            actions.add_metric((kind,), sum(action.kind == kind for action in status.needs_operator))
        yield actions
        yield from _sources(status.sources)
        yield from sum_up(_projections(status.projections), self._policies_max)
        for section in self._sections:
            yield from sum_up(section.families(section.of(status)), self._policies_max)

    def describe(self) -> Iterable[Metric]:
        """Return nothing, because the status is not available yet when the registry calls this."""
        return ()


def _sources(sources: Sequence[SourceStatus]) -> Iterable[Metric]:
    labels = {"source": [row.name for row in sources]}
    yield from families(CounterMetricFamily, _SOURCE_COUNTERS, labels, sources)
    yield from families(GaugeMetricFamily, _SOURCE_GAUGES, labels, sources)


def _projections(projections: Sequence[ProjectionView]) -> Iterable[Metric]:
    labels = {"projection": [row.name for row in projections], "source": [row.source for row in projections]}
    yield from families(CounterMetricFamily, _PROJECTION_COUNTERS, labels, projections)
    yield from families(GaugeMetricFamily, _PROJECTION_GAUGES, labels, projections)
    yield state_family(
        "tideline_projection_state",
        "1 for the current state of the projection, otherwise 0. Policies may also be not-bootstrapped, "
        "paused, promoted or retired.",
        "projection",
        projections,
        POLICY_STATES,
    )
    quarantined = GaugeMetricFamily(
        "tideline_projection_quarantined_tables",
        "Quarantined tables.",
        labels=list(labels),
    )
    for row in projections:
        quarantined.add_metric((row.name, row.source), len(row.quarantined))
    yield quarantined


def families(
    kind: type[CounterMetricFamily | GaugeMetricFamily],
    definitions: tuple[tuple[str, str, str], ...],
    labels: dict[str, list[str]],
    rows: Sequence[object],
) -> Iterable[Metric]:
    """Yield a metric family for each definition (name, text, attribute).

    It has a sample for each row whose attribute is not None.
    """
    for name, text, attribute in definitions:
        family = kind(name, text, labels=list(labels))
        for row, *label_values in zip(rows, *labels.values(), strict=True):
            value = getattr(row, attribute)
            if value is not None:
                family.add_metric(label_values, value)
        yield family


class HasState(Protocol):
    """A row of the status with the name and the state of a loop."""

    @property
    def name(self) -> str:
        """The label of the row's series."""

    @property
    def state(self) -> str:
        """A value of ``LoopState``, or one of the family's further states."""


def state_family(
    name: str, text: str, label: str, rows: Sequence[HasState], further: Sequence[str] = ()
) -> Metric:
    """Return a gauge with a sample for each row and state: 1 for the row's state, otherwise 0.

    The states are those of ``LoopState``, and ``further``.
    """
    family = GaugeMetricFamily(name, text, labels=(label, "state"))
    states = [*(state.value for state in LoopState), *further]
    for row in rows:
        for state in states:
            family.add_metric((row.name, state), float(row.state == state))
    return family
