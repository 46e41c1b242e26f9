"""Loads of timelines that are interrupted continue with what they have written, and end with the content of
the new listing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog import projection as projection_module
from handlers.catalog.projection import CatalogProjection
from handlers.catalog.timelines import timeline_load
from handlers.catalog.timelines.timeline_follower import TimelineFollower
from state.store import Transaction
from state.store.memory import MemoryStore
from state.timelines.tables import records
from state.timelines.tables.listing import KeySet
from tests.builders.catalog.indexed_source import TIMELINES


NAME = f"{DB}.a"
WRITTEN = 20
DAYS = [f"2015-{month:02}-{day:02}" for month in range(1, 11) for day in range(1, 29)]


class CountingStore(MemoryStore):
    """Counts what is written of partitions of timelines."""

    puts = 0

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with super().transaction() as txn:
            put = txn.put

            def count(key: bytes, value: bytes) -> None:
                self.puts += key.startswith(b"tl/p/")
                put(key, value)

            any_txn: Any = txn
            any_txn.put = count
            yield txn


class Loading:
    """A catalog of timelines whose load can be interrupted after any step."""

    def __init__(self, source: MemorySource) -> None:
        self.source = source
        self.store = CountingStore()
        self.reopen()

    def reopen(self) -> None:
        source: Any = self.source
        self.follower = TimelineFollower(TIMELINES)
        self.projection = CatalogProjection(
            source_name="s", source=source, store=self.store, followers=[self.follower]
        )
        self.projection.open()

    def begin(self, steps: int) -> None:
        """Load the table for some steps of writing, of ``WRITTEN`` partitions each."""
        for _ in range(steps):
            self.projection.settle()

    def finish(self) -> None:
        """Apply all events and load everything."""
        events = self.source.events[self.projection.position.event_id :]
        if events:
            self.projection.apply(events)
        self.projection.load_all()
        self.follower.timelines.check(self.store)

    def content(self) -> dict[bytes, bytes]:
        """Return everything that is stored of timelines, without table numbers."""
        found = {}
        for group in (b"tl/r/", b"tl/p/", b"tl/c/"):
            for key, value in self.store.scan(group, group[:-1] + b"0"):
                assert group + key[13:] not in found, "content of a load that nothing continues"
                found[group + key[13:]] = value
        assert records.read_loads(self.store) == {}
        return found


@pytest.fixture(autouse=True, scope="module")
def _small_steps() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timeline_load, "WRITTEN", WRITTEN)
        patch.setattr(projection_module, "LOADING_S", 0.0)
        yield


def a_source(days: list[str]) -> MemorySource:
    source = MemorySource()
    source.create("a")
    for day in days:
        source.add("a", day, "x")
    return source


def rebuilt(source: MemorySource) -> dict[bytes, bytes]:
    fresh = Loading(source)
    fresh.finish()
    return fresh.content()


@pytest.mark.parametrize("steps", [3, 9, 14])
def test_after_a_restart_only_the_rest_of_the_partitions_is_written(steps: int) -> None:
    source = a_source(DAYS)
    loading = Loading(source)
    loading.begin(steps)
    written = loading.store.puts
    assert (steps - 2) * WRITTEN <= written < len(DAYS)
    loading.reopen()
    loading.finish()
    assert loading.store.puts == len(DAYS), "each once"
    assert loading.content() == rebuilt(source)


def test_a_table_that_waits_for_its_turn_after_a_restart_keeps_what_was_written() -> None:
    source = a_source(DAYS)
    source.create("b")
    loading = Loading(source)
    loading.begin(9)
    loading.reopen()
    loading.projection.states.hurry(f"{DB}.b")
    for _ in range(20):
        loading.follower.tidy(loading.store)
    loading.finish()
    assert loading.store.puts == len(DAYS)


def test_what_was_written_for_a_table_that_is_gone_is_removed() -> None:
    source = a_source(DAYS)
    loading = Loading(source)
    loading.begin(9)
    loading.reopen()
    source.drop_table("a")
    loading.finish()
    assert loading.content() == {}


@given(
    st.lists(st.tuples(st.integers(0, 8), st.sets(st.sampled_from(DAYS[:90]), max_size=30)), max_size=4),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_a_load_that_is_interrupted_anywhere_while_its_table_changes_ends_like_a_rebuild(
    interruptions: list[tuple[int, set[str]]], reloads: bool
) -> None:
    source = a_source(DAYS[:60])
    loading = Loading(source)
    for steps, toggled in interruptions:
        loading.begin(steps)
        if reloads:
            loading.projection.request_load(NAME)
        else:
            loading.reopen()
        for day in sorted(toggled):
            if (day, "x") in source.partitions["a"]:
                source.drop("a", day, "x")
            else:
                source.add("a", day, "x")
    loading.finish()
    assert loading.content() == rebuilt(source)


@given(st.sets(st.binary(max_size=3)), st.sets(st.binary(max_size=3)))
def test_a_set_of_keys_has_those_that_were_added(added: set[bytes], asked: set[bytes]) -> None:
    keys = KeySet()
    for number, key in enumerate(added):
        keys.add(key)
        assert key in keys, number
    assert {key for key in asked if key in keys} == added & asked
