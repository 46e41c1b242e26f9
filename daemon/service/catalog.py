"""From a catalog's settings to the projection that keeps a source's timelines and its partition index."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from daemon.consumer import follow
from daemon.metrics import CatalogMeasures
from daemon.partition_metrics import PartitionMeasures
from daemon.partitions import PartitionView
from daemon.projection import ProjectionStatus
from daemon.reporting import ProjectionPart
from daemon.requests import Inbox
from daemon.service.catalog_rules import facts_of, rules_of
from daemon.service.late import Late
from daemon.service.measured import measured_metastore
from daemon.service.partitions import REQUESTS, PartitionDesk, expression_jvm, partition_follower
from daemon.service.readers import topic_reader
from daemon.service.sources import STORE_VERSION, state_file
from daemon.service.timelines import Desk
from daemon.supervisor import Job
from daemon.timelines import Known, TimelineView
from handlers.catalog.projection import CatalogProjection
from handlers.catalog.publishing import Publisher
from handlers.catalog.timelines import TimelineFollower
from state.store.sqlite import SqliteStore
from state.timelines.projection import each, run_total


if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from daemon.config import Config
    from daemon.consumer import ReaderStatus
    from daemon.lifeline import Lifeline
    from daemon.metrics import Metrics
    from daemon.partitions import KnownPartitions
    from handlers.events import Event
    from handlers.metastore import Metastore
    from state.positions import Position


MEASURE_S: Final = 5.0
"""How often runs are counted for the metrics."""


def projection_name(source: str) -> str:
    """Return the name of a source's catalog projection."""
    return f"catalog:{source}"


def catalog_file(config: Config, source: str) -> Path:
    """Return the state file of a source's catalog."""
    return state_file(config.state.dir, "catalog", source)


def requests_directory(config: Config, source: str) -> Path:
    """Return where a source's catalog is asked to do something."""
    return config.state.dir / "requests" / f"catalog-{source}"


@dataclass(frozen=True, slots=True)
class CatalogParts:
    """The loop of a source's catalog, what it tells, and the views that answer from it."""

    job: Job
    part: ProjectionPart
    timelines: TimelineView
    partitions: PartitionView | None
    """None where no table is to be indexed."""


def build_catalog(config: Config, source: str, metrics: Metrics) -> CatalogParts:
    """Return the parts of a source's catalog; opens nothing yet."""
    projection = projection_name(source)
    late = Late(lambda: _Catalog(config, source, metrics))
    idle = ProjectionStatus(projection, source, "starting", None, None)
    part = ProjectionPart(
        projection,
        source,
        status=lambda: late.built.status if late.built is not None else idle,
        counts=lambda: late.built.counts() if late.built is not None else None,
        loading=lambda: late.built.loading() if late.built is not None else (),
    )
    timelines = TimelineView(
        source, facts_of(config, source), lambda: late.built.known() if late.built is not None else None
    )
    partitions = PartitionView(
        source, lambda: late.built.known_partitions() if late.built is not None else None
    )
    indexes = config.catalog[source].partitions is not None
    return CatalogParts(Job(projection, late.run), part, timelines, partitions if indexes else None)


