"""The catalog with its index in HBase: effects commit before the position, and a crash between the two loses
nothing."""

from __future__ import annotations

import random

import pytest

from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog import projection
from handlers.catalog.following.loads import steps
from handlers.hbase.store import HBaseStore
from state.errors import HBaseUnavailable
from tests.builders.catalog.indexed_source import KINDS, Indexed, expected
from tests.builders.catalog.random_changes import drawn_change


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of a few partitions are loaded in pieces, and one piece at a time."""
    monkeypatch.setattr(steps, "PIECE", 3)
    monkeypatch.setattr(projection, "LOADING_S", 0.0)


def test_a_history_ends_equal_to_the_source(store: HBaseStore) -> None:
    drawn = random.Random(3)  # noqa: S311 - a test's history, no secret
    source = MemorySource()
    for _ in range(40):
        drawn_change(drawn, KINDS).happen(source)
    indexed = Indexed(source, own=store)
    for number in range(60):
        drawn_change(drawn, KINDS).happen(source)
        if number % 10 == 9:
            indexed.follow()
            assert indexed.held() == expected(source), number
        elif number % 7 == 6:
            indexed.reopen()
        elif number % 3 == 2:
            indexed.apply()
    indexed.follow()
    assert indexed.held() == expected(source)


def test_partitions_are_counted_right_after_a_failed_transaction_that_had_written_some_of_them(
    store: HBaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handlers.hbase.transaction.SPILL_ENTRIES", 10)
    source = MemorySource()
    source.create("a")
    for day in range(1, 10):
        source.add("a", f"2015-01-0{day}", "x")
    indexed = Indexed(source, own=store)
    indexed.follow()
    for day in range(1, 7):
        source.drop("a", f"2015-01-0{day}", "x")
    for day in range(10, 30):
        source.add("a", f"2015-01-{day}", "x")
    with monkeypatch.context() as patch:
        patch.setattr("handlers.hbase.redo_log.write", lose_the_connection)
        with pytest.raises(HBaseUnavailable):
            indexed.follow()
    indexed.reopen()
    assert store.counts["rolled-back"] == 1
    indexed.follow()
    assert indexed.held() == expected(source)
    assert indexed.follower.indexed.items() == [(f"{DB}.a", 23)]


def lose_the_connection(*_: object) -> None:
    raise HBaseUnavailable("gone")


def test_effects_whose_position_was_lost_are_applied_again(store: HBaseStore) -> None:
    """The catalog's own store goes back to before the last batch, as a crash between the two commits leaves
    it."""
    source = MemorySource()
    source.create("a")
    source.add("a", "2015-01-01", "x")
    indexed = Indexed(source, own=store)
    indexed.follow()
    with indexed.position_lost():
        source.rename("a", "b")
        source.create("a")
        source.add("a", "2015-01-02", "y")
        source.drop("b", "2015-01-01", "x")
        indexed.follow()
    indexed.follow()
    assert indexed.held() == expected(source)
    assert f"{DB}.b" in indexed.follower.indexed
