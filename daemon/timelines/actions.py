"""What may be asked of a catalog besides answers: migrate, rebuild, check. The same on a live daemon and on its state file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from handlers.catalog.timelines.drift import compare_timelines
from handlers.catalog.timelines.publisher import TimelineName, migrate
from state.errors import BadInput
from state.timelines.periods import UpdatePeriod


if TYPE_CHECKING:
    from collections.abc import Callable

    from handlers.catalog.projection import CatalogProjection
    from handlers.catalog.timelines.publisher import Publisher
    from handlers.catalog.timelines.timeline_follower import TimelineFollower
    from handlers.metastore.client import Metastore
    from state.store import Store


@dataclass(frozen=True, slots=True)
class Desk:
    """Does what is asked; used by the thread of the catalog."""

    store: Store
    source: Metastore
    properties: Metastore
    """Where table properties are written: the source, or the target that timelines are published to."""
    projection: CatalogProjection
    follower: TimelineFollower
    publisher: Publisher | None
    drifted: Callable[[int], None]

    def do(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do one request; raises BadInput for one that is none, and what it raises."""
        match request:
            case {"do": "rebuild", "table": str(table)}:
                return self._rebuild(table)
            case {"do": "check", "table": str(table)}:
                return self._check(table)
            case {
                "do": "migrate",
                "table": str(table),
                "column": str(column),
                "period": str(period),
                "to": str(to),
            }:
                return self._migrate(table, column, period, to)
        raise BadInput("no such request", request=str(request)[:200])

    def _rebuild(self, table: str) -> dict[str, Any]:
        self.projection.reload(table)
        followed = table in self.follower.timelines.tables()
        count = len(self.follower.timelines.timelines(table)) if followed else 0
        return {"table": table, "timelines": count, "event_id": self.projection.position.applied_event_id}

    def _check(self, table: str) -> dict[str, Any]:
        reflected = self.projection.position.applied_event_id
        found = compare_timelines(self.source, self.follower, table, reflected)
        if found.drift and not found.moving:
            self.drifted(len(found.drift))
        drift = [asdict(one) | {"period": one.period.lens_name} for one in found.drift]
        return {
            "table": table,
            "event_id": reflected,
            "current_event_id": found.source_event_id,
            "moving": found.moving,
            "drift": drift,
        }

    def _migrate(self, table: str, column: str, period: str, to: str) -> dict[str, Any]:
        followed = self.follower.timelines.settings(table)
        name = TimelineName(table, UpdatePeriod.from_lens_name(period, iso_weeks=followed.iso_weeks), column)
        target = table if self.publisher is None else self.publisher.target_name(table)
        done = migrate(self.store, self.follower, self.properties, target, name, to)
        return asdict(done) | {"event_id": self.projection.position.applied_event_id}
