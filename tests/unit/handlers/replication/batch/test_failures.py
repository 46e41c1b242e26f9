"""Replay with a failing target, missing files and bad events."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from handlers.events import DatabaseDropped, Embedded, Event, Undecodable
from handlers.replication.batch.batch_replay import FAULTS_MIN, FAULTS_S
from handlers.replication.tables.quarantine import BREAKER_S, BREAKER_TABLES
from handlers.structs import tjson
from handlers.structs.objects import Table
from state.errors import (
    AmbiguousCall,
    BadInput,
    FilesUnavailable,
    InvalidRequest,
    MalformedEvent,
    ServerFault,
    TargetDiverged,
    TooManyFailures,
    UnsafePath,
)
from state.transactions.valid_write_ids import ValidWriteIds
from tests.builders.replication.fake_target import FakedReplica, faked_replica
from tests.builders.replication.replay_events import (
    a_table,
    aborted,
    allocated,
    altered,
    changed,
    committed,
    created,
    dropped,
    embedded,
    written,
)


def an_insert(replica: FakedReplica, event_id: int = 3, write_id: int = 1) -> list[Event]:
    """Return the parts of a commit that wrote one file."""
    file = replica.file(write_id=write_id)
    return [
        written(event_id, file, txn_id=write_id, write_id=write_id, part=0, parts=2),
        committed(event_id, txn_id=write_id, part=1, parts=2),
    ]


def apply_again_and_again(
    replica: FakedReplica,
    events: list[Event],
    error: type[Exception],
    times: int,
    pause_s: float = FAULTS_S / (FAULTS_MIN - 1),
) -> None:
    """Apply with restarts and pauses, as the supervisor makes them."""
    for _ in range(times):
        with pytest.raises(error):
            replica.projection.apply(events)
        replica.clock.now_s += pause_s
        replica.projection.open()
    replica.projection.apply(events)


def test_a_commit_that_alone_fails_for_minutes_is_sent_without_files(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    replica.target.fails("commit_replayed", ServerFault("internal error"), times=FAULTS_MIN)
    apply_again_and_again(replica, an_insert(replica), ServerFault, times=FAULTS_MIN - 1)
    assert replica.target.commits == [(1, [])], "the transaction is committed for the other tables"
    assert replica.files_on_target() == [], "no file of the quarantined table is visible"
    assert replica.stored_quarantine() == {"orders": "server-fault"}
    assert replica.stored_position() == 3


@pytest.mark.parametrize("pause_s", [0.0, FAULTS_S])
def test_internal_errors_that_pass_quarantine_nothing(replica: FakedReplica, pause_s: float) -> None:
    times = FAULTS_MIN - 1 if pause_s else 3 * FAULTS_MIN
    replica.target.fails("create_table", ServerFault("internal error"), times=times)
    apply_again_and_again(replica, [created(1)], ServerFault, times=times, pause_s=pause_s)
    assert replica.stored_quarantine() == {}
    assert list(replica.target.tables) == ["orders"]


def test_a_metastore_that_accepts_no_write_at_all_quarantines_nothing(replica: FakedReplica) -> None:
    replica.target.fails("create_table", ServerFault("database away"), times=2 * FAULTS_MIN)
    replica.target.fails("alter_database", ServerFault("database away"), times=FAULTS_MIN + 1)
    apply_again_and_again(replica, [created(1)], ServerFault, times=2 * FAULTS_MIN)
    assert replica.stored_quarantine() == {}
    assert list(replica.target.tables) == ["orders"]


def test_a_table_event_that_alone_fails_for_minutes_quarantines_its_table(replica: FakedReplica) -> None:
    replica.target.fails("create_table", ServerFault("internal error"), times=FAULTS_MIN)
    apply_again_and_again(replica, [created(1), created(2, "other")], ServerFault, times=FAULTS_MIN - 1)
    assert replica.stored_quarantine() == {"orders": "server-fault"}
    assert list(replica.target.tables) == ["other"]
    (failure,) = replica.projection.failures()
    assert (failure.table, failure.event_id, failure.code) == ("shop.orders", 1, "server-fault")
    assert failure.time_s == int(replica.clock.now_s)


def test_a_target_directory_without_write_access_is_retried_until_access_is_back(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    events = an_insert(replica)

    def deny(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as denied:
        denied.setattr("handlers.files.systems.local.LocalFiles._open_or_make", deny)
        for _ in range(2 * FAULTS_MIN):
            with pytest.raises(FilesUnavailable, match="denied access"):
                replica.projection.apply(events)
            replica.clock.now_s += FAULTS_S
            replica.projection.open()
    replica.projection.apply(events)
    assert replica.stored_quarantine() == {}
    assert replica.files_on_target() == ["orders/delta_0000001_0000001_0000/bucket_00000_0"]


def test_many_failing_tables_stop_the_policy_instead_of_emptying_it(replica: FakedReplica) -> None:
    names = [f"t{number}" for number in range(BREAKER_TABLES + 1)]
    events = [created(number, name) for number, name in enumerate(names, 1)]
    replica.target.fails("create_table", InvalidRequest("no"), times=BREAKER_TABLES + 2)
    for _ in range(2):
        with pytest.raises(TooManyFailures) as stopped:
            replica.projection.apply(events)
        assert stopped.value.context["table"] == names[-1]
        replica.projection.open()
    assert sorted(replica.stored_quarantine()) == names[:-1]
    replica.projection.apply(events)
    assert list(replica.target.tables) == [names[-1]], "the cause has passed: the last table is followed"


def bad_events(error: BadInput, *names: str) -> list[Event]:
    return [
        Undecodable(event_id=number, time_s=0, kind="ALTER_TABLE", db="shop", table=name, error=error)
        for number, name in enumerate(names, 1)
    ]


def test_bad_input_does_not_count_for_the_circuit_breaker(replica: FakedReplica) -> None:
    names = [f"t{number}" for number in range(2 * BREAKER_TABLES)]
    replica.projection.apply(bad_events(MalformedEvent("broken"), *names))
    assert sorted(replica.stored_quarantine()) == sorted(names)


def test_files_outside_of_the_directories_that_may_be_read_count_for_the_circuit_breaker(
    replica: FakedReplica,
) -> None:
    names = [f"t{number}" for number in range(BREAKER_TABLES + 1)]
    with pytest.raises(TooManyFailures):
        replica.projection.apply(bad_events(UnsafePath("outside"), *names))
    replica.projection.open()
    assert sorted(replica.stored_quarantine()) == names[:-1]


def test_the_circuit_breaker_closes_after_a_while(replica: FakedReplica) -> None:
    names = [f"t{number}" for number in range(BREAKER_TABLES + 1)]
    replica.target.fails("create_table", InvalidRequest("no"), times=len(names))
    for number, name in enumerate(names, 1):
        replica.projection.apply([created(number, name)])
        replica.clock.now_s += BREAKER_S / BREAKER_TABLES
    assert sorted(replica.stored_quarantine()) == names


def test_an_unanswered_call_ends_the_run_and_is_repeated_by_the_next(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    replica.target.fails("commit_replayed", AmbiguousCall("sent, but no answer came"))
    apply_again_and_again(replica, an_insert(replica), AmbiguousCall, times=1)
    assert replica.target.calls.count("commit_replayed") == 2
    assert [txn for txn, _ in replica.target.commits] == [1]
    assert replica.files_on_target() == ["orders/delta_0000001_0000001_0000/bucket_00000_0"]


def test_a_write_id_different_from_the_sources_is_reallocated(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1), allocated(3, 1, 2)])
    assert replica.target.allocations == [(1, 1, False), (1, 2, False), (1, 2, True)]
    assert replica.stored_quarantine() == {}


def test_a_transaction_unknown_to_the_target_quarantines_the_table(replica: FakedReplica) -> None:
    replica.target.answers["allocate_replayed"] = [None]
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    assert replica.stored_quarantine() == {"orders": "target-diverged"}
    assert replica.target.allocations == [(1, 1, False)], "reallocate would wipe the table's rows"


def test_a_write_id_that_cannot_be_allocated_quarantines_the_table(replica: FakedReplica) -> None:
    replica.target.answers["allocate_replayed"] = [7]
    replica.projection.apply([created(1), allocated(2, 1, 1), committed(3)])
    assert replica.stored_quarantine() == {"orders": "target-diverged"}


def test_a_commit_without_effect_stops_the_policy(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    replica.target.invalid["orders"] = (1,)
    with pytest.raises(TargetDiverged, match="did not commit"):
        replica.projection.apply(an_insert(replica))
    for _ in range(2):
        replica.restart()
        with pytest.raises(TargetDiverged, match="did not commit"):
            replica.projection.apply([created(4, "other")])
    del replica.target.invalid["orders"]
    replica.projection.apply([created(4, "other")])


def test_the_previous_event_is_recorded_before_a_commit_or_abort(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[int] = []
    for call in ("commit_replayed", "abort_replayed"):
        monkeypatch.setattr(replica.target, call, lambda *_: recorded.append(replica.stored_position()))
    replica.projection.apply(
        [created(1), allocated(2, 1, 1), allocated(3, 2, 2), aborted(4, 2), committed(5, txn_id=9)]
    )
    assert recorded == [3]
    monkeypatch.setattr(replica.target, "valid_write_ids", lambda _: [ValidWriteIds("shop_r.orders", 2)])
    replica.projection.apply([committed(6)])
    assert recorded == [3, 5]


def test_a_table_quarantined_within_a_commit_shows_none_of_its_files(replica: FakedReplica) -> None:
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


def test_early_copies_of_a_killed_run_are_removed_if_the_table_is_quarantined_now(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1), unreadable(3, db="shop", table="orders")])
    left = replica.target.warehouse / "orders" / "delta_0000001_0000001_0000" / "bucket_00000_0"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"rows")
    replica.projection.apply(an_insert(replica, event_id=4))
    assert replica.files_on_target() == []
    assert replica.target.commits == [(1, [])]


def test_a_quarantine_is_stored_before_the_next_event_is_applied(replica: FakedReplica) -> None:
    """Otherwise the next commit's repl.last.id would make a restart take the bad event for applied."""
    replica.target.fails("create_table", InvalidRequest("no"))
    replica.target.fails("create_table", AmbiguousCall("sent, but no answer came"))
    with pytest.raises(AmbiguousCall):
        replica.projection.apply([created(1), created(2, "other")])
    assert replica.stored_quarantine() == {"orders": "invalid-request"}
    assert replica.stored_position() == 1


