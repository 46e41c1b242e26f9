"""A loaded table catches up with replay, also when the process is killed on the way."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from handlers.events import Event
from handlers.replication.loading import catch_up as catch_up_module
from handlers.replication.loading import follower
from handlers.replication.loading.follower import FAULTS_MAX
from handlers.replication.tables.table_loads import LoadedTable
from state.errors import AmbiguousCall, GapDetected, ServerFault
from tests.builders.replication.fake_target import FakedReplica
from tests.builders.replication.replay_events import (
    a_table,
    allocated,
    altered,
    committed,
    created,
    dropped,
    written,
)


def loaded_behind(replica: FakedReplica) -> list[Event]:
    """Load ``orders`` as of event 2, while replay is at event 7; return the events."""
    events: list[Event] = [
        created(1, "other"),
        allocated(2, 1, 1),
        allocated(3, 2, 2),
        allocated(4, 2, 1, "other"),
        written(5, replica.file(write_id=2), txn_id=2, write_id=2, parts=2),
        committed(5, 2, part=1, parts=2),
        allocated(6, 3, 3),
        allocated(7, 3, 2, "other"),
    ]
    replica.projection.loads.request(["orders"], "release")
    replica.projection.apply(events)
    replica.target.create_table(a_table(location=None))
    replica.projection.loads.finish(LoadedTable("orders", 2, 1))
    return events


def catch_up(replica: FakedReplica, events: list[Event]) -> None:
    replica.projection.loads.catch_up(lambda after, upto: [e for e in events if after < e.event_id <= upto])


def test_a_transaction_that_was_committed_meanwhile_is_committed_again_for_this_table_alone(
    replica: FakedReplica,
) -> None:
    catch_up(replica, loaded_behind(replica))
    assert [(t, [(w.table, w.writeId) for w in ws]) for t, ws in replica.target.commits] == [
        (2, []),
        (2, [("orders", 2)]),
    ]
    assert replica.files_on_target() == ["orders/delta_0000002_0000002_0000/bucket_00000_0"]
    assert replica.target.open_txns == [3]


def test_a_transaction_that_is_still_open_is_ended_by_replay_for_all_tables(replica: FakedReplica) -> None:
    catch_up(replica, loaded_behind(replica))
    file = replica.file(write_id=3)
    replica.restart()
    replica.projection.apply(
        [written(8, file, txn_id=3, write_id=3, parts=2), committed(8, 3, part=1, parts=2)]
    )
    assert replica.target.commits[-1][0] == 3
    assert [w.table for w in replica.target.commits[-1][1]] == ["orders"]
    assert replica.target.open_txns == []
    replica.context.tables.write_ids.check()


def test_a_killed_catch_up_does_not_repeat_an_allocation_after_its_commit(replica: FakedReplica) -> None:
    events = loaded_behind(replica)
    replica.target.fails("commit_replayed", AmbiguousCall("sent, but no answer came"))
    with pytest.raises(AmbiguousCall):
        catch_up(replica, events)
    replica.restart()
    replica.target.allocations.clear()
    catch_up(replica, events)
    assert replica.target.allocations == [(3, 3, False)]
    assert not replica.context.tables.loads.waiting()


def test_a_table_whose_events_are_lost_is_loaded_again(replica: FakedReplica) -> None:
    def read(_after: int, _upto: int) -> Iterable[Event]:
        raise GapDetected("gone")

    loaded_behind(replica)
    replica.projection.loads.catch_up(read)
    (entry,) = replica.projection.loads.to_load()
    assert (entry.table, entry.tries, "gone" in (entry.problem or "")) == ("orders", 1, True)


def test_a_table_that_fails_while_it_catches_up_is_quarantined_and_waits_no_longer(
    replica: FakedReplica,
) -> None:
    replica.projection.loads.request(["orders"], "release")
    replica.projection.apply([altered(1), altered(2)])
    replica.projection.loads.finish(LoadedTable("orders", 1, exists=False))
    catch_up(replica, [altered(1), altered(2)])
    assert list(replica.stored_quarantine()) == ["orders"]
    assert len(replica.context.tables.loads) == 0


def test_an_internal_error_of_the_target_that_does_not_pass_lets_the_table_be_loaded_again(
    replica: FakedReplica,
) -> None:
    events = loaded_behind(replica)
    replica.target.fails("open_replayed", ServerFault("internal error"), times=FAULTS_MAX)
    for _ in range(FAULTS_MAX - 1):
        with pytest.raises(ServerFault):
            catch_up(replica, events)
    catch_up(replica, events)
    assert [entry.table for entry in replica.projection.loads.to_load()] == ["orders"]


def far_behind(replica: FakedReplica) -> list[Event]:
    """Load ``orders`` as of event 2, while replay is at event 20 and transaction 2 writes into both tables;
    return the events."""
    events: list[Event] = [
        created(1, "other"),
        allocated(2, 1, 1),
        allocated(3, 2, 2),
        allocated(4, 2, 1, "other"),
        *(altered(at, "other") for at in range(5, 21)),
    ]
    replica.projection.loads.request(["orders"], "release")
    replica.projection.apply(events)
    replica.target.create_table(a_table(location=None))
    replica.projection.loads.finish(LoadedTable("orders", 2, 1))
    return events


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn ends after two events."""
    monkeypatch.setattr(catch_up_module, "PIECE_EVENTS", 1)
    monkeypatch.setattr(follower, "TURN_S", 0.0)


