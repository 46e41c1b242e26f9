"""A load starts again as of a later event if its snapshot cannot be read any more."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from handlers.replication.loading.table import load as module
from handlers.replication.loading.table.load import SNAPSHOTS_MAX, load_table
from handlers.replication.loading.table.snapshot import SnapshotLost, TableSnapshot
from handlers.replication.loading.table.tools import LoadSettings, LoadTools
from handlers.replication.policy import Policy
from state.errors import GapDetected, NotFound, SourceBusy
from tests.builders.replication.loads import RecordedProgress, waiting_load
from tests.builders.replication.recording_metastore import RecordingMetastore


@pytest.fixture
def tools() -> LoadTools:
    def missing(*_: object) -> None:
        raise NotFound("no such table")

    target: Any = RecordingMetastore({"get_table": missing})
    unused: Any = None
    policy: Any = Policy(name="shop", source_db="shop", target_db="shop_r")
    return LoadTools(
        policy, unused, target, unused, unused, LoadSettings(), threading.Event(), beat=lambda: None
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
