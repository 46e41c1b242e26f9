"""The section ``points`` of the daemon's status: the state of its source that each replica shows.

Replay's thread records a point between two batches, so that its event id and write ids belong together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from daemon.status.model import StatusSection
from daemon.terminal.layout import id_text, moment_text, number_text, table_text


if TYPE_CHECKING:
    from handlers.replication.context import Context


TABLES_MAX: Final = 1_000
"""Maximum number of tables of a policy with listed write ids."""
COST: Final = 100
"""A point costs a pass over the tables; while the policy advances, points take this part of the time at most.
"""


@dataclass(frozen=True, slots=True)
class PointStatus:
    """The point that the replica of one policy shows."""

    policy: str
    event_id: int
    """The last event applied completely."""
    time_s: int | None
    """Its time at the source (Unix time), if applied since the start."""
    write_ids: Mapping[str, int] = field(default_factory=dict)
    """The highest write id of tables written since their load; at most ``TABLES_MAX``."""
    open_writes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Write ids of these tables that are uncommitted at this point, and show no rows."""


class PointTaker:
    """Records the point of one policy from time to time, in replay's thread. ``rows`` is thread-safe."""

    def __init__(self, policy: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._policy = policy
        self._clock = clock
        self._due_s = float("-inf")
        self.point: PointStatus | None = None

    def rows(self) -> tuple[PointStatus, ...]:
        """Return the point, if there is one."""
        return () if self.point is None else (self.point,)

    def take(self, event_id: int, time_s: int | None, context: Context) -> None:
        """Record the point if it has changed and the last recorded one is old enough."""
        began_s = self._clock()
        is_same = self.point is not None and self.point.event_id == event_id
        if is_same or began_s < self._due_s:
            return
        lists = context.tables.write_ids.list_valid_write_ids(TABLES_MAX)
        names = [each.table.partition(".")[2] for each in lists]
        self.point = PointStatus(
            self._policy,
            event_id,
            time_s,
            {name: each.high_water_mark for name, each in zip(names, lists, strict=True)},
            {name: each.open for name, each in zip(names, lists, strict=True) if each.open},
        )
        ended_s = self._clock()
        self._due_s = ended_s + COST * (ended_s - began_s)


class PointSection(StatusSection[tuple[PointStatus, ...]]):
    """The section ``points``."""

    key = "points"
    empty = ()

    def __init__(self) -> None:
        super().__init__(tuple[PointStatus, ...])

    # ARG002: times are those of the source
    def text(self, value: tuple[PointStatus, ...], now_s: float) -> str:  # noqa: ARG002
        """Return a row for each policy; only the JSON has the write ids."""
        header = ("POINT", "EVENT", "OF", "TABLES WRITTEN", "OPEN WRITES")
        rows = [
            (
                each.policy,
                id_text(each.event_id),
                moment_text(each.time_s),
                number_text(len(each.write_ids)),
                number_text(sum(map(len, each.open_writes.values()))),
            )
            for each in value
        ]
        return table_text(header, rows)


POINTS: Final = PointSection()