def take_turn(replica: FakedReplica, events: list[Event]) -> bool:
    return replica.projection.loads.catch_up(
        lambda after, upto: [e for e in events if after < e.event_id <= upto]
    )


@pytest.mark.usefixtures("short_turns")
def test_others_are_followed_between_the_turns_of_a_table_that_is_far_behind(replica: FakedReplica) -> None:
    events = far_behind(replica)
    for turn in range(1, 6):
        assert take_turn(replica, events)
        events.append(altered(20 + turn, "other"))
        replica.target.calls.clear()
        replica.projection.apply(events[-1:])
        assert "alter_table" in replica.target.calls
        assert replica.context.tables.loads.is_waiting("orders")
    for _ in range(40):
        take_turn(replica, events)
    entry = replica.context.tables.loads.get("orders")
    assert entry is not None
    assert entry.event_id == 25


@pytest.mark.usefixtures("short_turns")
@pytest.mark.parametrize("restarts", [False, True])
def test_a_catch_up_is_completed_before_the_end_of_a_transaction_that_holds_a_write_id_of_the_table(
    replica: FakedReplica, restarts: bool
) -> None:
    events = far_behind(replica)
    assert take_turn(replica, events)
    if restarts:
        replica.restart()
        assert take_turn(replica, events)
    end: list[Event] = [
        written(21, replica.file(write_id=2), txn_id=2, write_id=2, parts=2),
        committed(21, 2, part=1, parts=2),
    ]
    replica.projection.apply(end)
    assert [(txn, [w.table for w in writes]) for txn, writes in replica.target.commits] == [(2, ["orders"])]
    assert replica.files_on_target() == ["orders/delta_0000002_0000002_0000/bucket_00000_0"]
    assert not replica.context.tables.loads.waiting()
    assert replica.target.open_txns == []


@pytest.mark.usefixtures("short_turns")
def test_a_catch_up_is_completed_before_the_table_is_renamed(replica: FakedReplica) -> None:
    events = far_behind(replica)
    assert take_turn(replica, events)
    replica.projection.apply([altered(21, new_name="moved")])
    assert "moved" in replica.target.tables
    assert "orders" not in replica.target.tables
    assert not replica.context.tables.loads.waiting()
    assert replica.context.tables.write_ids.holds(2, "shop.moved", 2)


@pytest.mark.usefixtures("short_turns")
def test_a_drop_ends_the_catch_up_of_a_table(replica: FakedReplica) -> None:
    events = far_behind(replica)
    assert take_turn(replica, events)
    replica.projection.apply([dropped(21)])
    assert not take_turn(replica, events)
    assert list(replica.target.tables) == ["other"]
    assert len(replica.context.tables.loads) == 0


def test_the_turns_of_a_table_that_does_not_come_closer_grow(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catch_up_module, "PIECE_EVENTS", 1)
    now, lengths = [0.0], list[float]()
    loads = replica.projection.loads
    loads.clock = lambda: now[0]
    loads.beat = lambda: now.__setitem__(0, now[0] + 0.25)
    events = far_behind(replica)
    for turn in range(4):
        started = now[0]
        assert take_turn(replica, events)
        lengths.append(now[0] - started)
        last = events[-1].event_id
        events += [altered(at, "other") for at in range(last + 1, last + 40 * (turn + 1))]
        replica.projection.apply([event for event in events if event.event_id > last])
    assert [round(length) for length in lengths] == [2, 4, 8, 16]
