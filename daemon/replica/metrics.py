"""Metrics of replicas."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import structlog
from prometheus_client import Counter, Gauge, Histogram

from daemon.process.metrics import Metric, MetricTable


if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from daemon.consumer.metrics import ProjectionMetrics
    from handlers.replication.observer import BatchOverlap
    from handlers.replication.tables.quarantine import QuarantinedTable


log = structlog.get_logger(__name__)


def release_command(policy: str) -> str:
    """Return the command that releases a quarantined table; ``{table}`` stands for its name."""
    return f"tideline release {policy} {{table}}"


class ReplicaMetrics(MetricTable):
    """The metrics that only replicas have, in addition to those of all projections."""

    common = ("projection",)

    commits_without_writes = Metric(
        Counter,
        "tideline_commits_without_writes",
        "Commits with write ids but no write events: a writer has hive.metastore.dml.events=false.",
    )

    open_transactions = Metric(
        Gauge,
        "tideline_replayed_transactions_open",
        "Transactions of the source that are open on the target.",
    )

    oldest_transaction_s = Metric(
        Gauge,
        "tideline_replayed_transactions_oldest_seconds",
        "Age of the oldest transaction that is open on the target and at the source.",
    )

    reconciled = Metric(
        Counter,
        "tideline_transactions_reconciled",
        "Transactions aborted on the target because they ended at the source without an event.",
    )

    constraints_left_out = Metric(
        Counter,
        "tideline_constraints_left_out",
        "Foreign keys left out on the target because the table that they refer to is missing.",
    )

    batch_events = Metric(
        Histogram,
        "tideline_replay_batch_events",
        "Events of one batch that may concern the policy.",
        buckets=(1, 3, 10, 30, 100, 300),
    )

    lane_events = Metric(
        Counter,
        "tideline_lane_events",
        "Events given to a lane, by outcome: applied (ahead of their turn) or returned (applied by replay "
        "at their turn, because no lane was free or the lane failed).",
        "outcome",
    )

    lane_busy_s = Metric(
        Counter,
        "tideline_lane_busy_seconds",
        "Time during which lanes applied events, summed over all lanes; its rate is the average number of "
        "lanes in use.",
    )

    lane_queued_s = Metric(
        Counter,
        "tideline_lane_queued_seconds",
        "Time that events waited for a free lane before a lane applied them.",
    )

    lane_waited_s = Metric(
        Counter,
        "tideline_lane_waited_seconds",
        "Time that replay waited for a lane at the turn of its event.",
    )

    lookahead_transactions = Metric(
        Counter,
        "tideline_lookahead_transactions",
        "Transactions opened ahead of their turn, together with the first of each batch.",
    )

    lookahead_write_ids = Metric(
        Counter,
        "tideline_lookahead_write_ids",
        "Write ids allocated together with those of later events.",
    )

    lookahead_calls = Metric(
        Counter, "tideline_lookahead_calls", "Calls that allocated the write ids of several events."
    )

    def __init__(self, registry: CollectorRegistry, projections: ProjectionMetrics) -> None:
        super().__init__(registry)
        self.projections = projections
        projections.series.register(self)


class PolicyObserver:
    """Counts the reports of one policy's replay (``handlers.replication.observer.Observer``)."""

    def __init__(self, metrics: ReplicaMetrics, projection: str) -> None:
        self._metrics = metrics
        self._projection = projection
        self._policy = projection.partition(":")[2]
        self._open = ("", 0)
        """The label and the value of the open transactions reported last."""

    @property
    def _label(self) -> str:
        return self._metrics.projections.series.label(self._projection)

    def event_applied(self, kind: str, seconds: float) -> None:
        """Count an event in scope, which took effect on the target in ``seconds``."""
        self._metrics.projections.count_applied(self._projection, kind)
        self._metrics.projections.apply_s.labels(self._label).observe(seconds)

    def batch_replayed(self, overlap: BatchOverlap) -> None:
        """Add the counts of a finished batch, which costs less than counting each of its events."""
        metrics, name, lanes, lookahead = self._metrics, self._label, overlap.lanes, overlap.lookahead
        metrics.batch_events.labels(name).observe(overlap.events)
        metrics.lane_events.labels(name, "applied").inc(lanes.applied)
        metrics.lane_events.labels(name, "returned").inc(lanes.returned)
        metrics.lane_busy_s.labels(name).inc(lanes.busy_s)
        metrics.lane_queued_s.labels(name).inc(lanes.queued_s)
        metrics.lane_waited_s.labels(name).inc(lanes.waited_s)
        metrics.lookahead_transactions.labels(name).inc(lookahead.transactions)
        metrics.lookahead_write_ids.labels(name).inc(lookahead.write_ids)
        metrics.lookahead_calls.labels(name).inc(lookahead.calls)

    # Part of the port; a label would make too many series
    def event_skipped(self, kind: str, reason: str) -> None:  # noqa: ARG002
        """Count an event without effect."""
        self._metrics.projections.count_skipped(self._projection, reason)

    def table_quarantined(self, db: str, entry: QuarantinedTable) -> None:
        """Count a quarantined table."""
        log.error(
            "table quarantined",
            projection=self._projection,
            table=f"{db}.{entry.table}",
            event_id=entry.event_id,
            code=entry.code,
            reason=entry.reason,
            repair=release_command(self._policy).format(table=shlex.quote(entry.table)),
        )
        self._metrics.projections.count_quarantined(self._projection, entry.code)

    def table_unreplicated(self, table: str, code: str, reason: str) -> None:
        """Log a table of a kind that policies do not replicate."""
        log.warning(
            "table not replicated", projection=self._projection, table=table, code=code, reason=reason
        )

    def transactions_open(self, count: int, oldest_s: float) -> None:
        """Record the number of open replayed transactions and, unless policies share their series, the age of
        the oldest.
        """
        label, (former, reported) = self._label, self._open
        self._metrics.open_transactions.labels(label).inc(count - (reported if former == label else 0))
        self._open = label, count
        if not self._metrics.projections.series.are_summed:
            self._metrics.oldest_transaction_s.labels(label).set(oldest_s)

    def transaction_reconciled(self, txn_id: int) -> None:
        """Count a transaction that replay aborted, because it ended at the source without an event."""
        log.warning(
            "transaction ended at the source without an event", projection=self._projection, txn_id=txn_id
        )
        self._metrics.reconciled.labels(self._label).inc()

    # Part of the port; ids are not labels
    def commit_without_writes(self, txn_id: int) -> None:  # noqa: ARG002
        """Count a commit of a transaction that had write ids but no write event."""
        self._metrics.commits_without_writes.labels(self._label).inc()

    def constraint_left_out(self, table: str, name: str, parent: str) -> None:
        """Count a foreign key left out because the table that it refers to is not on the target."""
        log.warning(
            "foreign key left out: the table that it refers to is not on the target",
            projection=self._projection,
            table=table,
            constraint=name,
            refers_to=parent,
        )
        self._metrics.constraints_left_out.labels(self._label).inc()
