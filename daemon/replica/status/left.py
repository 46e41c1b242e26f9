"""The section ``left`` of the daemon's status: tables that a policy no longer covers and that are still on
the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prometheus_client.core import GaugeMetricFamily

from daemon.status.actions import POLICIES
from daemon.status.model import OperatorAction, StatusSection
from daemon.terminal.layout import duration_text, table_text
from state.value_text import count_text


if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.metrics_core import Metric

    from handlers.replication.context import Context


LISTED_MAX: Final = 100
"""Tables of one policy that are listed."""


@dataclass(frozen=True, slots=True)
class LeftStatus:
    """A policy that no longer covers some of its replicated tables."""

    policy: str
    count: int
    tables: tuple[LeftTableStatus, ...]
    """At most ``LISTED_MAX``."""
    command: str
    """The command that drops them."""


@dataclass(frozen=True, slots=True)
class LeftTableStatus:
    """A table on the target that the policy no longer follows."""

    table: str
    """``db.table`` on the target."""
    left_s: int | None
    """Unix time; None if unknown."""


def list_left(policy: str, context: Context) -> tuple[LeftStatus, ...]:
    """Return the tables that left a policy, if there are any. Thread-safe."""
    entries, db = context.tables.left.entries(), context.policy.target_db
    if not entries:
        return ()
    tables = tuple(
        LeftTableStatus(f"{db}.{each.table}", each.left_s or None) for each in entries[:LISTED_MAX]
    )
    return (LeftStatus(policy, len(entries), tables, f"tideline prune {policy}"),)


class LeftSection(StatusSection[tuple[LeftStatus, ...]]):
    """The section ``left``."""

    key = "left"
    empty = ()

    def __init__(self) -> None:
        super().__init__(tuple[LeftStatus, ...])

    def text(self, value: tuple[LeftStatus, ...], now_s: float) -> str:
        """Return a row for each table; an empty text without tables."""
        header = ("LEFT", "TABLE", "SINCE", "COMMAND")
        rows = [
            (
                status.policy,
                each.table,
                "-" if each.left_s is None else duration_text(max(0.0, now_s - each.left_s)),
                status.command,
            )
            for status in value
            for each in status.tables
        ]
        return table_text(header, rows) if rows else ""

    def actions(self, value: tuple[LeftStatus, ...]) -> Iterable[OperatorAction]:
        """Return one entry for each policy that tables have left."""
        for status in value:
            times = [each.left_s for each in status.tables if each.left_s is not None]
            yield OperatorAction(
                "left-table",
                f"replication:{status.policy}",
                f"{count_text(status.count, 'table')} left the policy, but not the target",
                f"{POLICIES}#the-patterns-of-a-policy-change",
                status.command,
                min(times, default=None),
            )

    def families(self, value: tuple[LeftStatus, ...]) -> Iterable[Metric]:
        """Yield the number of tables by policy."""
        family = GaugeMetricFamily(
            "tideline_left_tables",
            "Tables still on the target that left the policy when its patterns changed.",
            labels=["policy"],
        )
        for status in value:
            family.add_metric([status.policy], status.count)
        yield family


LEFT: Final = LeftSection()
