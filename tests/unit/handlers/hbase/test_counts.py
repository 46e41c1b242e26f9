"""The catalog's index on HBase counts its partitions right, whatever a failed transaction had already
written."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from dev.fixtures.memory_source import DB, MemorySource
from state.errors import HBaseUnavailable
from tests.builders.catalog.indexed_source import Indexed, expected
from tests.builders.stores.fake_hbase import FakeHBase


@pytest.fixture(autouse=True)
def _short_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handlers.hbase.transaction.SPILL_ENTRIES", 5)


def add_days(source: MemorySource) -> None:
    for day in range(10, 22):
        source.add("a", f"2015-01-{day}", "x")


def drop_days(source: MemorySource) -> None:
    for day in range(1, 9):
        source.drop("a", f"2015-01-0{day}", "x")


def replace_days(source: MemorySource) -> None:
    """Drops, additions again, and additions that are dropped again, within one batch."""
    drop_days(source)
    for day in range(3, 9):
        source.add("a", f"2015-01-0{day}", "x")
    add_days(source)
    source.drop("a", "2015-01-15", "x")


@pytest.mark.parametrize("happen", [add_days, drop_days, replace_days])
def test_partitions_are_counted_right_after_a_failed_transaction_that_had_written_some_of_them(
    happen: Callable[[MemorySource], None],
) -> None:
    rolled_back = 0
    for failing in range(0, 400, 3):
        source, server = MemorySource(), FakeHBase()
        source.create("a")
        for day in range(1, 9):
            source.add("a", f"2015-01-0{day}", "x")
        indexed = Indexed(source, own=server.store())
        indexed.follow()
        happen(source)
        server.failures = [*[None] * failing, *[ConnectionError("gone")] * 2]
        with suppress(HBaseUnavailable):
            indexed.follow()
        got_through = bool(server.failures)
        server.failures = []
        indexed.reopen()
        indexed.follow()  # asserts that every count equals the number of partitions
        assert indexed.held() == expected(source)
        assert indexed.follower.indexed.items() == [(f"{DB}.a", len(source.partitions["a"]))]
        rolled_back += indexed.own.counts["rolled-back"]  # type: ignore[union-attr]  # an HBaseStore
        if got_through:
            break
    else:
        pytest.fail("the transaction never got through")
    assert rolled_back
