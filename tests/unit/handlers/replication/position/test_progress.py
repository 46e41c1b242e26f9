"""Long batches: they send heartbeats, and record their position in steps."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from handlers.replication.position.progress import RECORD_EVENTS, RECORD_S, TARGET_LAG_S, TARGET_POSITION_S
from handlers.replication.projection import ReplicationProjection
from state.errors import AmbiguousCall
from tests.builders.replication.replay_events import allocated, committed, created, dropped, written


if TYPE_CHECKING:
    from handlers.events import Event
    from state.transactions.valid_write_ids import ValidWriteIds
    from tests.builders.replication.fake_target import FakedReplica


@dataclass
class Watched:
    """A projection of the replica, with the position that a kill after each event would leave."""

    replica: FakedReplica
    seconds_per_event: float = 0.0
    recorded: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.projection = ReplicationProjection(
            source_name="lake",
            context=self.replica.context,
            store=self.replica.store,
            clock=self.replica.clock,
            beat=self.beat,
        )
        self.projection.open()

    def beat(self) -> None:
        self.recorded.append(self.replica.stored_position())
        self.replica.clock.now_s += self.seconds_per_event


def test_every_applied_event_sends_a_heartbeat(replica: FakedReplica) -> None:
    watched = Watched(replica)
    watched.projection.apply([committed(number, txn_id=number) for number in range(1, 8)])
    assert len(watched.recorded) == 7


def test_a_long_batch_records_its_position_every_so_many_events(replica: FakedReplica) -> None:
    watched, last = Watched(replica), 2 * RECORD_EVENTS + RECORD_EVENTS // 2
    watched.projection.apply([committed(number, txn_id=number) for number in range(1, last + 1)])
    assert sorted(set(watched.recorded)) == [0, RECORD_EVENTS, 2 * RECORD_EVENTS]
    assert replica.stored_position() == last


def test_a_slow_batch_records_its_position_after_some_time(replica: FakedReplica) -> None:
    watched = Watched(replica, seconds_per_event=RECORD_S / 2)
    watched.projection.apply([committed(number, txn_id=number) for number in range(1, 8)])
    assert watched.recorded == [0, 0, 3, 3, 5, 5, 7]


def test_a_position_recorded_within_a_batch_is_never_inside_an_event(replica: FakedReplica) -> None:
    watched = Watched(replica, seconds_per_event=RECORD_S)
    file = replica.file()
    watched.projection.apply(
        [created(1), allocated(2, 1, 1), written(3, file, part=0, parts=2), committed(3, part=1, parts=2)]
    )
    assert watched.recorded == [0, 1, 2, 2]
    assert replica.stored_position() == 3


def on_target(replica: FakedReplica) -> str | None:
    return (replica.target.databases["shop_r"].parameters or {}).get("repl.last.id")


def test_the_position_on_the_target_is_raised_although_no_event_concerns_the_policy(
    replica: FakedReplica,
) -> None:
    """A busy source is never idle, and the position of a quiet database would become older than the source's
    log."""
    for event_id in range(1, 1_000):
        replica.projection.apply([committed(event_id, txn_id=event_id)])
        replica.clock.now_s += TARGET_POSITION_S / 100
    assert int(on_target(replica) or 0) > 1_000 - 110
    assert replica.target.calls.count("alter_database") <= 10, "cheaply"


def test_at_rest_the_position_on_the_target_is_raised_at_once_only_after_an_effect(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(1), committed(2, txn_id=9)])
    replica.projection.settle()
    assert on_target(replica) == "2"
    for event_id in range(3, 50):
        replica.projection.apply([committed(event_id, txn_id=event_id)])
        replica.projection.settle()
    assert on_target(replica) == "2"
    replica.clock.now_s += TARGET_POSITION_S
    replica.projection.settle()
    assert on_target(replica) == "49"


def inserts(first: int, txn_id: int) -> list[Event]:
    """Return the events of one small transaction."""
    return [allocated(first, txn_id, txn_id), committed(first + 1, txn_id=txn_id)]


def test_within_a_stream_of_commits_the_targets_position_follows_within_a_second(
    replica: FakedReplica,
) -> None:
    watched = Watched(replica)
    lags: list[int] = []

    def beat() -> None:
        lags.append(watched.projection.position.event_id - int(on_target(replica) or 0))
        replica.clock.now_s += TARGET_LAG_S / 10

    watched.projection._replay._beat = beat
    watched.projection.apply(
        [created(1), *(event for txn in range(1, 51) for event in inserts(2 * txn, txn))]
    )
    assert max(lags) <= 12
    assert replica.target.calls.count("alter_database") <= 12


def test_many_commits_cost_two_calls_each_and_share_the_allocation_and_one_proof(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    proofs: list[int] = []
    answer = replica.target.valid_write_ids

    def prove(tables: list[str]) -> list[ValidWriteIds]:
        proofs.append(len(tables))
        return answer(tables)

    monkeypatch.setattr(replica.target, "valid_write_ids", prove)
    replica.projection.apply([created(1)])
    replica.projection.settle()
    replica.target.calls.clear()
    replica.projection.apply([event for txn in range(1, 51) for event in inserts(2 * txn, txn)])
    assert Counter(replica.target.calls) == {
        "open_replayed": 50,
        "allocate_many_replayed": 1,
        "commit_replayed": 50,
    }
    assert proofs == [1]


def test_the_targets_position_is_raised_before_a_name_is_used_again(replica: FakedReplica) -> None:
    """A policy that lost its state repeats the events since. It must not rename the new table instead of the
    old one."""
    replica.projection.apply([created(1)])
    replica.projection.apply([created(2, "other"), created(3, "third")])
    assert on_target(replica) == "1", "every table has its own name"
    replica.projection.apply([dropped(4, "other"), created(5, "other")])
    assert on_target(replica) == "4"


def test_a_commit_is_proven_before_its_table_is_renamed_or_dropped(replica: FakedReplica) -> None:
    replica.projection.apply([created(1)])
    replica.projection.settle()
    replica.projection.apply([*inserts(2, 1), dropped(4), created(5), *inserts(6, 2)])
    assert len(replica.context.tables.unproven) == 0


def test_a_policy_that_is_closed_leaves_its_position_on_the_target(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), *inserts(2, 1)])
    replica.projection.close()
    assert on_target(replica) == "3"


def test_a_policy_that_has_failed_is_closed_without_a_further_write(replica: FakedReplica) -> None:
    replica.projection.apply([created(1)])
    replica.target.fails("commit_replayed", AmbiguousCall("sent, but no answer came"))
    with pytest.raises(AmbiguousCall):
        replica.projection.apply(inserts(2, 1))
    replica.target.calls.clear()
    replica.projection.close()
    assert replica.target.calls == []
