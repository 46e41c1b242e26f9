"""A catalog over a source in memory, with timelines and a partition index, and what the index should then hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from handlers.catalog.partitions import PartitionFollower
from handlers.catalog.payloads import settled
from handlers.catalog.projection import CatalogProjection
from handlers.catalog.rules import PartitionRules, Rule, Rules
from handlers.catalog.timelines import TimelineFollower
from state.store.memory import MemoryStore
from tests.builders.catalog_model import DB, ModelSource


if TYPE_CHECKING:
    from handlers.catalog.follower import Follower
    from handlers.structs import Partition
    from state.store import Store


RULES = PartitionRules((f"{DB}.*",))
TIMELINES = Rules((Rule((f"{DB}.*",), columns=("dt",)),), lens=False)
NAMES = ["a", "b", "c"]
DAYS = [f"2015-01-{day:02}" for day in range(1, 7)]
Held = dict[str, dict[tuple[str, ...], "Partition"]]


class Indexed:
    """A projection of a model source with timelines and an index, in stores that outlive it."""

    def __init__(
        self,
        source: ModelSource,
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
        """As after a restart."""
        source: Any = self.source
        self.timelines = TimelineFollower(TIMELINES)
        self.follower = PartitionFollower(self.rules, self.own)
        followers: list[Follower] = [self.timelines, self.follower]
        self.projection = CatalogProjection(
            source_name="s", source=source, store=self.store, followers=followers
        )
        self.projection.open()

    def apply(self, upto: int | None = None) -> None:
        """Apply what comes next, and load a piece of something."""
        events = self.source.events[self.projection.position.event_id : upto]
        if events:
            self.projection.apply(events)
        else:
            self.projection.settle()

    def lose_the_position(self) -> None:
        """Apply what comes next, and lose the catalog's own store between the commits: only what is apart is kept."""
        before = list(self.store.scan(b"", None))
        self.apply()
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
        """Everything that the index answers."""
        follower = self.follower
        found: Held = {}
        for name in follower.indexed:
            entries = follower.index.partitions(follower.index.prepare(name, ""))
            found[name] = {entry.values: follower.whole(name, entry) for entry in entries}
        return {name: partitions for name, partitions in found.items() if partitions}


def expected(source: ModelSource) -> Held:
    """The naive answer."""
    found: Held = {}
    for name, partitions in source.partitions.items():
        for values, partition in partitions.items():
            one = settled(partition)
            one.dbName, one.tableName = DB, name
            found.setdefault(f"{DB}.{name}", {})[values] = one
    return found


def rebuilt(source: ModelSource) -> Indexed:
    fresh = Indexed(source)
    fresh.follow()
    return fresh


def change(source: ModelSource, kind: int, table: int, day: int, other: int) -> None:
    """Do one of the possible changes, or nothing where it is not possible."""
    name = NAMES[table]
    if name not in source.tables:
        source.create(name)
    elif kind <= 8:
        change_partition(source, kind, name, (DAYS[day], str(other)))
    elif kind == 9:
        if NAMES[other] not in source.tables:
            source.rename(name, NAMES[other])
    elif kind == 10:
        source.drop_table(name)
    elif kind == 11:
        source.cascade(name)
    elif day == 0:
        source.drop_database()


def change_partition(source: ModelSource, kind: int, name: str, values: tuple[str, str]) -> None:
    held = sorted(source.partitions[name])
    old = held[int(values[1]) % len(held)] if held else None
    if kind <= 3 and values not in held:
        source.add(name, *values)
    elif kind == 4 and old is not None:
        source.drop(name, *old)
    elif kind == 5 and old is not None and values not in held:
        source.rename_partition(name, old, values)
    elif kind in {6, 7} and old is not None:
        source.alter_partition(name, old, {"numRows": values[0]})
    elif kind == 8 and old is not None:
        source.describe(name, old, {"COLUMN_STATS_ACCURATE": values[0]})
