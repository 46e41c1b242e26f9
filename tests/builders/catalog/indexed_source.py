"""A catalog of a source in memory, with timelines and a partition index, and the expected content of the
index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog.following.ports import Follower
from handlers.catalog.index.partition_follower import PartitionFollower, PartitionRules
from handlers.catalog.index.payloads import normalize
from handlers.catalog.projection import CatalogProjection
from handlers.catalog.timelines.rules import Rule, Rules
from handlers.catalog.timelines.timeline_follower import TimelineFollower
from handlers.structs.objects import Partition
from state.store import Store
from state.store.memory import MemoryStore
from tests.builders.catalog.random_changes import Kind


RULES = PartitionRules((f"{DB}.*",))
TIMELINES = Rules((Rule((f"{DB}.*",), columns=("dt",)),), lens=False)
KINDS = (
    *(4 * [Kind.ADD]),
    Kind.DROP,
    Kind.RENAME,
    *(2 * [Kind.ALTER]),
    Kind.DESCRIBE,
    Kind.RENAME_TABLE,
    Kind.DROP_TABLE,
    Kind.CASCADE,
    *(2 * [Kind.ADD_COLUMN]),
    Kind.RENAME_COLUMN,
    Kind.SWAP,
    Kind.EXCHANGE,
    Kind.RECREATE,
    Kind.TRUNCATE,
    Kind.DROP_DATABASE,
)
"""Every change that an index must follow; most of them add partitions."""
Held = dict[str, dict[tuple[str, ...], "Partition"]]


class Indexed:
    """A projection of a source in memory with timelines and an index, whose stores outlive it."""

    def __init__(
        self,
        source: MemorySource,
        rules: PartitionRules = RULES,
        *,
        store: MemoryStore | None = None,
        own: Store | None = None,
    ) -> None:
        self.source = source
        self.rules = rules
        self.store = store or MemoryStore()
        self.own = own
        self.reopen()

    def reopen(self) -> None:
        """Start again, as after a restart."""
        source: Any = self.source
        self.timelines = TimelineFollower(TIMELINES)
        self.follower = PartitionFollower(self.rules, self.own)
        followers: list[Follower] = [self.timelines, self.follower]
        self.projection = CatalogProjection(
            source_name="s", source=source, store=self.store, followers=followers
        )
        self.projection.open()

    def apply(self, upto: int | None = None) -> None:
        """Apply the next events, and load a part of a table."""
        events = self.source.events[self.projection.position.event_id : upto]
        if events:
            self.projection.apply(events)
        else:
            self.projection.settle()

    def lose_the_position(self) -> None:
        """Apply the next events, and lose the catalog's own store between the commits; only the separate
        index store is kept."""
        with self.position_lost():
            self.apply()

    @contextmanager
    def position_lost(self) -> Iterator[None]:
        """Restore the catalog's own store to its current content, as a crash between the two commits leaves
        it."""
        before = list(self.store.scan(b"", None))
        yield
        with self.store.transaction() as txn:
            txn.delete_range(b"", None)
            for key, value in before:
                txn.put(key, value)
        self.reopen()

    def follow(self) -> None:
        """Apply and load everything."""
        while self.projection.position.event_id < len(self.source.events):
            self.apply()
        self.projection.load_all()
        self.follower.check()

    def held(self) -> Held:
        """Return everything that the index returns."""
        follower = self.follower
        found: Held = {}
        for name in follower.indexed:
            entries = follower.index.partitions(follower.index.prepare(name, ""))
            found[name] = {entry.values: follower.whole(name, entry) for entry in entries}
        return {name: partitions for name, partitions in found.items() if partitions}


def expected(source: MemorySource) -> Held:
    """Return the naive result."""
    found: Held = {}
    for name, partitions in source.partitions.items():
        for values, partition in partitions.items():
            one = normalize(partition)
            one.dbName, one.tableName = DB, name
            found.setdefault(f"{DB}.{name}", {})[values] = one
    return found


def rebuilt(source: MemorySource) -> Indexed:
    fresh = Indexed(source)
    fresh.follow()
    return fresh
