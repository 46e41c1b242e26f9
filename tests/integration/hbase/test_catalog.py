"""The catalog with its index in HBase: effects commit before the position, and a crash between the two loses nothing."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog import projection
from handlers.catalog.following import loader
from tests.builders.catalog.indexed_source import KINDS, Indexed, expected
from tests.builders.catalog.random_changes import drawn_change


if TYPE_CHECKING:
    from handlers.hbase.store import HBaseStore


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of a few partitions are loaded in pieces, and one piece at a time."""
    monkeypatch.setattr(loader, "PIECE", 3)
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


def test_effects_whose_position_was_lost_are_applied_again(store: HBaseStore) -> None:
    """The catalog's own store goes back to before the last batch, as a crash between the two commits leaves it."""
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
