"""A load starts again as of a later event if its snapshot cannot be read any more."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from handlers.replication.loading.table import load as module
from handlers.replication.loading.table.load import SNAPSHOTS_MAX, load_table
from handlers.replication.loading.table.snapshot import SnapshotLost, TableSnapshot
from handlers.replication.loading.table.target_table import LOAD, ORIGIN, RESULT
from handlers.replication.loading.table.tools import LoadSettings, LoadTools
from handlers.replication.policy.policy import Policy
from handlers.structs.objects import Table
from state.errors import GapDetected, NotFound, SourceBusy
from state.transactions.valid_write_ids import ValidWriteIds
from tests.builders.replication.loads import RecordedProgress, waiting_load
from tests.builders.replication.recording_metastore import RecordingMetastore
from tests.builders.replication.replay_events import a_table


@pytest.fixture
def tools() -> LoadTools:
    def missing(*_: object) -> None:
        raise NotFound("no such table")

    target: Any = RecordingMetastore({"get_table": missing})
    source: Any = RecordingMetastore()
    unused: Any = None
    policy: Any = Policy(name="shop", source_db="shop", target_db="shop_r")
    return LoadTools(
        policy, source, target, unused, unused, LoadSettings(), threading.Event(), beat=lambda: None
    )


@pytest.mark.parametrize("error", [SnapshotLost("replaced"), GapDetected("events were purged")])
def test_a_lost_snapshot_and_purged_events_are_followed_by_a_later_snapshot(
    error: Exception, tools: LoadTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    unused: Any = None
    answers: list[Exception | TableSnapshot] = [error, TableSnapshot(9, None, None, unused)]

    def take(*_: object) -> TableSnapshot:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(module, "take_snapshot", take)
    progress = RecordedProgress()
    loaded = load_table(waiting_load("orders"), tools, progress)
    assert (loaded.event_id, loaded.exists) == (9, False)
    assert progress.restarts == [f"orders: {error}"]


def test_a_snapshot_that_is_always_lost_fails_for_now(
    tools: LoadTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def take(*_: object) -> TableSnapshot:
        tries.append(1)
        raise GapDetected("events were purged")

    monkeypatch.setattr(module, "take_snapshot", take)
    with pytest.raises(SourceBusy, match="purged"):
        load_table(waiting_load("orders"), tools)
    assert len(tries) == SNAPSHOTS_MAX


def test_a_table_without_write_ids_gets_its_final_definition_by_one_call(
    tools: LoadTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    target: Any = tools.target
    source = a_table("orders")
    created: dict[str, Any] = {}

    def create(table: Table) -> None:
        table.sd.location = "file:/target/orders"
        created["orders"] = table

    def read(_db: str, name: str) -> Table:
        if name not in created:
            raise NotFound("no such table")
        table: Table = created[name].copy()
        return table

    answers = {
        "create_table": create,
        "get_table": read,
        "alter_table": lambda _db, name, new: created.update({name: new}),
    }
    target.answers.update(answers)
    changes: Any = RecordingMetastore({"read_new": []})
    snapshot = TableSnapshot(9, source, ValidWriteIds("shop.orders", 0), changes)
    monkeypatch.setattr(module, "take_snapshot", lambda *_: snapshot)
    for step in ("list_snapshot_files", "read_table_statistics"):
        monkeypatch.setattr(module, step, lambda *_: [])
    for step in ("write_statistics", "load_constraints"):
        monkeypatch.setattr(module, step, lambda *_: None)
    monkeypatch.setattr(module, "TableCopies", lambda *_: CopiesOfNothing())
    loaded = load_table(waiting_load("orders"), tools)
    assert (loaded.event_id, loaded.write_id) == (9, 0)
    assert target.names() == ["get_table", "create_table", "get_table", "alter_table"]
    assert LOAD in target.only("create_table").arguments[0].parameters, "an unfinished table is marked"
    assert not {LOAD, ORIGIN, RESULT} & set(created["orders"].parameters)


class CopiesOfNothing:
    """The copies of a table without files."""

    files = 0
    size_bytes = 0

    def start_again(self) -> None:
        """Do nothing."""

    def copy(self, _files: object, _table_root: object) -> None:
        """Do nothing."""
