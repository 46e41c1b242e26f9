"""The section ``compactions`` of the daemon's status: the compactions on the target and their failures, for
each policy.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from daemon.status.action_calls import call_policy
from daemon.status.actions import REPLICA
from daemon.status.metrics import families
from daemon.status.model import OperatorAction, StatusSection
from daemon.terminal.layout import duration_text, number_text, table_text
from handlers.replication.operations.compaction import (
    DID_NOT_INITIATE,
    FAILED,
    QUEUED,
    CompactionBacklog,
    CompactionState,
)
from state.value_text import count_text


LISTED_MAX: Final = 20
"""Maximum number of listed compactions of a policy."""
QUEUED_S_MAX: Final = 6 * 3600.0
"""A compaction that has waited longer for a worker needs an operator, as the alert of the chart says."""
_WORKER: Final = "start a compaction worker on the target"
_FAILED: Final = frozenset({FAILED, DID_NOT_INITIATE})
_GAUGES: Final = (
    (
        "tideline_target_compactions_oldest_queued_seconds",
        ("Waiting time of the oldest queued compaction of the policy's target database."),
        "waiting_s",
    ),
    (
        "tideline_target_compactions_read_timestamp_seconds",
        "Unix time at which the compactions of the policy's target database were last read.",
        "read_s",
    ),
)


@dataclass(frozen=True, slots=True)
class CompactionRow:
    """One compaction of the target."""

    table: str
    """``db.table`` on the target."""
    partition: str | None
    kind: str
    state: str
    """Hive's word."""
    since_s: float | None
    """Unix time of its last change: queued, begun or ended."""
    message: str | None


@dataclass(frozen=True, slots=True)
class CompactionStatus:
    """The compactions of one policy's target database."""

    policy: str
    read_s: float | None = None
    """Unix time of the target's last answer, from which the other fields are."""
    problem: str | None = None
    """Why the last call failed; None if it did not."""
    counts: dict[str, int] | None = None
    """By state; None before the first answer."""
    waiting_s: float | None = None
    """How long the oldest queued compaction had waited at ``read_s``."""
    listed: tuple[CompactionRow, ...] = ()
    """At most ``LISTED_MAX``, failed ones first."""
    succeeded: tuple[CompactionRow, ...] = ()
    """Those among the listed ones that have succeeded in the last day, the last one first; at most
    ``LISTED_MAX``.
    """

    @property
    def shown(self) -> tuple[CompactionRow, ...]:
        """The rows of a page."""
        return self.listed + self.succeeded

    @property
    def failed(self) -> int:
        """The tables and partitions whose last compaction failed."""
        return sum((self.counts or {}).get(state, 0) for state in _FAILED)


def describe_backlog(policy: str, db: str, backlog: CompactionBacklog, now_s: float) -> CompactionStatus:
    """Return the status of a policy from an answer of its target at ``now_s``."""
    queued_s = backlog.oldest_queued_s
    return CompactionStatus(
        policy,
        read_s=now_s,
        counts=dict(backlog.counts),
        waiting_s=None if queued_s is None else max(0.0, now_s - queued_s),
        listed=tuple(describe_row(db, each) for each in backlog.listed),
    )


def describe_row(db: str, each: CompactionState) -> CompactionRow:
    """Return a compaction of the target database."""
    since_s = each.ended_s or each.started_s or each.queued_s
    return CompactionRow(f"{db}.{each.table}", each.partition, each.kind, each.state, since_s, each.message)


