"""A catalog of timelines and an index, whose metastore answers when a test says so."""

from __future__ import annotations

from typing import Any

from dev.fixtures.memory_source import MemorySource
from handlers.catalog.following.table_state import PAUSE_MAX_S
from handlers.catalog.index.partition_follower import PartitionFollower
from handlers.catalog.projection import CatalogProjection
from handlers.catalog.timelines.timeline_follower import TimelineFollower
from state.store.memory import MemoryStore
from tests.builders.catalog.flaky_source import FlakySource
from tests.builders.catalog.indexed_source import RULES, TIMELINES, Held
from tests.builders.catalog.late_calls import LateCalls, begin_at_newest_event


class LateCatalog:
    """``calls`` makes and answers the calls of the metastore, and ``flaky`` makes them fail."""

    events_max = 1000
    """Events that are applied at once."""

    def __init__(self, source: MemorySource) -> None:
        self.source = source
        self.flaky: Any = FlakySource(source)
        self.store = MemoryStore()
        self.now_s = 1e9
        self.open()

    def open(self) -> None:
        """Open the catalog with what it has stored."""
        self.calls = LateCalls(self.flaky)
        self.timelines, self.index = TimelineFollower(TIMELINES), PartitionFollower(RULES)
        source: Any = self.source
        self.projection = CatalogProjection(
            source_name="s",
            source=source,
            store=self.store,
            followers=[self.timelines, self.index],
            clock=lambda: self.now_s,
            calls=self.calls,
        )
        begin_at_newest_event(self.store, source)
        self.projection.open()

    def apply(self, most: int | None = None) -> None:
        """Apply the next events."""
        position = self.projection.position.event_id
        events = self.source.events[position : position + (most or self.events_max)]
        if events:
            self.projection.apply(events)

    def finish(self) -> None:
        """Apply all events, and make and answer all calls, until nothing is left to do."""
        self.flaky.faults.clear()
        while self.projection.position.event_id < len(self.source.events):
            self.apply()
        while self.projection.settle() or self.projection.states.waiting() or not self.projection.is_surveyed:
            self.calls.make()
            self.calls.answer()
            self.now_s += PAUSE_MAX_S

    def held(self) -> Held:
        """Return the partitions of the tables that have any."""
        found = {
            name: {
                entry.values: self.index.whole(name, entry)
                for entry in self.index.index.partitions(self.index.index.prepare(name, ""))
            }
            for name in self.index.indexed
        }
        return {name: partitions for name, partitions in found.items() if partitions}
