"""The survey of all tables: in batches, while events are applied, and again after an interruption."""

from __future__ import annotations

from typing import Any

import pytest

from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog import projection as projection_module
from handlers.catalog.following import survey
from handlers.catalog.index.partition_follower import PartitionFollower, PartitionRules
from handlers.catalog.projection import CatalogProjection
from state.errors import MetastoreUnavailable
from state.store.memory import MemoryStore
from tests.builders.catalog.late_calls import LateCalls, begin_at_newest_event


class Surveyed:
    """An index of the tables that a pattern selects."""

    def __init__(self, source: MemorySource) -> None:
        self.source = source
        self.store = MemoryStore()
        self.now_s = 1e9

    def open(self, *patterns: str) -> None:
        source: Any = self.source
        self.calls = LateCalls(source)
        self.index = PartitionFollower(PartitionRules(tuple(f"{DB}.{pattern}" for pattern in patterns)))
        self.projection = CatalogProjection(
            source_name="s",
            source=source,
            store=self.store,
            followers=[self.index],
            clock=lambda: self.now_s,
            calls=self.calls,
        )
        begin_at_newest_event(self.store, source)
        self.projection.open()

    def step(self, calls: int = 1) -> None:
        for _ in range(calls):
            self.calls.make()
            self.calls.answer()
            self.projection.settle()

    def apply(self) -> None:
        self.projection.apply(self.source.events[self.projection.position.event_id :])

    def finish(self) -> None:
        while not self.projection.is_surveyed or self.projection.states.waiting():
            self.step()


@pytest.fixture
def surveyed(monkeypatch: pytest.MonkeyPatch) -> Surveyed:
    monkeypatch.setattr(survey, "TABLES_BATCH", 2)
    monkeypatch.setattr(projection_module, "STEP_WAIT_S", 0.0)
    source = MemorySource()
    for name in ("a1", "a2", "a3", "b1", "b2"):
        source.create(name)
        source.add(name, "2015-01-01", "x")
    return Surveyed(source)


def test_events_are_applied_and_tables_are_loaded_between_the_batches_of_a_survey(surveyed: Surveyed) -> None:
    surveyed.open("*")
    surveyed.step(calls=3)
    states = surveyed.projection.states
    assert {*states.list_followed(), *states.waiting()} == {f"{DB}.a1", f"{DB}.a2"}
    surveyed.source.create("new")
    surveyed.source.add("new", "2015-01-01", "x")
    surveyed.source.drop_table("a3")
    surveyed.source.rename("b2", "b3")
    surveyed.apply()
    assert f"{DB}.new" in surveyed.index.indexed
    surveyed.finish()
    assert surveyed.index.indexed.items() == [(f"{DB}.{name}", 1) for name in ("a1", "a2", "b1", "b3", "new")]


def test_tables_that_changed_rules_exclude_are_forgotten_and_others_stay(surveyed: Surveyed) -> None:
    surveyed.open("a*", "b*")
    surveyed.finish()
    surveyed.open("b*", "c*")
    surveyed.source.create("c1")
    surveyed.apply()
    surveyed.finish()
    assert surveyed.index.indexed.names() == [f"{DB}.b1", f"{DB}.b2", f"{DB}.c1"]


def test_a_table_that_disappeared_without_an_event_is_forgotten(surveyed: Surveyed) -> None:
    surveyed.open("a*")
    surveyed.finish()
    del surveyed.source.tables["a1"]
    surveyed.open("a*", "b*")
    surveyed.finish()
    assert f"{DB}.a1" not in surveyed.index.indexed


def test_an_interrupted_survey_begins_again_also_if_the_rules_are_the_old_ones(surveyed: Surveyed) -> None:
    surveyed.open("a*")
    surveyed.finish()
    surveyed.open("b*")
    surveyed.step(calls=3)
    surveyed.open("a*")
    assert not surveyed.projection.is_surveyed
    surveyed.finish()
    assert surveyed.index.indexed.names() == [f"{DB}.{name}" for name in ("a1", "a2", "a3")]


def test_a_survey_waits_with_growing_pauses_for_a_metastore_that_is_away(surveyed: Surveyed) -> None:
    surveyed.open("*")
    names: Any = surveyed.source.table_names
    made = []

    def fail(db: str) -> list[str]:
        made.append(surveyed.now_s)
        raise MetastoreUnavailable("away", db=db)

    surveyed.source.table_names = fail  # type: ignore[method-assign]
    start_s = surveyed.now_s
    while len(made) < 4:
        surveyed.step()
        surveyed.now_s += 1
    assert [round(at - start_s) for at in made] == pytest.approx([1, 7, 18, 39], abs=6)
    surveyed.source.add("a1", "2015-01-02", "x")
    surveyed.apply()
    surveyed.source.table_names = names  # type: ignore[method-assign]
    while not surveyed.projection.is_surveyed:
        surveyed.step()
        surveyed.now_s += 100
    surveyed.finish()
    assert surveyed.index.indexed.get(f"{DB}.a1") == 2


def test_a_table_that_an_event_changes_while_it_is_surveyed_is_loaded(surveyed: Surveyed) -> None:
    surveyed.open("a*")
    surveyed.finish()
    surveyed.open("a*", "b*")
    surveyed.step(calls=2)
    surveyed.calls.make()
    surveyed.source.alter("a1", "a1", {"comment": "new"})
    surveyed.apply()
    surveyed.calls.answer()
    surveyed.projection.settle()
    assert surveyed.projection.states.waiting()[f"{DB}.a1"] == "changed"
    surveyed.finish()
    surveyed.index.check()
