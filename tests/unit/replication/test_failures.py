"""What replay does when the target, the files or the events are not as they should be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from handlers.events import Embedded, Event, Undecodable
from handlers.structs import tjson
from handlers.structs.objects import Table
from state.errors import (
    AmbiguousCall,
    InvalidRequest,
    MalformedEvent,
    ServerFault,
    TargetDiverged,
)
from tests.builders.replication.fake_target import FakedReplica, faked_replica
from tests.builders.replication.replay_events import (
    a_table,
    aborted,
    allocated,
    altered,
    committed,
    created,
    dropped,
    embedded,
    written,
)


if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[FakedReplica]:
    made = faked_replica(tmp_path)
    yield made
    made.projection.close()


def an_insert(replica: FakedReplica, event_id: int = 3, write_id: int = 1) -> list[Event]:
    """Return the parts of a commit that wrote one file."""
    file = replica.file(write_id=write_id)
    return [
        written(event_id, file, txn_id=write_id, write_id=write_id, part=0, parts=2),
        committed(event_id, txn_id=write_id, part=1, parts=2),
    ]


def apply_again_and_again(
    replica: FakedReplica, events: list[Event], error: type[Exception], times: int
) -> None:
    """Apply with the restarts that the supervisor would make."""
    for _ in range(times):
        with pytest.raises(error):
            replica.projection.apply(events)
        replica.projection.open()
    replica.projection.apply(events)


def test_a_commit_that_the_target_fails_at_three_times_is_made_without_its_files(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    replica.target.fails("commit_replayed", ServerFault("internal error"), times=3)
    apply_again_and_again(replica, an_insert(replica), ServerFault, times=2)
    assert replica.target.commits == [(1, [])], "the transaction ends, for the other tables' sake"
    assert replica.files_on_target() == [], "and shows nothing of the confined one"
    assert replica.stored_quarantine() == {"orders": "server-fault"}
    assert replica.stored_position() == 3


def test_a_fault_that_passes_confines_nothing(replica: FakedReplica) -> None:
    replica.target.fails("create_table", ServerFault("internal error"), times=2)
    apply_again_and_again(replica, [created(1)], ServerFault, times=2)
    assert replica.stored_quarantine() == {}
    assert list(replica.target.tables) == ["orders"]


def test_a_table_event_that_the_target_fails_at_three_times_confines_its_table(replica: FakedReplica) -> None:
    replica.target.fails("create_table", ServerFault("internal error"), times=3)
    apply_again_and_again(replica, [created(1), created(2, "other")], ServerFault, times=2)
    assert replica.stored_quarantine() == {"orders": "server-fault"}
    assert list(replica.target.tables) == ["other"]


def test_a_call_without_an_answer_ends_the_run_and_is_repeated_by_the_next(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    replica.target.fails("commit_replayed", AmbiguousCall("sent, but no answer came"))
    apply_again_and_again(replica, an_insert(replica), AmbiguousCall, times=1)
    assert replica.target.calls.count("commit_replayed") == 2
    assert [txn for txn, _ in replica.target.commits] == [1]
    assert replica.files_on_target() == ["orders/delta_0000001_0000001_0000/bucket_00000_0"]


def test_another_write_id_than_the_sources_is_drawn_anew(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1), allocated(3, 1, 2)])
    assert replica.target.allocations == [(1, 1, False), (1, 2, False), (1, 2, True)]
    assert replica.stored_quarantine() == {}


def test_a_transaction_that_the_target_does_not_know_confines_the_table(replica: FakedReplica) -> None:
    replica.target.answers["allocate_replayed"] = [None]
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    assert replica.stored_quarantine() == {"orders": "target-diverged"}
    assert replica.target.allocations == [(1, 1, False)], "reallocate would wipe the table's rows"


def test_a_write_id_that_cannot_be_had_confines_the_table(replica: FakedReplica) -> None:
    replica.target.answers["allocate_replayed"] = [7, 7]
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    assert replica.stored_quarantine() == {"orders": "target-diverged"}


def test_a_commit_that_did_not_happen_stops_the_policy(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    replica.target.invalid["orders"] = (1,)
    with pytest.raises(TargetDiverged, match="did not commit"):
        replica.projection.apply(an_insert(replica))
    assert replica.stored_position() == 2, "the commit comes again"


def test_the_previous_events_id_stands_on_the_target_before_a_commit_and_an_abort(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1), *an_insert(replica)])
    assert replica.target.calls[-2:] == ["alter_database", "commit_replayed"]
    replica.projection.apply([allocated(4, 2, 2), aborted(5, 2)])
    assert replica.target.calls[-2:] == ["alter_database", "abort_replayed"]
    assert (replica.target.databases["shop_r"].parameters or {})["repl.last.id"] == "4"


def test_of_a_table_confined_in_the_middle_of_a_commit_nothing_is_shown(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    outside = replace(replica.file("bucket_00001_0"), subdir="../../elsewhere")
    replica.projection.apply(
        [
            written(3, replica.file(), part=0, parts=3),
            written(3, outside, part=1, parts=3),
            committed(3, part=2, parts=3),
        ]
    )
    assert replica.stored_quarantine() == {"orders": "unsafe-path"}
    assert replica.files_on_target() == []
    assert replica.target.commits == [(1, [])]


def test_what_a_dead_run_copied_ahead_for_a_table_that_is_confined_by_now_is_not_shown(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1), unreadable(3, db="shop", table="orders")])
    left = replica.target.warehouse / "orders" / "delta_0000001_0000001_0000" / "bucket_00000_0"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"rows")
    replica.projection.apply(an_insert(replica, event_id=4))
    assert replica.files_on_target() == []
    assert replica.target.commits == [(1, [])]


def test_a_confinement_is_on_disk_before_the_next_event_is_applied(replica: FakedReplica) -> None:
    """Else the next commit's repl.last.id would make a restart believe that the bad event was applied."""
    replica.target.fails("create_table", InvalidRequest("no"))
    replica.target.fails("create_table", AmbiguousCall("sent, but no answer came"))
    with pytest.raises(AmbiguousCall):
        replica.projection.apply([created(1), created(2, "other")])
    assert replica.stored_quarantine() == {"orders": "invalid-request"}
    assert replica.stored_position() == 1


