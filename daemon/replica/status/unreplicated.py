"""The section ``unreplicated`` of the daemon's status: objects that a policy covers but cannot replicate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prometheus_client.core import GaugeMetricFamily

from daemon.status.model import StatusSection
from daemon.terminal.layout import table_text


if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.metrics_core import Metric

    from handlers.replication.context import Context


LISTED_MAX: Final = 100
"""Maximum number of listed objects of a policy."""


@dataclass(frozen=True, slots=True)
class UnreplicatedStatus:
    """A policy with objects that it does not replicate."""

    policy: str
    counts: dict[str, int]
    """Numbers by code, such as ``iceberg``."""
    listed: tuple[UnreplicatedObject, ...]
    """At most ``LISTED_MAX``."""


@dataclass(frozen=True, slots=True)
class UnreplicatedObject:
    """An object of the source without a replica."""

    name: str
    """``db.table`` at the source."""
    code: str
    reason: str
    event_id: int
    """The event that showed it."""
    on_target: bool
    """Whether the target has a table of this name with the rows of an earlier time."""


def list_unreplicated(policy: str, context: Context) -> tuple[UnreplicatedStatus, ...]:
    """Return the objects that a policy cannot replicate, if there are any. Thread-safe."""
    entries, db = context.tables.unreplicated.entries(), context.policy.source_db
    if not entries:
        return ()
    counts: dict[str, int] = {}
    for each in entries:
        counts[each.code] = counts.get(each.code, 0) + 1
    listed = tuple(
        UnreplicatedObject(f"{db}.{each.table}", each.code, each.reason, each.event_id, each.on_target)
        for each in entries[:LISTED_MAX]
    )
    return (UnreplicatedStatus(policy, counts, listed),)


class UnreplicatedSection(StatusSection[tuple[UnreplicatedStatus, ...]]):
    """The section ``unreplicated``."""

    key = "unreplicated"
    empty = ()

    def __init__(self) -> None:
        super().__init__(tuple[UnreplicatedStatus, ...])

    # ARG002: part of the protocol
    def text(self, value: tuple[UnreplicatedStatus, ...], now_s: float) -> str:  # noqa: ARG002
        """Return a row for each object, with the reason; an empty text without objects."""
        header = ("NOT REPLICATED", "OBJECT", "CODE", "REASON")
        rows = [
            (status.policy, each.name, each.code, each.reason) for status in value for each in status.listed
        ]
        return table_text(header, rows) if rows else ""

    def families(self, value: tuple[UnreplicatedStatus, ...]) -> Iterable[Metric]:
        """Yield the numbers by policy and code."""
        family = GaugeMetricFamily(
            "tideline_unreplicated_objects",
            "Tables and functions of a policy that cannot be replicated, by reason.",
            labels=["policy", "code"],
        )
        for status in value:
            for code, count in sorted(status.counts.items()):
                family.add_metric([status.policy, code], count)
        yield family


UNREPLICATED: Final = UnreplicatedSection()
