"""Queries from other threads while the catalog writes: every answer reflects one event id."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog.following.loads import steps
from handlers.catalog.index.partition_follower import PartitionFollower, PartitionRules
from handlers.catalog.index.partition_queries import PartitionQueries
from handlers.catalog.projection import CatalogProjection
from state.errors import InvalidRequest, NotFound
from state.store.sqlite import SqliteStore


if TYPE_CHECKING:
    from pathlib import Path


ROWS = 40


def test_answers_from_other_threads_never_show_half_of_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "PIECE", 7)
    model = MemorySource()
    model.create("a")
    for number in range(ROWS):
        model.add("a", f"{number:02}", "x")
    source: Any = model
    follower = PartitionFollower(PartitionRules((f"{DB}.*",)))
    store = SqliteStore(tmp_path / "c.db", schema_version=1, snapshots=True)
    projection = CatalogProjection(source_name="s", source=source, store=store, followers=[follower])
    seen: set[tuple[int, int, int]] = set()
    failures: list[BaseException] = []
    stop = threading.Event()

    def ask() -> None:
        served = PartitionQueries(follower)
        try:
            while not stop.is_set():
                whole = served.by_filter(DB, "a", "x = 'x'")
                seen.add((len(whole), served.count_by_filter(DB, "a", ""), len(served.names_ps(DB, "a", []))))
        except BaseException as error:  # noqa: BLE001 - told to the test's own thread
            failures.append(error)

    with closing(projection):
        projection.open()
        projection.load_all()
        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for round_ in range(12):
            model.drop("a", f"{round_:02}", "x")
            model.add("a", f"{round_ + 50}", "x")
            projection.apply(model.events[projection.position.event_id :])
            projection.reload(f"{DB}.a")
        stop.set()
        for thread in threads:
            thread.join()
        assert failures == []
        assert seen == {(ROWS, ROWS, ROWS)}
        follower.check()


def test_a_filter_is_answered_while_the_catalog_is_within_a_transaction(tmp_path: Path) -> None:
    model = MemorySource()
    model.create("a")
    model.add("a", "1", "x")
    source: Any = model
    follower = PartitionFollower(PartitionRules((f"{DB}.*",)))
    store = SqliteStore(tmp_path / "c.db", schema_version=1, snapshots=True)
    projection = CatalogProjection(source_name="s", source=source, store=store, followers=[follower])
    answered: list[int] = []

    def ask() -> None:
        answered.append(PartitionQueries(follower).count_by_filter(DB, "a", "x != 'y'"))

    with closing(projection):
        projection.open()
        projection.load_all()
        with store.transaction() as txn, follower.open_change(txn):
            reader = threading.Thread(target=ask)
            reader.start()
            reader.join(30)
            assert answered == [1]


def test_missing_names_and_unknown_tables_raise_the_errors_of_the_metastore(
    tmp_path: Path,
) -> None:
    follower = PartitionFollower(PartitionRules((f"{DB}.*",)))
    with closing(SqliteStore(tmp_path / "c.db", schema_version=1, snapshots=True)) as store:
        follower.open(store)
        served = PartitionQueries(follower)
        with pytest.raises(NotFound):
            served.by_filter(DB, "none", "")
        with pytest.raises(InvalidRequest):
            served.by_filter(None, "none", "")