def test_a_quarantine_by_an_event_that_changes_no_name_is_stored_at_once(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = []

    def alter_table(_db: str, name: str, _table: Table, **_options: Any) -> None:
        if name == "orders":
            raise InvalidRequest("no")
        stored.append(replica.stored_quarantine())

    monkeypatch.setattr(replica.target, "alter_table", alter_table)
    replica.projection.apply([created(1), created(2, "other"), altered(3), altered(4, "other")])
    assert stored == [{"orders": "invalid-request"}]


def test_a_policy_may_skip_an_event_that_fails_and_follow_the_table_further(tmp_path: Path) -> None:
    replica = faked_replica(tmp_path, on_failure="skip")
    replica.target.fails("alter_table", InvalidRequest("no"))
    with closing(replica.projection):
        replica.projection.apply([created(1), altered(2), dropped(3)])
        assert replica.context.handle_failure("orders", 2, InvalidRequest("no")) == "failed"
    assert replica.stored_quarantine() == {}
    assert replica.target.tables == {}


def test_a_policy_may_stop_at_an_event_that_fails(tmp_path: Path) -> None:
    replica = faked_replica(tmp_path, on_failure="fail")
    replica.target.fails("alter_table", InvalidRequest("no"))
    with closing(replica.projection), pytest.raises(InvalidRequest):
        replica.projection.apply([created(1), altered(2), dropped(3)])
    assert replica.stored_quarantine() == {}
    assert replica.stored_position() == 1


def broken() -> Embedded[Table]:
    """Return an object that cannot be decoded."""
    return Embedded("{no json", lambda text: tjson.decode(Table, text))


def test_an_alteration_with_undecodable_objects_quarantines_its_table(replica: FakedReplica) -> None:
    unreadable = replace(altered(3), before=broken(), after=broken())
    replica.projection.apply([created(1), created(2, "other"), unreadable, altered(4, "other")])
    assert replica.stored_quarantine() == {"orders": "malformed-event"}
    assert replica.stored_position() == 4


def unreadable(event_id: int, *, kind: str = "ALTER_TABLE", **names: Any) -> Undecodable:
    return Undecodable(event_id=event_id, time_s=0, kind=kind, error=MalformedEvent("no JSON"), **names)


def test_an_undecodable_open_txn_is_ignored(replica: FakedReplica) -> None:
    replica.projection.apply([unreadable(1, kind="OPEN_TXN"), created(2), allocated(3, 1, 1)])
    assert replica.stored_position() == 3
    assert replica.stored_quarantine() == {}


@pytest.mark.parametrize("kind", ["CREATE_CATALOG", "COMMIT_COMPACTION_EVENT", "RELOAD"])
@pytest.mark.parametrize("table", ["orders", None])
def test_an_undecodable_event_of_a_kind_without_effect_is_ignored(
    replica: FakedReplica, kind: str, table: str | None
) -> None:
    torn = Undecodable(event_id=2, time_s=0, kind=kind, db="shop", table=table, error=MalformedEvent("torn"))
    replica.projection.apply([created(1), torn])
    assert replica.stored_quarantine() == {}


def test_an_undecodable_event_quarantines_its_table(replica: FakedReplica) -> None:
    replica.projection.apply(
        [created(1), unreadable(2, db="shop", table="orders"), unreadable(3, db="x", table="t")]
    )
    assert replica.stored_quarantine() == {"orders": "malformed-event"}


def waiting(replica: FakedReplica) -> list[str]:
    return [load.table for load in replica.context.tables.loads.waiting()]


NAMELESS: dict[str, dict[str, Any]] = {"without names": {}, "with the database": {"db": "shop"}}


def test_a_nameless_event_of_another_database_harms_nobody(replica: FakedReplica) -> None:
    """Such as one of a database that was dropped before the relay could look for its name."""
    replica.target.logged = {1: ("shop", "orders"), 2: ("dropped", "t")}
    replica.projection.apply([created(1), unreadable(2, kind="UNREADABLE"), created(3, "other")])
    assert (replica.stored_position(), waiting(replica), replica.stored_quarantine()) == (3, [], {})
    assert list(replica.target.tables) == ["orders", "other"]


@pytest.mark.parametrize("names", NAMELESS.values(), ids=NAMELESS)
@pytest.mark.parametrize("tables", [["orders"], ["a", "b", "orders"], ["a", "b", "c", "orders", "x"]])
def test_a_nameless_event_of_a_table_makes_it_load_and_no_other(
    replica: FakedReplica, tables: list[str], names: dict[str, Any]
) -> None:
    replica.projection.apply([created(number, name) for number, name in enumerate(tables, 1)])
    last = len(tables)
    replica.target.logged = {1: ("shop", tables[0]), last + 1: ("shop", "orders")}
    replica.projection.apply([unreadable(last + 1, kind="UNREADABLE", **names), created(last + 2, "later")])
    assert (replica.stored_position(), waiting(replica), replica.stored_quarantine()) == (
        last + 2,
        ["orders"],
        {},
    )


@pytest.mark.parametrize("names", NAMELESS.values(), ids=NAMELESS)
@pytest.mark.parametrize(
    "log",
    [{1: ("shop", "a"), 3: ("shop", "gone")}, {1: ("shop", "a"), 3: ("shop", None)}, {4: ("x", "y")}, {}],
)
def test_a_nameless_event_that_may_concern_any_table_makes_all_tables_load(
    replica: FakedReplica, log: dict[int, tuple[str, str | None]], names: dict[str, Any]
) -> None:
    """The event concerns a table that is gone, or the database; or the log was cleaned, so that nobody
    knows."""
    replica.target.logged = dict(log)
    replica.projection.apply([created(1, "a"), created(2, "b"), unreadable(3, kind="UNREADABLE", **names)])
    assert (replica.stored_position(), waiting(replica)) == (3, ["a", "b"])


def test_a_nameless_event_that_may_have_ended_a_transaction_makes_its_tables_load(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(1), created(2, "other"), allocated(3, 71, 1)])
    replica.target.logged = {1: ("shop", "orders"), 4: (None, None)}
    replica.projection.apply([unreadable(4, kind="UNREADABLE")])
    assert waiting(replica) == ["orders"]


