"""Random histories on a real metastore whose calls fail: a table that says that it is followed equals the
metastore at any time."""

from __future__ import annotations

import random
from contextlib import closing
from typing import Any, cast

import pytest

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.catalog.following.background import CallsAtOnce
from handlers.catalog.following.loads import steps
from handlers.catalog.following.table_state import PAUSE_MAX_S
from handlers.catalog.index.partition_follower import PartitionFollower, PartitionRules
from handlers.catalog.projection import CatalogProjection
from handlers.catalog.timelines.timeline_follower import TimelineFollower
from handlers.events import Event, PartitionsAdded, PartitionsDropped, Undecodable
from handlers.metastore.client import Metastore
from state.errors import MalformedEvent
from state.store.memory import MemoryStore
from tests.builders.catalog.flaky_source import FAULTS, FlakySource
from tests.builders.catalog.followed_catalog import FollowedCatalog, rebuilt, rules_for
from tests.builders.catalog.hive_changes import FREE, KINDS, NAMES, HiveChanges


class Failing:
    """A catalog of one database, whose metastore calls fail as drawn; its clock is the test's."""

    def __init__(self, source: ClusterEndpoints, database: str, drawn: random.Random) -> None:
        self.client, self.database, self.drawn = Metastore([source.metastore]), database, drawn
        self.flaky: Any = FlakySource(self.client)  # type: ignore[arg-type]  # passes calls on to any source
        self.store, self.now_s = MemoryStore(), 1e9
        self.timelines = TimelineFollower(rules_for(database, columns=("dt",)))
        self.index = PartitionFollower(PartitionRules((f"{database}.*",)))
        self.projection = CatalogProjection(
            source_name="s",
            source=self.client,
            store=self.store,
            followers=[self.timelines, self.index],
            clock=lambda: self.now_s,
            calls=CallsAtOnce(cast("Metastore", self.flaky)),
        )
        self.projection.open()
        self.catalog = FollowedCatalog(self.client, self.store, self.timelines, self.projection, self.index)

    def apply(self, *, fails: bool) -> None:
        """Apply what has happened, in random batches, with loads and failing calls between them."""
        events = [
            self._without_list(event) if fails and self.drawn.random() < 0.05 else event
            for event in self.catalog.events(self.projection.position.event_id)
        ]
        while events:
            self.flaky.faults = self._faults() if fails else []
            size = self.drawn.randrange(1, 8)
            self.projection.apply(events[:size])
            self.settle()
            events = events[size:]

    @staticmethod
    def _without_list(event: Event) -> Event:
        """Return an event about partitions as it arrives where its list of partitions is missing."""
        if not isinstance(event, PartitionsAdded | PartitionsDropped):
            return event
        header = {
            each: getattr(event, each) for each in ("event_id", "time_s", "kind", "catalog", "db", "table")
        }
        return Undecodable(**header, error=MalformedEvent("the list of partitions is missing"))

    def settle(self) -> None:
        for _ in range(self.drawn.randrange(6)):
            self.projection.settle()
            self.now_s += self.drawn.choice((0, 5, 60, PAUSE_MAX_S))

    def recover(self) -> None:
        """Let all calls succeed until every table is followed."""
        self.flaky.faults = []
        for _ in range(200):
            self.apply(fails=False)
            self.now_s += PAUSE_MAX_S
            if not self.projection.settle() and not self.projection.states.waiting():
                return
        raise AssertionError(self.projection.states.waiting())

    def require_exact_or_said(self) -> int:
        """Assert that each table equals the metastore or says why it does not; return how many are
        followed."""
        followed = 0
        for table in (*NAMES, FREE):
            name = f"{self.database}.{table}"
            state, exists = (
                self.projection.states.state(name),
                table in self.client.table_names(self.database),
            )
            if state is None or state.name != "following":
                assert state is not None or not exists, (name, "not known, and does not say so")
                assert state is None or state.describe()["reason"], name
                continue
            followed += 1
            found = self.index.index.partitions(self.index.index.prepare(name, ""))
            held = {one.values: self.index.whole(name, one) for one in found}
            expected = {tuple(one.values): one for one in self.client.all_partitions(self.database, table)}
            assert held == expected, name
        return followed

    def _faults(self) -> list[Any]:
        return self.drawn.choices([None, *FAULTS], weights=(6, 1, 1, 1), k=self.drawn.randrange(12))

    def close(self) -> None:
        self.projection.close()


@pytest.mark.parametrize(
    ("seed", "rounds"), [(1, 3), *(pytest.param(seed, 25, marks=pytest.mark.long) for seed in range(2, 5))]
)
def test_after_every_batch_each_table_equals_the_metastore_or_says_why(
    source_sql: Session,
    source: ClusterEndpoints,
    database: str,
    seed: int,
    rounds: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps, "PIECE", 3)
    drawn = random.Random(seed)  # noqa: S311 - a test's history, no secret
    source_sql.run(f"CREATE DATABASE {database}")
    followed = 0
    with closing(Failing(source, database, drawn)) as failing:
        changes = HiveChanges(failing.client, source_sql, database, drawn)
        for _ in range(rounds):
            for _ in range(drawn.randrange(4, 14)):
                changes.happen()
            failing.apply(fails=True)
            followed += failing.require_exact_or_said()
        failing.recover()
        assert failing.require_exact_or_said() == len(failing.client.table_names(database))
        assert failing.projection.quarantined() == ()
        assert failing.catalog.content() == rebuilt(source.metastore, failing.timelines.rules)
    assert followed > 0
    if rounds > 3:
        assert set(KINDS) <= set(changes.done), changes.done
