"""Timelines as a branch of the catalog: the follower of a source, publishing, and the requests about tables.

A running daemon and a command on its state files serve requests in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Final

from daemon.catalog.branch import BranchContext
from daemon.catalog.settings import CATALOG
from daemon.process.inbox import SteppedWork, StillWorking
from daemon.sources.connections import measured_metastore
from daemon.timelines.answers import TimelinesView
from daemon.timelines.settings import facts_of, rules_of
from handlers.catalog.following.background import CallThread
from handlers.catalog.projection import CatalogProjection
from handlers.catalog.timelines.drift import compare_timelines
from handlers.catalog.timelines.property_writer import TimelineName, migrate
from handlers.catalog.timelines.publisher import TimelinePublisher
from handlers.catalog.timelines.timeline_follower import TimelineFollower
from state.errors import BadInput
from state.timelines.periods import UpdatePeriod
from state.timelines.tables.projection import count_runs, iterate_timelines


class TimelineBranch:
    """The timelines of one source with their state open (``daemon.catalog.branch.OpenBranch``)."""

    requests: Final = frozenset({"load-timelines", "check-timelines", "migrate-timeline"})

    def __init__(self, context: BranchContext) -> None:
        settings = CATALOG.of(context.tools.config)[context.source]
        self._facts = facts_of(context.tools.config, context.source)
        self._store = context.store
        self._observer = context.observer
        self.follower = TimelineFollower(
            rules_of(settings), context.observer, publishes=settings.publish.enabled
        )
        self.publisher = _publisher(context, self.follower)
        self._checks = SteppedWork()
        self._migrations = SteppedWork()

    def attach(self, projection: CatalogProjection) -> None:
        """Receive the projection that drives the follower."""
        self.projection = projection

    def view(self) -> TimelinesView:
        """Return the state that answers queries. Thread-safe."""
        states = self.projection.states
        return TimelinesView(
            event_id=self.projection.position.applied_event_id,
            waiting=states.waiting(),
            quarantined=states.quarantined(),
            table_state=states.state,
            is_surveyed=self.projection.is_surveyed,
            timelines=self.follower.timelines,
            facts=self._facts,
        )

    def loading(self) -> list[str]:
        """Return nothing, because timelines load a table in one step."""
        return []

    def measure(self) -> None:
        """Set the numbers of timelines and runs."""
        timelines = self.follower.timelines
        self._observer.set_sizes(sum(1 for _ in iterate_timelines(timelines)), count_runs(timelines))

    def close(self) -> None:
        """Do nothing: the projection closes the parts of the branch."""

    def do(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Serve one request; raise BadInput for an unknown one, and the errors of serving it."""
        match request:
            case {"do": "load-timelines", "table": str(table)}:
                return self._rebuild(table)
            case {"do": "check-timelines", "table": str(table)}:
                return self._check(table)
            case {
                "do": "migrate-timeline",
                "table": str(table),
                "column": str(column),
                "period": str(period),
                "to": str(to),
            }:
                return self._migrate(table, column, period, to)
        raise BadInput("unknown request", request=str(request)[:200])

    def _rebuild(self, table: str) -> dict[str, Any]:
        if not self.projection.continue_reload(table):
            raise StillWorking
        followed = table in self.follower.timelines.tables()
        count = len(self.follower.timelines.timelines(table)) if followed else 0
        return {"table": table, "timelines": count, "event_id": self.projection.position.applied_event_id}

    def _check(self, table: str) -> dict[str, Any]:
        reflected = self.projection.position.applied_event_id
        comparison = self._checks.advance(
            table,
            lambda: compare_timelines(
                self.projection.calls,
                self.follower,
                table,
                lambda: self.projection.position.applied_event_id,
            ),
        )
        if comparison.drift and not comparison.moving:
            self._observer.count_drift(len(comparison.drift))
        drift = [asdict(one) | {"period": one.period.lens_name} for one in comparison.drift]
        return {
            "table": table,
            "event_id": reflected,
            "current_event_id": comparison.source_event_id,
            "moving": comparison.moving,
            "drift": drift,
        }

    def _migrate(self, table: str, column: str, period: str, to: str) -> dict[str, Any]:
        followed = self.follower.timelines.settings(table)
        name = TimelineName(table, UpdatePeriod.from_lens_name(period, iso_weeks=followed.iso_weeks), column)
        # The table properties are at the source, or on the target to which timelines are published.
        calls = self.projection.calls if self.publisher is None else self.publisher.calls
        target = table if self.publisher is None else self.publisher.target_name(table)
        result = self._migrations.advance(
            repr((name, to)), lambda: migrate(self._store, self.follower, calls, target, name, to)
        )
        return asdict(result) | {"event_id": self.projection.position.applied_event_id}


def _publisher(context: BranchContext, follower: TimelineFollower) -> TimelinePublisher | None:
    config = context.tools.config
    settings = CATALOG.of(config)[context.source].publish
    if not settings.enabled:
        return None
    if settings.target is None:
        cluster, uris, database = context.source, config.sources[context.source].metastore, None
    else:
        cluster, uris = settings.target, config.targets[settings.target].metastore
        database = partial(config.name_on_target, context.source, settings.target)
    metastore = measured_metastore(context.tools.calls, cluster)(uris)
    return TimelinePublisher(
        calls=CallThread(metastore, f"catalog:{context.source}:publishing"),
        follower=follower,
        delay_s=settings.delay_s,
        observer=context.observer,
        database=database,
    )
