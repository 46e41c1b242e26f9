"""A source's catalog with its state open: from the settings to the projection that keeps timelines and the partition index.

The daemon's loop follows with it; the command line opens one, under the lock of the state directory, where no daemon runs. One of
both at a time: a state file belongs to one process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from daemon.catalog.rules import rules_of
from daemon.partitions.actions import REQUESTS, PartitionDesk, expression_jvm, partition_follower
from daemon.partitions.metrics import PartitionMeasures
from daemon.relay.assembly import STORE_VERSION, state_file
from daemon.service.metrics import CatalogMeasures
from daemon.sources.metastore import measured_metastore
from daemon.timelines.actions import Desk
from daemon.timelines.answers import Known
from handlers.catalog.projection import CatalogProjection
from handlers.catalog.timelines.publisher import Publisher
from handlers.catalog.timelines.timeline_follower import TimelineFollower
from state.store.sqlite import SqliteStore


if TYPE_CHECKING:
    from pathlib import Path

    from daemon.config import Config
    from daemon.service.metrics import Metrics
    from handlers.metastore.client import Metastore


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
        states = self.projection.states
        event_id = self.projection.position.applied_event_id
        return Known(self.follower.timelines, event_id, states.waiting(), states.quarantined())


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