@dataclass(frozen=True, slots=True)
class OpenCatalog:
    """A source's catalog with its state open."""

    store: SqliteStore
    source: Metastore
    follower: TimelineFollower
    projection: CatalogProjection
    desk: Desk
    partitions: PartitionDesk

    def do(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what is asked of timelines or partitions; raises BadInput where it is neither, and what it raises."""
        return (self.partitions if request.get("do") in REQUESTS else self.desk).do(request)

    def close(self) -> None:
        """Release the state, the connections and what reads expressions."""
        self.projection.close()
        self.partitions.close()

    def known(self) -> Known:
        """Return what answers are made from; for any thread."""
        watch = self.projection.watch
        event_id = self.projection.position.applied_event_id
        return Known(self.follower.timelines, event_id, watch.waiting(), watch.confined())


def open_catalog(config: Config, source: str, measures: CatalogMeasures, metrics: Metrics) -> OpenCatalog:
    """Open a source's catalog; raises StateLocked, StateCorrupt, ConfigError."""
    settings = config.catalog[source]
    follower = TimelineFollower(rules_of(settings), measures, publishes=settings.publish.enabled)
    metastore = measured_metastore(metrics, source)(config.sources[source].metastore)
    publisher = _publisher(config, source, metastore, follower, metrics)
    indexed = partition_follower(settings)
    store = SqliteStore(catalog_file(config, source), schema_version=STORE_VERSION)
    projection = CatalogProjection(
        source_name=source,
        source=metastore,
        store=store,
        followers=[follower, indexed],
        observer=measures,
        publisher=publisher,
    )
    written = metastore if publisher is None else publisher.metastore
    desk = Desk(store, metastore, written, projection, follower, publisher, measures.drifted)
    told = PartitionMeasures(metrics.partitions, projection.name)
    partitions = PartitionDesk(metastore, projection, indexed, told, expression_jvm(settings))
    return OpenCatalog(store, metastore, follower, projection, desk, partitions)


def _publisher(
    config: Config, source: str, metastore: Metastore, follower: TimelineFollower, metrics: Metrics
) -> Publisher | None:
    settings = config.catalog[source].publish
    if not settings.enabled:
        return None
    measures = CatalogMeasures(metrics, projection_name(source))
    if settings.target is None:
        return Publisher(metastore=metastore, follower=follower, delay_s=settings.delay_s, observer=measures)
    names = {
        policy.database: policy.replica_database
        for policy in config.policies.values()
        if policy.source == source and policy.target == settings.target
    }
    return Publisher(
        metastore=measured_metastore(metrics, settings.target)(config.targets[settings.target].metastore),
        follower=follower,
        delay_s=settings.delay_s,
        observer=measures,
        database=lambda db: names.get(db, db),
    )


class _Served:
    """The catalog's projection, which also does what is asked of it between batches."""

    def __init__(self, opened: OpenCatalog, inbox: Inbox) -> None:
        self._projection = opened.projection
        self._do = opened.do
        self._close = opened.close
        self._inbox = inbox
        self.name = opened.projection.name
        self.source = opened.projection.source

    def open(self) -> Position:
        """Open the projection and the inbox."""
        self._inbox.open()
        return self._projection.open()

    def apply(self, events: Sequence[Event]) -> Position:
        """Apply, then serve."""
        position = self._projection.apply(events)
        self._inbox.serve(self._do)
        return position

    def settle(self) -> None:
        """Settle, then serve."""
        self._projection.settle()
        self._inbox.serve(self._do)

    def quarantined(self) -> Sequence[str]:
        """Return the quarantined tables."""
        return self._projection.quarantined()

    def close(self) -> None:
        """Release everything."""
        self._close()


class _Catalog:
    """One source's catalog projection with its reader, kept over restarts of the loop."""

    def __init__(self, config: Config, source: str, metrics: Metrics) -> None:
        name = projection_name(source)
        self._measures = CatalogMeasures(metrics, name)
        self._visible_s = metrics.visible_s.labels(name)
        self._reader = topic_reader(
            config, source, projection=projection_name(source), group=f"tideline.catalog.{source}"
        )  # before the state is opened: nothing is held where it fails
        self._opened = open_catalog(config, source, self._measures, metrics)
        self._served = _Served(self._opened, Inbox(requests_directory(config, source)))
        self._counted_s = 0.0
        self.status = ProjectionStatus(name, source, "starting", None, None)

    def run(self, lifeline: Lifeline) -> None:
        """Follow until told to stop; the state is released only then, since a restart goes on with it."""
        try:
            follow(self._served, self._reader, lifeline, self._report)
        finally:
            if lifeline.stopping.is_set():
                self._served.close()

    def known(self) -> Known | None:
        """What answers are made from, None before the state is read; for any thread."""
        return None if self.status.position is None else self._opened.known()

    def known_partitions(self) -> KnownPartitions | None:
        """What answers about partitions are made from, None before the state is read; for any thread."""
        return None if self.status.position is None else self._opened.partitions.known()

    def loading(self) -> list[str]:
        """Which tables are being loaded in pieces, and how far they are; for any thread."""
        return self._opened.partitions.loading()

    def counts(self) -> ReaderStatus:
        """What the reader has met."""
        return self._reader.status

    def _report(self, status: ProjectionStatus) -> None:
        moved = status.applied_time_s is not None and status.position != self.status.position
        self.status = status
        if moved and status.applied_time_s is not None:
            self._visible_s.observe(max(0.0, time.time() - status.applied_time_s))
        if time.monotonic() - self._counted_s >= MEASURE_S:
            self._count()

    def _count(self) -> None:
        known = self._opened.known()
        self._measures.counted(
            sum(1 for _ in each(known.timelines)), run_total(known.timelines), len(known.waiting)
        )
        self._opened.partitions.count()
        self._counted_s = time.monotonic()