class CompactionSection(StatusSection[tuple[CompactionStatus, ...]]):
    """The section ``compactions``."""

    key = "compactions"
    empty = ()

    def __init__(self) -> None:
        super().__init__(tuple[CompactionStatus, ...])

    def text(self, value: tuple[CompactionStatus, ...], now_s: float) -> str:
        """Return the counts of each policy that has compactions or whose target does not answer, and a row
        for each listed compaction.
        """
        counts = [
            _count_row(each, now_s) for each in value if each.problem or any((each.counts or {}).values())
        ]
        rows = [_row(row, now_s) for each in value for row in each.listed]
        header = ("COMPACTIONS", "QUEUED", "WORKING", "CLEANING", "FAILED", "OLDEST QUEUED", "AS OF")
        listed = ("COMPACTION OF", "PARTITION", "KIND", "STATE", "SINCE", "MESSAGE")
        tables = ((header, counts), (listed, rows))
        return "\n".join(table_text(names, lines) for names, lines in tables if lines)

    def problems(self, value: tuple[CompactionStatus, ...]) -> list[str]:
        """Return a line for each policy whose target does not answer."""
        return [
            f"{each.policy}: compactions of the target cannot be read: {each.problem}"
            for each in value
            if each.problem
        ]

    def actions(self, value: tuple[CompactionStatus, ...]) -> Iterator[OperatorAction]:
        """Return one entry for each policy with failed compactions, or with compactions that no worker
        begins.
        """
        for status in value:
            if status.waiting_s is not None and status.waiting_s > QUEUED_S_MAX:
                yield _describe_waiting(status, status.waiting_s)
            failed = [row for row in status.listed if row.state in _FAILED]
            if not failed:
                continue
            first = failed[0]
            name = first.table.rpartition(".")[2]
            what = f"{first.table}/{first.partition}" if first.partition else first.table
            yield OperatorAction(
                "failed-compaction",
                f"replication:{status.policy}",
                f"{count_text(status.failed, 'compaction')} failed on the target, the last one of {what}: "
                f"{first.message or first.state}",
                f"{REPLICA}#the-target-has-many-small-files",
                f"tideline compact {status.policy} {shlex.quote(name)}",
                min((row.since_s for row in failed if row.since_s is not None), default=None),
                call_policy(
                    status.policy,
                    "compact",
                    "Compact again",
                    table=name,
                    partitions=[first.partition] if first.partition else [],
                ),
            )

    def families(self, value: tuple[CompactionStatus, ...]) -> Iterable[Metric]:
        """Yield the counts by policy and state, and gauges by policy."""
        counts = GaugeMetricFamily(
            "tideline_target_compactions",
            "Compactions of the policy's target database by Hive's state; of failed ones, each table or "
            "partition counts once.",
            labels=["policy", "state"],
        )
        for status in value:
            for state, count in sorted((status.counts or {}).items()):
                counts.add_metric([status.policy, state], count)
        yield counts
        read = tuple(status for status in value if status.read_s is not None)
        yield from families(GaugeMetricFamily, _GAUGES, {"policy": [row.policy for row in read]}, read)


COMPACTIONS: Final = CompactionSection()


def _describe_waiting(status: CompactionStatus, waiting_s: float) -> OperatorAction:
    count = count_text((status.counts or {}).get(QUEUED, 0), "compaction")
    return OperatorAction(
        "waiting-compaction",
        f"replication:{status.policy}",
        f"no worker of the target takes compactions: {count} in the queue. The target's files grow in number "
        "until Hive's workers run (metastore.compactor.worker.threads)",
        f"{REPLICA}#the-target-has-many-small-files",
        _WORKER,
        None if status.read_s is None else status.read_s - waiting_s,
    )


def _count_row(status: CompactionStatus, now_s: float) -> tuple[str, ...]:
    counts = status.counts or {}
    as_of = "never" if status.read_s is None else f"{duration_text(max(0.0, now_s - status.read_s))} ago"
    return (
        status.policy,
        *(number_text(counts.get(state, 0)) for state in (QUEUED, "working", "ready for cleaning")),
        number_text(status.failed),
        "-" if status.waiting_s is None else duration_text(status.waiting_s),
        f"{as_of}, cannot be read" if status.problem else as_of,
    )


def _row(row: CompactionRow, now_s: float) -> tuple[str, ...]:
    since = "-" if row.since_s is None else f"{duration_text(max(0.0, now_s - row.since_s))} ago"
    return (row.table, row.partition or "-", row.kind, row.state, since, row.message or "-")