def broken() -> Embedded[Table]:
    """Return an object that nobody can read."""
    return Embedded("{no json", lambda text: tjson.decode(Table, text))


def test_an_alteration_whose_objects_cannot_be_read_confines_its_table(replica: FakedReplica) -> None:
    unreadable = replace(altered(3), before=broken(), after=broken())
    replica.projection.apply([created(1), created(2, "other"), unreadable, altered(4, "other")])
    assert replica.stored_quarantine() == {"orders": "malformed-event"}
    assert replica.stored_position() == 4


def unreadable(event_id: int, *, kind: str = "ALTER_TABLE", **names: Any) -> Undecodable:
    return Undecodable(event_id=event_id, time_s=0, kind=kind, error=MalformedEvent("no JSON"), **names)


def test_an_unreadable_opening_of_transactions_does_no_harm(replica: FakedReplica) -> None:
    replica.projection.apply([unreadable(1, kind="OPEN_TXN"), created(2), allocated(3, 1, 1)])
    assert replica.stored_position() == 3
    assert replica.stored_quarantine() == {}


def test_an_unreadable_event_confines_the_table_that_it_names(replica: FakedReplica) -> None:
    replica.projection.apply(
        [created(1), unreadable(2, db="shop", table="orders"), unreadable(3, db="x", table="t")]
    )
    assert replica.stored_quarantine() == {"orders": "malformed-event"}


def test_an_unreadable_event_without_a_name_stops_the_policy_before_it(replica: FakedReplica) -> None:
    with pytest.raises(MalformedEvent):
        replica.projection.apply([created(1), unreadable(2), created(3, "other")])
    assert replica.stored_position() == 1
    assert list(replica.target.tables) == ["orders"]


def test_a_drop_releases_a_confined_table_for_a_restart_too(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), unreadable(2, db="shop", table="orders"), dropped(3), created(4)])
    assert replica.stored_quarantine() == {}
    replica.projection.open()
    assert replica.projection.quarantined() == ()


def test_after_a_rename_a_repetition_starts_behind_it(replica: FakedReplica) -> None:
    """The old name belongs to another table by then, which would be renamed instead."""
    events = [created(1), altered(2, new_name="archive"), created(3), allocated(4, 1, 1)]
    replica.target.fails("open_replayed", AmbiguousCall("sent, but no answer came"))
    apply_again_and_again(replica, events, AmbiguousCall, times=1)
    assert sorted(replica.target.tables) == ["archive", "orders"]
    assert replica.target.calls.count("alter_table") == 1
    assert replica.stored_quarantine() == {}


def test_a_confined_table_that_cannot_be_renamed_confines_both_names(replica: FakedReplica) -> None:
    """Else a table that is made under the old name would be taken for it."""
    replica.projection.apply([created(1), unreadable(2, db="shop", table="orders")])
    replica.target.fails("alter_table", InvalidRequest("no"))
    replica.projection.apply([altered(3, new_name="archive"), created(4)])
    assert replica.stored_quarantine() == {"orders": "malformed-event", "archive": "invalid-request"}


def moved(event_id: int, before_db: str, after_db: str) -> Event:
    """Return the ALTER_TABLE of a table that is moved to another database; it stands under the new one."""
    return replace(
        altered(event_id),
        db=after_db,
        before=embedded(a_table(db=before_db)),
        after=embedded(a_table(db=after_db)),
    )


def test_a_table_that_moves_to_another_database_goes(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), moved(2, "shop", "attic")])
    assert replica.target.tables == {}
    assert replica.stored_quarantine() == {}


def test_a_table_that_comes_from_another_database_has_to_be_loaded_first(replica: FakedReplica) -> None:
    replica.projection.apply([moved(1, "attic", "shop"), allocated(2, 1, 1), committed(3)])
    assert replica.stored_quarantine() == {"orders": "unsupported"}
    assert replica.target.calls == []


def test_events_that_were_applied_are_passed_over(replica: FakedReplica) -> None:
    events = [created(1), allocated(2, 1, 1), *an_insert(replica)]
    replica.projection.apply(events)
    calls = len(replica.target.calls)
    assert replica.projection.apply(events).event_id == 3
    assert len(replica.target.calls) == calls
    assert replica.stored_position() == 3
