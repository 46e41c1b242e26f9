"""Changes of independent tables overlap, with the guarantees of events that are applied one after the
other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Barrier, Thread, current_thread
from typing import Any

import pytest

from handlers.replication.batch.lanes import Lanes
from handlers.replication.observer import BatchOverlap, LaneCounts, LookaheadCounts
from handlers.replication.transactions.target_write_ids import OpeningMarks
from handlers.structs.objects import Table
from state.errors import InvalidRequest, MetastoreUnavailable
from tests.builders.replication.fake_target import FakedReplica, faked_replica
from tests.builders.replication.replay_events import (
    allocated,
    altered,
    committed,
    created,
    dropped,
    partitions_added,
    with_object,
)


WAIT_S = 20.0
"""After so long, a test whose calls do not overlap fails."""


@pytest.fixture
def overlapping(tmp_path: Path) -> Iterator[FakedReplica]:
    """A replica with two lanes."""
    made = faked_replica(tmp_path, lanes=2)
    yield made
    made.projection.close()


def before_each_creation(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch, do: Callable[[str], Any]
) -> None:
    """Do something in front of every CREATE TABLE on the target."""
    create = replica.target.create_table

    def create_after(table: Table, **options: Any) -> None:
        do(table.tableName or "")
        create(table, **options)

    monkeypatch.setattr(replica.target, "create_table", create_after)


def test_three_tables_are_created_at_the_same_time(
    overlapping: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = Barrier(3)
    before_each_creation(overlapping, monkeypatch, lambda _: together.wait(WAIT_S))
    position = overlapping.projection.apply([created(at, f"t{at}") for at in (1, 2, 3)])
    assert position.event_id == 3
    assert sorted(overlapping.target.tables) == ["t1", "t2", "t3"]


def test_a_failure_ahead_of_its_turn_has_the_right_event_and_table(
    overlapping: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(table: str) -> None:
        if table == "t3":
            raise InvalidRequest("no")

    before_each_creation(overlapping, monkeypatch, refuse)
    overlapping.projection.apply([created(at, f"t{at}") for at in (1, 2, 3, 4)])
    assert [(each.table, each.event_id) for each in overlapping.projection.failures()] == [("shop.t3", 3)]
    assert sorted(overlapping.target.tables) == ["t1", "t2", "t4"]
    assert overlapping.stored_position() == 4


def test_the_position_stays_before_an_event_that_fails_although_later_ones_are_applied(
    overlapping: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied, down = Barrier(2), [True]

    def fail_first(table: str) -> None:
        if down[0]:
            applied.wait(WAIT_S)
            if table == "t1":
                raise MetastoreUnavailable("gone")

    before_each_creation(overlapping, monkeypatch, fail_first)
    events = [created(1, "t1"), created(2, "t2")]
    with pytest.raises(MetastoreUnavailable):
        overlapping.projection.apply(events)
    assert overlapping.stored_position() == 0
    assert sorted(overlapping.target.tables) == ["t2"], "no lane works after the batch"
    down[0] = False
    overlapping.projection.apply(events)
    assert sorted(overlapping.target.tables) == ["t1", "t2"]
    assert overlapping.stored_position() == 2


def test_a_table_with_an_open_transaction_is_changed_only_at_its_turn(overlapping: FakedReplica) -> None:
    overlapping.projection.apply([created(1, "a", partition_columns=("dt",)), allocated(2, 7, 1, "a")])
    overlapping.target.calls.clear()
    add = with_object(partitions_added(5, "a", "5"), partition_columns=("dt",))
    overlapping.projection.apply([altered(3, "b"), committed(4, 7), add])
    assert overlapping.target.calls[-2:] == ["commit_replayed", "add_partitions"]


def test_what_an_event_ahead_of_its_turn_changes_in_the_state_is_recorded(overlapping: FakedReplica) -> None:
    overlapping.projection.apply(
        [created(1, "a"), created(2, "b"), allocated(3, 7, 1, "b"), committed(4, 7), created(5, "c")]
    )
    overlapping.projection.settle()
    overlapping.projection.apply([altered(6, "a"), with_object(dropped(7, "b")), created(8, "b")])
    overlapping.projection.apply([allocated(9, 8, 1, "b"), committed(10, 8)])
    overlapping.projection.settle()
    assert overlapping.projection.quarantined() == ()
    assert overlapping.target.write_ids == {"b": 1}


def test_a_lane_changes_nothing_after_another_instance_took_over(overlapping: FakedReplica) -> None:
    overlapping.parameters["tideline.epoch"] = "99-of-another"
    overlapping.clock.now_s += 5
    with closing(Lanes(overlapping.context, 1)) as lanes:
        job = lanes.start(created(1, "t1"), [created(1, "t1")], None)
        lanes.stop([job])
        assert lanes.finish(job) is None
    assert overlapping.target.tables == {}


def test_a_batch_that_repeats_events_of_a_lost_state_is_applied_by_replay_alone(
    overlapping: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[Thread] = []
    before_each_creation(overlapping, monkeypatch, lambda _: threads.append(current_thread()))
    overlapping.projection._transactions.resume(OpeningMarks(uncertain_event_id=2))
    overlapping.projection.apply([created(at, f"t{at}") for at in (1, 2, 3)])
    assert threads == [current_thread()] * 3


def record_overlap(replica: FakedReplica, monkeypatch: pytest.MonkeyPatch) -> list[BatchOverlap]:
    """Return a list that gets the counts of each batch."""
    reported: list[BatchOverlap] = []
    monkeypatch.setattr(replica.context.observer, "batch_replayed", reported.append)
    return reported


def test_a_batch_reports_how_many_of_its_events_lanes_applied(
    overlapping: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported, together = record_overlap(overlapping, monkeypatch), Barrier(3)
    before_each_creation(overlapping, monkeypatch, lambda _: together.wait(WAIT_S))
    overlapping.projection.apply([created(at, f"t{at}") for at in (1, 2, 3)])
    (overlap,) = reported
    assert (overlap.events, overlap.lanes.applied, overlap.lanes.returned) == (3, 2, 0)
    assert overlap.lanes.busy_s > 0
    assert min(overlap.lanes.queued_s, overlap.lanes.waited_s) >= 0
    assert overlap.lookahead == LookaheadCounts()


def test_an_event_whose_lane_failed_is_reported_as_returned_also_if_the_batch_ends_by_an_error(
    overlapping: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported, together = record_overlap(overlapping, monkeypatch), Barrier(2)

    failed: list[str] = []

    def fail_second(table: str) -> None:
        if not failed:  # the lane has begun with the second table while replay creates the first
            together.wait(WAIT_S)
        if table == "t2":
            failed.append(table)
            raise MetastoreUnavailable("gone")

    before_each_creation(overlapping, monkeypatch, fail_second)
    with pytest.raises(MetastoreUnavailable):
        overlapping.projection.apply([created(1, "t1"), created(2, "t2")])
    (overlap,) = reported
    assert (overlap.events, overlap.lanes.applied, overlap.lanes.returned) == (2, 0, 1)
    assert len(failed) == 2, "by the lane, and by replay at the event's turn"


def test_each_batch_is_reported_by_itself_and_one_without_events_of_the_policy_is_not(
    overlapping: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported = record_overlap(overlapping, monkeypatch)
    overlapping.projection.apply([created(at, f"t{at}") for at in (1, 2, 3)])
    overlapping.projection.apply([])
    overlapping.projection.apply([altered(4, "t1")])
    assert [each.events for each in reported] == [3, 1]
    assert reported[0].lanes.applied + reported[0].lanes.returned == 2
    assert reported[1].lanes == LaneCounts()
