"""The section ``verification`` of the daemon's status: the sampler's results, one row for each policy."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from daemon.status.action_calls import call_policy
from daemon.status.actions import REPLICA
from daemon.status.metrics import families
from daemon.status.model import OperatorAction, StatusSection
from daemon.terminal.layout import duration_text, number_text, table_text
from state.value_text import count_text


SHOWN_MAX: Final = 20
"""Maximum number of listed differences of a table."""
LISTED_MAX: Final = 100
"""Maximum number of named differing tables of a policy; the status only counts more."""
_COUNTERS: Final = (
    ("tideline_verified_tables", "Verifications of tables by the sampler.", "verified"),
    (
        "tideline_verified_busy",
        "Verifications without a result because the table changed.",
        "busy",
    ),
)
_GAUGES: Final = (
    ("tideline_verify_differing_tables", "Tables that differed in their last verification.", "differing"),
    (
        "tideline_verify_oldest_seconds",
        (
            "Time since the least recent verification of a table, or since the sampler's start for tables "
            "not verified yet."
        ),
        "oldest_s",
    ),
)


@dataclass(frozen=True, slots=True)
class DifferingTable:
    """A table that differed when it was last verified."""

    table: str
    """``db.table`` at the source."""
    event_id: int | None
    time_s: int
    differences: int
    first: str
    """The first difference, as text."""
    shown: tuple[str, ...] = ()
    """The first ``SHOWN_MAX`` differences."""


@dataclass(frozen=True, slots=True)
class SamplerStatus:
    """The results of one policy's sampler since the daemon's start."""

    policy: str
    verified: int = 0
    """Tables verified; a table counts each time."""
    busy: int = 0
    """Verifications without a result."""
    differing: int = 0
    """Tables that differed in their last verification."""
    oldest_s: float | None = None
    """Age of the least recent verification; None before the first round has begun."""
    tables: tuple[DifferingTable, ...] = ()
    """The differing tables, ``LISTED_MAX`` at most."""


class VerificationSection(StatusSection[tuple[SamplerStatus, ...]]):
    """The section ``verification``."""

    key = "verification"
    empty = ()

    def __init__(self) -> None:
        super().__init__(tuple[SamplerStatus, ...])

    # ARG002: ages are in the values
    def text(self, value: tuple[SamplerStatus, ...], now_s: float) -> str:  # noqa: ARG002
        """Return a row for each policy with a sampler."""
        header = ("VERIFICATION", "VERIFIED", "BUSY", "DIFFERING", "OLDEST")
        return table_text(header, map(_row, value))

    def problems(self, value: tuple[SamplerStatus, ...]) -> list[str]:
        """Return a line for each differing table."""
        return [
            f"{table.table}: the replica of policy {row.policy} differs as of event {table.event_id}: "
            f"{table.first}; "
            f"run '{_repair_command(row, table)}'"
            for row in value
            for table in row.tables
        ]

    def actions(self, value: tuple[SamplerStatus, ...]) -> Iterable[OperatorAction]:
        """Return an entry for each table that differs from its source."""
        return [
            OperatorAction(
                "differing-table",
                f"replication:{row.policy} {table.table}",
                f"{count_text(table.differences, 'difference')} as of event {table.event_id}: {table.first}",
                f"{REPLICA}#a-table-differs-from-its-source",
                _repair_command(row, table),
                table.time_s,
                call_policy(row.policy, "load", "Load again", tables=[table.table]),
            )
            for row in value
            for table in row.tables
        ]

    def families(self, value: tuple[SamplerStatus, ...]) -> Iterable[Metric]:
        """Yield counters and gauges labeled by policy."""
        labels = {"policy": [row.policy for row in value]}
        yield from families(CounterMetricFamily, _COUNTERS, labels, value)
        yield from families(GaugeMetricFamily, _GAUGES, labels, value)


VERIFICATION: Final = VerificationSection()


def _repair_command(row: SamplerStatus, table: DifferingTable) -> str:
    return f"tideline verify {row.policy} {shlex.quote(table.table.rpartition('.')[2])} --repair"


def _row(row: SamplerStatus) -> tuple[str, ...]:
    return (
        row.policy,
        number_text(row.verified),
        number_text(row.busy),
        number_text(row.differing),
        duration_text(row.oldest_s),
    )