def test_the_table_of_an_event_that_the_metastore_cannot_return_is_loaded(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), unreadable(2, kind="UNREADABLE", db="shop", table="orders")])
    assert (waiting(replica), replica.stored_quarantine()) == (["orders"], {})


def test_a_policy_that_stops_at_failures_stops_at_a_nameless_event_only_if_it_may_be_its_own(
    tmp_path: Path,
) -> None:
    replica = faked_replica(tmp_path, on_failure="fail")
    replica.target.logged = {1: ("shop", "orders"), 2: ("x", "t"), 3: ("shop", "orders")}
    with closing(replica.projection):
        replica.projection.apply([created(1), unreadable(2)])
        with pytest.raises(MalformedEvent):
            replica.projection.apply([unreadable(3)])
    assert (replica.stored_position(), waiting(replica)) == (2, [])


def test_a_drop_releases_a_quarantined_table_also_for_a_restart(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), unreadable(2, db="shop", table="orders"), dropped(3), created(4)])
    assert replica.stored_quarantine() == {}
    replica.projection.open()
    assert replica.projection.quarantined() == ()


def test_after_a_rename_a_restart_continues_behind_it(replica: FakedReplica) -> None:
    """By then the old name belongs to another table, which would be renamed instead."""
    events = [created(1), altered(2, new_name="archive"), created(3), allocated(4, 1, 1)]
    replica.target.fails("open_replayed", AmbiguousCall("sent, but no answer came"))
    apply_again_and_again(replica, events, AmbiguousCall, times=1)
    assert sorted(replica.target.tables) == ["archive", "orders"]
    assert replica.target.calls.count("alter_table") == 1
    assert replica.stored_quarantine() == {}


