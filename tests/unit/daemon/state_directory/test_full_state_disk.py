"""A state disk that is full for a while: the policy's loop fails, is retried, and continues without a restart
of the process."""

from __future__ import annotations

from pathlib import Path

from daemon.process.loops.heartbeat import Heartbeat
from daemon.process.loops.loop import Job, LoopState
from handlers.events import Event
from state.store.sqlite import SqliteStore
from tests.builders.daemon.loops import eventually, supervise
from tests.builders.replication.fake_target import faked_replica
from tests.builders.replication.replay_events import created
from tests.builders.stores.full_disk import full_disk


TABLES = 400
"""Their quarantine-free creation does not fit into the little that the full disk still takes."""


def test_a_policy_continues_by_itself_once_the_state_disk_has_space(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "state.db", schema_version=1)
    replica = faked_replica(tmp_path, store=store)
    events: list[Event] = [created(number, f"t{number}") for number in range(1, TABLES + 1)]

    def follow(heartbeat: Heartbeat) -> None:
        position = replica.projection.open()
        heartbeat.following()
        while not heartbeat.stopping.is_set() and position.event_id < TABLES:
            position = replica.projection.apply(events[position.event_id : position.event_id + 1])
            heartbeat.progress()
        heartbeat.stopping.wait()

    supervisor, counts = supervise(Job("replication:shop", follow))
    with full_disk():
        supervisor.start()
        eventually(lambda: len(counts.failed) >= 3)
    try:
        eventually(lambda: len(replica.target.tables) == TABLES)
        eventually(lambda: supervisor.statuses()["replication:shop"].state is LoopState.FOLLOWING)
        assert {code for _, code in counts.failed} == {"files-unavailable"}
    finally:
        assert supervisor.stop(10) == []
    assert replica.projection.open().event_id == TABLES
    assert replica.projection.quarantined() == ()
    replica.projection.close()
