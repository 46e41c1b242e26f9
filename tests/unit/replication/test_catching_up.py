"""A loaded table catches up with replay, also when the process is killed on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from handlers.replication.loading.follower import FAULTS_MAX
from handlers.replication.loading.load_tools import LoadedTable
from state.errors import AmbiguousCall, GapDetected, ServerFault
from tests.builders.replication.replay_events import (
    a_table,
    allocated,
    altered,
    committed,
    created,
    written,
)


if TYPE_CHECKING:
    from collections.abc import Iterable

    from handlers.events import Event
    from tests.builders.replication.fake_target import FakedReplica


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
    replica.context.write_ids.check()


def test_a_killed_catch_up_does_not_repeat_an_allocation_after_its_commit(replica: FakedReplica) -> None:
    events = loaded_behind(replica)
    replica.target.fails("commit_replayed", AmbiguousCall("sent, but no answer came"))
    with pytest.raises(AmbiguousCall):
        catch_up(replica, events)
    replica.restart()
    replica.target.allocations.clear()
    catch_up(replica, events)
    assert replica.target.allocations == [(3, 3, False)]
    assert not replica.context.loads.waiting()


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
    assert len(replica.context.loads) == 0


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