def test_a_quarantined_table_that_cannot_be_renamed_quarantines_both_names(replica: FakedReplica) -> None:
    """Otherwise a new table under the old name would be taken for it."""
    replica.projection.apply([created(1), unreadable(2, db="shop", table="orders")])
    replica.target.fails("alter_table", InvalidRequest("no"))
    replica.projection.apply([altered(3, new_name="archive"), created(4)])
    assert replica.stored_quarantine() == {"orders": "malformed-event", "archive": "invalid-request"}


def moved(event_id: int, before_db: str, after_db: str) -> Event:
    """Return the ALTER_TABLE of a table that is moved to another database; the event has the new database."""
    return replace(
        altered(event_id),
        db=after_db,
        before=embedded(a_table(db=before_db)),
        after=embedded(a_table(db=after_db)),
    )


def test_a_table_that_moves_to_another_database_is_dropped(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), moved(2, "shop", "attic")])
    assert replica.target.tables == {}
    assert replica.stored_quarantine() == {}


def test_a_table_that_moves_in_from_another_database_waits_until_it_is_loaded(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([moved(1, "attic", "shop"), allocated(2, 1, 1), committed(3)])
    assert [(load.table, load.reason) for load in replica.context.tables.loads.waiting()] == [
        ("orders", "in-scope")
    ]
    assert replica.target.calls == ["alter_database"], "the target says that the table waits"
    assert replica.stored_quarantine() == {}


def test_events_up_to_the_position_are_skipped(replica: FakedReplica) -> None:
    events = [created(1), allocated(2, 1, 1), *an_insert(replica)]
    replica.projection.apply(events)
    calls = len(replica.target.calls)
    assert replica.projection.apply(events).event_id == 3
    assert len(replica.target.calls) == calls
    assert replica.stored_position() == 3


def _apply_foreign(replica: FakedReplica, *, remembered: bool = False) -> None:
    """Apply events of catalog ``spark`` that would change, rename, break and drop the tables of the default
    catalog."""
    foreign: list[Event] = [
        altered(3, "orders", new_name="lines"),
        created(4, "more"),
        allocated(5, 2, 9),
        Undecodable(
            event_id=6, time_s=0, kind="ALTER_TABLE", db="shop", table="orders", error=MalformedEvent("bad")
        ),
        dropped(7),
        DatabaseDropped(event_id=8, time_s=0, kind="DROP_DATABASE", db="shop"),
    ]
    if remembered:
        replica.restart(target_at=8)
    replica.projection.apply([replace(event, catalog="spark") for event in foreign])


@pytest.mark.parametrize("remembered", [False, True], ids=["applied", "already on the target"])
def test_events_of_another_catalog_have_no_effect_on_a_table_of_the_same_name(
    replica: FakedReplica, *, remembered: bool
) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    replica.target.calls.clear()
    _apply_foreign(replica, remembered=remembered)
    assert replica.target.calls == []
    assert list(replica.target.tables) == ["orders"]
    assert replica.context.tables.write_ids.tables() == ("shop.orders",)
    assert replica.context.tables.quarantine.entries() == ()
    replica.projection.apply([committed(9)])
    assert [txn for txn, _ in replica.target.commits] == [1]


def test_an_alteration_in_another_catalog_does_not_supersede_one_of_the_replica(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(1)])
    plain, other = changed(2, a_table(), a_table(parameters={"transactional": "true", "a": "1"})), altered(3)
    replica.projection.apply([plain, replace(other, catalog="spark")])
    assert (replica.target.tables["orders"].parameters or {}).get("a") == "1"
