"""A released table resumes where it stopped, or is loaded: which of the two, and what reaches the target."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from handlers.events import Event
from handlers.replication.loading.resume import Release
from handlers.replication.tables.table_loads import LoadedTable
from state.errors import AmbiguousCall, GapDetected, InvalidRequest, NotFound
from tests.builders.replication.fake_target import FakedReplica
from tests.builders.replication.replay_events import (
    aborted,
    allocated,
    altered,
    committed,
    created,
    dropped,
    partitions_added,
    written,
)


def stopped_at(replica: FakedReplica, failing: Event, *before: Event) -> list[Event]:
    """Quarantine ``orders`` at an event that the target refuses to alter; return all events."""
    events = [created(1), created(2, "other"), *before, failing]
    replica.target.fails("alter_table", InvalidRequest("no"))
    replica.projection.apply(events)
    assert list(replica.stored_quarantine()) == ["orders"]
    return events


def release(replica: FakedReplica, events: Iterable[Event], *, load: bool = False) -> Release:
    return replica.projection.loads.release(
        "orders", lambda after, upto: [e for e in events if after < e.event_id <= upto], load=load
    )


def catch_up(replica: FakedReplica, events: Iterable[Event]) -> None:
    replica.projection.loads.catch_up(lambda after, upto: [e for e in events if after < e.event_id <= upto])


def meanwhile(replica: FakedReplica, *after: Event) -> list[Event]:
    """Write into ``orders`` and ``other`` in one transaction while ``orders`` is quarantined; return the
    events."""
    events = [
        allocated(20, 7, 1),
        allocated(21, 7, 1, "other"),
        written(22, replica.file(), txn_id=7, parts=2),
        committed(22, 7, part=1, parts=2),
        *after,
    ]
    replica.projection.apply(events)
    return events


def test_a_table_resumes_at_the_event_that_failed_and_gets_what_it_missed(replica: FakedReplica) -> None:
    events = stopped_at(replica, altered(3)) + meanwhile(replica)
    assert replica.files_on_target() == []
    done = release(replica, events)
    assert (done.resumes_at, done.reason) == (3, None)
    assert replica.projection.quarantined() == ()
    replica.target.calls.clear()
    catch_up(replica, events)
    assert replica.target.calls.count("alter_table") == 1, "the event that failed is applied"
    assert "create_table" not in replica.target.calls
    assert "drop_table" not in replica.target.calls
    assert replica.files_on_target() == ["orders/delta_0000001_0000001_0000/bucket_00000_0"]
    assert replica.target.open_txns == []
    assert not replica.context.tables.loads.waiting()
    replica.context.tables.write_ids.check()


def test_a_transaction_that_was_open_all_the_time_is_ended_by_replay_with_all_files(
    replica: FakedReplica,
) -> None:
    before = [allocated(3, 5, 1), allocated(4, 6, 2)]
    events = stopped_at(replica, altered(5), *before)
    assert release(replica, events).resumes_at == 5
    catch_up(replica, events)
    replica.projection.apply(
        [written(30, replica.file(), txn_id=5, parts=2), committed(30, 5, part=1, parts=2), aborted(31, 6)]
    )
    assert [(txn, [w.table for w in writes]) for txn, writes in replica.target.commits] == [(5, ["orders"])]
    assert replica.files_on_target() == ["orders/delta_0000001_0000001_0000/bucket_00000_0"]
    assert replica.target.open_txns == []


@pytest.mark.parametrize("end", [committed(5, 5), aborted(5, 5)])
def test_a_table_is_loaded_if_a_transaction_that_wrote_into_it_has_ended_since(
    replica: FakedReplica, end: Event
) -> None:
    events = [*stopped_at(replica, altered(4), allocated(3, 5, 1)), end]
    replica.projection.apply([end])
    done = release(replica, events)
    assert done.resumes_at is None
    assert "ended or are unknown: 5" in (done.reason or "")
    (entry,) = replica.projection.loads.to_load()
    assert (entry.table, entry.reason, entry.resumes) == ("orders", "release", False)


def test_a_table_whose_commit_failed_is_loaded(replica: FakedReplica) -> None:
    file = replica.file()
    (replica.directory / "source/orders" / file.subdir / "bucket_00000_0").unlink()
    events = [
        created(1),
        allocated(2, 5, 1),
        written(3, file, txn_id=5, parts=2),
        committed(3, 5, part=1, parts=2),
    ]
    replica.projection.apply(events)
    assert replica.stored_quarantine() == {"orders": "file-lost"}
    assert "ended or are unknown" in (release(replica, events).reason or "")


def test_a_table_that_others_wrote_to_is_loaded(replica: FakedReplica) -> None:
    events = stopped_at(replica, altered(3))
    replica.target.seed_write_ids("orders", 4)
    assert "has allocated write ids up to 4" in (release(replica, events).reason or "")


def test_a_table_that_was_renamed_since_is_loaded(replica: FakedReplica) -> None:
    events = stopped_at(replica, altered(3))
    replica.projection.apply([altered(4, new_name="moved")])
    done = replica.projection.loads.release("moved", lambda _after, _upto: events)
    assert "renamed from 'orders'" in (done.reason or "")


def test_a_table_whose_own_rename_failed_is_loaded(replica: FakedReplica) -> None:
    events: list[Event] = [created(1), created(2, "other")]
    replica.projection.apply(events)
    replica.target.fails("alter_table", InvalidRequest("no"))
    events.append(altered(3, new_name="moved"))
    replica.projection.apply(events[2:])
    assert release(replica, events).resumes_at == 3
    catch_up(replica, events)
    assert [entry.resumes for entry in replica.projection.loads.to_load()] == [False]
    assert "orders" in replica.target.tables, "the load decides about it"


def test_a_table_whose_events_are_gone_is_loaded(replica: FakedReplica) -> None:
    def read(_after: int, _upto: int) -> Iterable[Event]:
        raise GapDetected("gone")

    stopped_at(replica, altered(3))
    done = replica.projection.loads.release("orders", read)
    assert "event 3 can no longer be read" in (done.reason or "")


def test_events_that_are_lost_while_a_table_resumes_let_it_be_loaded(replica: FakedReplica) -> None:
    def read(_after: int, _upto: int) -> Iterable[Event]:
        raise GapDetected("gone")

    events = stopped_at(replica, altered(4), allocated(3, 5, 1))
    release(replica, events)
    replica.projection.loads.catch_up(read)
    (entry,) = replica.projection.loads.to_load()
    assert not entry.resumes
    assert replica.context.tables.write_ids.tables() == (), "its write ids come with the load"


def test_a_load_can_be_forced_also_while_the_table_resumes(replica: FakedReplica) -> None:
    events = stopped_at(replica, altered(3))
    assert release(replica, events).resumes_at == 3
    assert release(replica, events).resumes_at == 3, "a repeated release changes nothing"
    assert release(replica, events, load=True).reason == "a load was requested"
    assert [entry.resumes for entry in replica.projection.loads.to_load()] == [False]
    assert release(replica, events).reason == "its load was requested before"
    replica.projection.loads.finish(LoadedTable("orders", 3, exists=False))
    with pytest.raises(NotFound, match="neither quarantined nor waiting"):
        release(replica, events)


def test_a_table_that_fails_again_while_it_resumes_is_loaded_before_anything_incomplete_is_committed(
    replica: FakedReplica,
) -> None:
    events = stopped_at(replica, altered(3)) + meanwhile(replica)
    for path in (replica.directory / "source").rglob("bucket_*"):
        path.unlink()
    release(replica, events)
    commits = list(replica.target.commits)
    catch_up(replica, events)
    assert replica.target.commits == commits
    assert [entry.resumes for entry in replica.projection.loads.to_load()] == [False]
    assert replica.projection.quarantined() == ()


def test_a_table_whose_drop_failed_is_dropped_and_its_successor_is_followed(replica: FakedReplica) -> None:
    events: list[Event] = [created(1), allocated(2, 5, 1), committed(3, 5), dropped(4)]
    replica.target.fails("drop_table", InvalidRequest("no"))
    replica.projection.apply(events)
    assert release(replica, events).resumes_at == 4
    catch_up(replica, events)
    assert replica.target.tables == {}
    assert len(replica.context.tables.loads) == 0
    file = replica.file()
    replica.projection.apply(
        [
            created(5),
            allocated(6, 6, 1),
            written(7, file, txn_id=6, parts=2),
            committed(7, 6, part=1, parts=2),
        ]
    )
    assert replica.files_on_target() == ["orders/delta_0000001_0000001_0000/bucket_00000_0"]


def test_partitions_that_an_open_transaction_touched_before_the_quarantine_are_not_forgotten(
    replica: FakedReplica,
) -> None:
    replica.context.tables.write_ids.allocate(5, "shop.orders", 1, 2)
    replica.context.tables.write_ids.touch_partition("shop.orders", 1, "day=1")
    replica.target.seed_write_ids("orders", 0)
    replica.target.open_replayed("", 5)
    replica.target.allocate_replayed("", "", "orders", 5, 1)
    events = stopped_at(replica, altered(3))
    assert release(replica, events).resumes_at == 3
    catch_up(replica, events)
    known = replica.context.tables.write_ids.get(5)
    assert known is not None
    assert [touched.partition_name for touched in known.touched] == ["day=1"]


def test_a_killed_resume_continues_without_repeating_a_commit(replica: FakedReplica) -> None:
    events = stopped_at(replica, altered(3)) + meanwhile(replica)
    release(replica, events)
    replica.target.fails("commit_replayed", AmbiguousCall("sent, but no answer came"))
    with pytest.raises(AmbiguousCall):
        catch_up(replica, events)
    replica.restart()
    assert replica.projection.quarantined() == ()
    replica.target.allocations.clear()
    catch_up(replica, events)
    assert replica.target.allocations == []
    assert not replica.context.tables.loads.waiting()


def test_what_a_release_needs_survives_a_restart_and_the_loss_of_the_state_file(
    replica: FakedReplica,
) -> None:
    stopped_at(replica, altered(4), allocated(3, 5, 1))
    replica.projection.settle()
    (entry,) = replica.context.tables.quarantine.entries()
    assert (entry.name, entry.write_id, entry.held) == ("orders", 1, ((1, 5),))
    replica.restart()
    assert replica.context.tables.quarantine.entries() == (entry,)
    value = replica.parameters["tideline.quarantine"]
    assert value == "orders:4:invalid-request:orders;1;0;1-5"


def test_an_entry_of_an_older_version_is_loaded(replica: FakedReplica) -> None:
    events = stopped_at(replica, altered(3))
    with replica.store.transaction() as txn:
        old = b'{"table":"orders","event_id":3,"code":"refused","reason":"no","time_s":5}'
        txn.put(b"quarantine/orders", old)
    replica.restart()
    assert "were not recorded" in (release(replica, events).reason or "")


def test_a_plain_table_resumes_without_write_ids(replica: FakedReplica) -> None:
    events: list[Event] = [created(1, parameters={"transactional": "false"}), partitions_added(2)]
    replica.projection.apply(events[:1])
    replica.context.handle_failure("orders", 2, InvalidRequest("no"))
    replica.projection.apply([altered(3, "other")])
    assert release(replica, events).resumes_at == 2
