"""Queries from other threads while the catalog writes: every answer reflects one event id."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog.following.loads import steps
from handlers.catalog.index.partition_follower import PartitionFollower, PartitionRules
from handlers.catalog.projection import CatalogProjection
from state.errors import NotFound
from state.store.sqlite import SqliteStore
from tests.builders.catalog.followed_catalog import reload


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
        try:
            while not stop.is_set():
                with follower.snapshot() as snapshot:
                    lookups = snapshot.lookups(f"{DB}.a")
                    payloads = [payload for _, payload in lookups.by_filter("x = 'x'").payloads()]
                    whole = snapshot.payloads.unpack_all(payloads, DB, "a", snapshot.budget)
                    names = lookups.by_values([]).names()
                    seen.add((len(whole), lookups.by_filter("").count(), len(names)))
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
            reload(projection, f"{DB}.a")
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
        with follower.snapshot() as snapshot:
            answered.append(snapshot.lookups(f"{DB}.a").by_filter("x != 'y'").count())

    with closing(projection):
        projection.open()
        projection.load_all()
        with store.transaction() as txn, follower.open_change(txn):
            reader = threading.Thread(target=ask)
            reader.start()
            reader.join(30)
            assert answered == [1]


def test_an_unknown_table_raises_the_error_of_the_metastore(tmp_path: Path) -> None:
    follower = PartitionFollower(PartitionRules((f"{DB}.*",)))
    with closing(SqliteStore(tmp_path / "c.db", schema_version=1, snapshots=True)) as store:
        follower.open(store)
        with follower.snapshot() as snapshot, pytest.raises(NotFound):
            snapshot.lookups(f"{DB}.none").by_filter("")
