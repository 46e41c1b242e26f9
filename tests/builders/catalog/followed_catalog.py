"""A catalog projection on a real metastore that reads the notification log directly, without Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

from daemon.partitions.answers import plain
from dev.stack.endpoints import Endpoints
from handlers.catalog.following.background import CallsAtOnce
from handlers.catalog.index.partition_follower import PartitionFollower, PartitionRules
from handlers.catalog.projection import CatalogProjection
from handlers.catalog.timelines.publisher import TimelinePublisher
from handlers.catalog.timelines.rules import Rule, Rules
from handlers.catalog.timelines.timeline_follower import TimelineFollower
from handlers.decoding.decoder import decode
from handlers.decoding.records.encoder import encode
from handlers.events import Event
from handlers.metastore.client import Metastore
from handlers.structs.objects import Partition
from state.event_log.positions import Position
from state.store import Store
from state.store.memory import MemoryStore
from state.timelines.tables.projection import Timelines, iterate_timelines
from tests.builders.daemon.tideline_process import kafka_settings


Content = dict[tuple[str, str, str], list[tuple[str, str]]]
"""(table, column, period) to runs as (first, last)."""


def reload(projection: CatalogProjection, name: str) -> None:
    """Load a table from its partitions now, which also ends its quarantine; raises what the load raises."""
    projection.request_load(name)
    while not projection._loader.load(name, "asked"):
        pass
    projection._require_followed(name)


@dataclass
class FollowedCatalog:
    """A projection with its source, store and followers."""

    source: Metastore
    store: Store
    follower: TimelineFollower
    projection: CatalogProjection
    partitions: PartitionFollower

    def events(self, after: int) -> list[Event]:
        """Read the log after ``after``, in the form that the consumer delivers."""
        found: list[Event] = []
        for notification in self.source.next_events(after, -1):
            records = encode("test", notification, None, record_bytes_max=512 * 1024)
            found.extend(decode(record.value, record.headers) for record in records)
        return found

    def follow(self) -> Position:
        """Apply all events of the log, and load all waiting tables."""
        position = self.projection.open()
        self.projection.load_all()
        position = self._apply(position)
        # A decision about a table may wait for events that other databases of the metastore have caused
        # meanwhile.
        while self.projection.states.waiting().keys() - self.projection.states.postponed().keys():
            position = self._apply(position)
        self.timelines.check(self.store)
        self.partitions.check()
        return position

    def _apply(self, position: Position) -> Position:
        events = self.events(position.event_id)
        if events:
            position = self.projection.apply(events)
        self.projection.load_all()
        return position

    @property
    def timelines(self) -> Timelines:
        """The current timelines."""
        return self.follower.timelines

    def content(self) -> Content:
        """Return the content of the timelines."""
        return content(self.timelines)

    def close(self) -> None:
        """Close the projection and its connection."""
        self.projection.close()


def content(timelines: Timelines) -> Content:
    """Return the content of timelines, without empty ones."""
    return {
        (table, timeline.column, timeline.period.lens_name): [
            (timeline.period.format(first), timeline.period.format(end - 1))
            for first, end in timeline.runs.pairs()
        ]
        for table, timeline in iterate_timelines(timelines)
        if timeline.runs
    }


def followed_catalog(
    uri: str,
    rules: Rules,
    *,
    store: Store | None = None,
    publisher: type[TimelinePublisher] | None = None,
    delay_s: float = 0,
    partitions: PartitionRules | None = None,
) -> FollowedCatalog:
    """Return a catalog of the metastore at ``uri``; with ``publisher`` it writes into the source's tables."""
    from handlers.catalog.following.ports import NullObserver

    source = Metastore([uri])
    follower = TimelineFollower(rules, publishes=publisher is not None)
    made = (
        publisher(calls=CallsAtOnce(source), follower=follower, delay_s=delay_s, observer=NullObserver())
        if publisher is not None
        else None
    )
    kept = store if store is not None else MemoryStore()
    indexed = PartitionFollower(partitions or PartitionRules())
    projection = CatalogProjection(
        source_name="test", source=source, store=kept, followers=[follower, indexed], publisher=made
    )
    return FollowedCatalog(source, kept, follower, projection, indexed)


@contextmanager
def catalogs_of(uri: str) -> Iterator[Callable[..., FollowedCatalog]]:
    """Provide a function that builds catalogs of one metastore as ``followed_catalog`` does; close all of
    them afterwards."""
    with ExitStack() as opened:

        def make(rules: Rules, **more: Any) -> FollowedCatalog:
            return opened.enter_context(closing(followed_catalog(uri, rules, **more)))

        yield make


def rules_for(database: str, **rule: object) -> Rules:
    """Return rules that follow every table of one database."""
    # Names are the fields
    return Rules((Rule((f"{database}.*",), **rule),), lens=False)  # type: ignore[arg-type]


def catalog_settings(stack: Endpoints, topic: str, catalog: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a daemon with ``catalog`` of the stack's source, under the name ``lake``."""
    return {
        "sources": {"lake": {"metastore": [stack.source.metastore], "topic": topic}},
        "catalog": {"lake": {"lens": False, **catalog}},
        "kafka": kafka_settings(stack.kafka, topic),
    }


def rebuilt(uri: str, rules: Rules) -> Content:
    """Return the content of a catalog that starts now."""
    with _loaded(uri, rules) as fresh:
        return fresh.content()


def indexed_content(catalog: FollowedCatalog) -> dict[str, dict[str, str]]:
    """Return the content of the partition index: the partitions as text, by table and name."""
    follower = catalog.partitions
    found = {
        table: follower.index.partitions(follower.index.prepare(table, "")) for table in follower.indexed
    }
    return {
        table: {one.name: _format_sorted(follower.whole(table, one)) for one in partitions}
        for table, partitions in sorted(found.items())
    }


def _format_sorted(partition: Partition) -> str:
    """Return a partition as text that does not depend on the order in which a metastore lists parameters,
    which is not defined."""
    return json.dumps(plain(partition), sort_keys=True, default=str)


def reindexed(uri: str, rules: PartitionRules) -> dict[str, dict[str, str]]:
    """Return the content of an index that starts now."""
    with _loaded(uri, Rules(lens=False), rules) as fresh:
        return indexed_content(fresh)


@contextmanager
def _loaded(uri: str, rules: Rules, partitions: PartitionRules | None = None) -> Iterator[FollowedCatalog]:
    with closing(followed_catalog(uri, rules, partitions=partitions)) as fresh:
        fresh.projection.open()
        fresh.projection.load_all()
        yield fresh
