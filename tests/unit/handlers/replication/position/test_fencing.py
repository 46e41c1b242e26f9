"""Fencing: of two instances only the one that claimed the target last writes to it, wherever the other one
was stopped."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.events import DatabaseAltered, DatabaseCreated, DatabaseDropped
from handlers.replication.effects import effect_table
from handlers.replication.policy.policy import Policy
from handlers.replication.position import progress
from handlers.replication.position.progress import TARGET_LAG_S
from handlers.replication.position.target_claim import BASE_KEY, CLAIM_KEY
from handlers.replication.projection import CHECK_AT_REST_S, ReplicationProjection
from handlers.replication.target.fencing import EPOCH, INSTANCE, SOURCE, Claim, epoch_number, next_epoch
from handlers.replication.target.target_position import FRESH_S, LAST_ID, TargetPosition
from handlers.replication.transactions import transaction_replay as transactions
from handlers.replication.transactions.copies import transaction_files
from handlers.structs.objects import Database
from state.errors import (
    AmbiguousCall,
    ConfigError,
    Fenced,
    Interrupted,
    StateCorrupt,
    TargetDiverged,
    Unsupported,
)
from state.event_log.positions import POSITION_KEY, Position
from state.store.memory import MemoryStore
from tests.builders.daemon.loops import eventually
from tests.builders.replication.fake_target import Clock, FakedReplica, FakeTarget, fake_context
from tests.builders.replication.replay_events import aborted, allocated, committed, created, embedded, written


def second_instance(replica: FakedReplica, *, position: int = 0) -> ReplicationProjection:
    """Open the policy in another process with a state of its own; it takes the target over."""
    store = MemoryStore()
    with store.transaction() as txn:
        txn.put(POSITION_KEY, Position(position).to_bytes())
    context = fake_context(
        replica.target,
        replica.context.policy,
        files=replica.context.files,
        allowed=replica.context.copies.allowed,
        clock=replica.clock,
    )
    made = ReplicationProjection(source_name="lake", context=context, store=store)
    made.open()
    replica.target.calls.clear()
    return made


def test_an_instance_that_was_replaced_stops_before_it_writes_anything(replica: FakedReplica) -> None:
    replica.projection.apply([created(1)])
    second_instance(replica, position=1)
    before = dict(replica.parameters)
    for _ in range(2):
        with pytest.raises(Fenced, match=r"another instance took over.*pid \d+, since 2"):
            replica.projection.apply([created(2, "other")])
        with pytest.raises(Fenced):
            replica.projection.open()
    assert replica.target.calls == []
    assert replica.parameters == before
    assert replica.stored_position() == 1


STOPPED_AT = {
    "replay.before-effect": effect_table,
    "replay.before-open": transactions,
    "replay.after-open": transactions,
    "replay.before-copies": transaction_files,
    "replay.after-copies": transaction_files,
    "replay.before-end-record": transactions,
    "replay.after-end-record": transactions,
    "replay.before-last-id": progress,
    "replay.after-last-id": progress,
    "replay.before-commit": transactions,
    "replay.before-abort": transactions,
}


@pytest.mark.parametrize("stopped_at", STOPPED_AT)
def test_an_instance_that_is_replaced_while_it_is_stopped_within_a_batch_writes_nothing_after_it(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch, stopped_at: str
) -> None:
    file = replica.file()
    seen: dict[str, Any] = {}

    def stop(name: str) -> None:
        if name == stopped_at and not seen:
            # A copy that has passed its check may appear after it: no check and write are one step.
            eventually(lambda: replica.context.copies.pending() == (0, 0))
            second_instance(replica)
            replica.clock.now_s += 2 * FRESH_S
            seen.update(parameters=dict(replica.parameters), files=replica.files_on_target())

    monkeypatch.setattr(STOPPED_AT[stopped_at], "failpoint", stop)
    replica.clock.now_s += TARGET_LAG_S
    events = [
        created(1),
        allocated(2, 1, 1),
        written(3, file, part=0, parts=2),
        committed(3, part=1, parts=2),
        allocated(4, 2, 2),
        aborted(5, 2),
    ]
    with pytest.raises(Fenced):
        replica.projection.apply(events)
    assert replica.target.calls == []
    assert replica.parameters == seen["parameters"]
    assert replica.files_on_target() == seen["files"]
    assert replica.stored_quarantine() == {}, "no table is at fault"


def test_a_fenced_process_takes_the_target_back_only_on_an_operators_request(replica: FakedReplica) -> None:
    replica.projection.apply([created(1)])
    other = second_instance(replica, position=1)
    held = replica.parameters[EPOCH]
    for _ in range(2):
        with pytest.raises(Fenced):
            replica.projection.open()
    assert replica.parameters[EPOCH] == held, "two instances would take it from each other for ever"
    replica.projection.forget_claim()
    assert replica.projection.open().event_id == 1
    assert replica.parameters[EPOCH] != held
    replica.projection.apply([created(2, "more")])
    with pytest.raises(Fenced):
        other.apply([created(2, "other")])
    assert list(replica.target.tables) == ["orders", "more"]


def write_between(replica: FakedReplica, claim: Callable[[], object]) -> None:
    """Let the replaced instance raise its position while CLAIM writes, after it has made its checks."""
    wrote = FakeTarget.alter_database

    def alter_database(name: str, database: Database) -> None:
        del replica.target.alter_database
        claim()
        wrote(replica.target, name, database)

    replica.target.alter_database = alter_database  # type: ignore[method-assign]
    replica.context.target_position.advance(1, {})


def test_the_newer_instance_claims_again_what_the_replaced_one_wrote_over(replica: FakedReplica) -> None:
    replica.projection.apply([created(1)])
    newer: list[ReplicationProjection] = []
    write_between(replica, lambda: newer.append(second_instance(replica, position=1)))
    overwritten = replica.parameters[EPOCH]
    assert replica.parameters[LAST_ID] == "1"
    for _ in range(2):
        with pytest.raises(Interrupted, match="over the claim of this one"):
            newer[0].apply([created(2, "refused")])
    assert newer[0].open().event_id == 1
    assert epoch_number(replica.parameters[EPOCH]) == epoch_number(overwritten) + 2
    newer[0].apply([created(2, "other")])
    for _ in range(2):
        with pytest.raises(Fenced):
            replica.projection.apply([created(2, "refused")])
        with pytest.raises(Fenced):
            replica.projection.open()
    assert list(replica.target.tables) == ["orders", "other"]


def test_an_instance_whose_claim_was_written_over_is_fenced_by_a_third_one(replica: FakedReplica) -> None:
    replica.projection.apply([created(1)])
    newer: list[ReplicationProjection] = []
    write_between(replica, lambda: newer.append(second_instance(replica)))
    second_instance(replica, position=1)
    for _ in range(2):
        with pytest.raises(Fenced):
            newer[0].open()


def test_a_process_claims_the_target_once_and_a_new_process_takes_it_back(replica: FakedReplica) -> None:
    first = replica.parameters[EPOCH]
    replica.projection.open()
    assert replica.parameters[EPOCH] == first, "reopened after an error"
    other = second_instance(replica)
    replica.restart()
    assert epoch_number(replica.parameters[EPOCH]) == epoch_number(first) + 2
    with pytest.raises(Fenced):
        other.apply([created(1)])
    replica.projection.apply([created(1)])
    assert list(replica.target.tables) == ["orders"]


def test_the_epoch_is_in_the_state_before_it_is_on_the_target(replica: FakedReplica) -> None:
    """Otherwise a process killed in between would find an epoch on the target that it does not know."""
    seen = []

    def alter_database(name: str, database: Database) -> None:
        assert name == "shop_r"
        stored = replica.store.get(CLAIM_KEY)
        assert stored is not None
        seen.append((Claim.from_bytes(stored).epoch, (database.parameters or {})[EPOCH]))
        raise AmbiguousCall("sent, but no answer came")

    replica.target.alter_database = alter_database  # type: ignore[method-assign]
    with pytest.raises(AmbiguousCall):
        replica.restart()
    assert [a for a, _ in seen] == [b for _, b in seen] == [seen[0][0]]
    del replica.target.alter_database
    replica.restart()
    assert epoch_number(replica.parameters[EPOCH]) == epoch_number(seen[0][0]) + 1


Change = dict[str, str | None]
ODD: list[tuple[Change, str]] = [
    ({"repl.incompatible": "true"}, "ended outside of replication"),
    ({LAST_ID: "1"}, "older than the replica's last write"),
    ({LAST_ID: None}, "older than the replica's last write"),
    ({LAST_ID: "900"}, "another client raised"),
    ({SOURCE: "shop of metastore other"}, "replica of another source"),
]


@pytest.mark.parametrize(("change", "message"), ODD, ids=[message for _, message in ODD])
def test_a_target_changed_by_others_is_noticed_before_the_next_batch(
    replica: FakedReplica, change: Change, message: str
) -> None:
    replica.projection.apply([created(1), created(2, "other")])
    replica.projection.settle()
    for key, value in change.items():
        if value is None:
            del replica.parameters[key]
        else:
            replica.parameters[key] = value
    before = dict(replica.parameters)
    replica.target.calls.clear()
    with pytest.raises(TargetDiverged, match=message) as stopped:
        replica.projection.apply([created(3, "third")])
    assert stopped.value.hint
    assert (replica.target.calls, replica.parameters) == ([], before)


def test_a_target_database_that_vanished_stops_the_policy(replica: FakedReplica) -> None:
    replica.projection.apply([created(1)])
    replica.projection.settle()
    replica.target.databases.clear()
    with pytest.raises(TargetDiverged, match="is gone"):
        replica.projection.apply([created(2, "other")])
    assert "create_table" not in replica.target.calls[1:]


def test_a_target_that_others_changed_or_dropped_is_reported_although_nothing_is_to_be_applied(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(1)])
    replica.projection.settle()
    kept = dict(replica.target.databases)
    replica.target.databases.clear()
    replica.projection.settle()
    replica.clock.now_s += CHECK_AT_REST_S
    with pytest.raises(TargetDiverged, match="is gone"):
        replica.projection.settle()
    replica.target.databases.update(kept)
    second_instance(replica, position=1)
    with pytest.raises(Fenced, match="another instance took over"):
        replica.projection.settle()


def with_target(replica: FakedReplica, database: str) -> ReplicationProjection:
    """Configure another target database for the policy, and start it again."""
    policy = replace(replica.context.policy, target_db=database)
    replica.context = replace(replica.context, policy=policy)
    return replica.restart()


def test_a_state_is_never_used_for_another_target_database(replica: FakedReplica) -> None:
    replica.projection.apply([created(1)])
    replica.projection.settle()
    before = dict(replica.parameters)
    with pytest.raises(ConfigError, match=r"target_database.*shop_x.*shop_r.*Restore the setting"):
        with_target(replica, "shop_x")
    with pytest.raises(ConfigError, match="another target database"):
        replica.projection.plan_promotion()
    assert replica.parameters == before
    with_target(replica, "shop_r").apply([created(2, "other")])


def with_base(replica: FakedReplica, base: str | None) -> ReplicationProjection:
    """Configure another place for the policy's external tables, and start it again."""
    policy = replace(replica.context.policy, external_base=base)
    replica.context = replace(replica.context, policy=policy)
    return replica.restart()


def test_external_tables_are_never_followed_in_another_place(replica: FakedReplica) -> None:
    with replica.store.transaction() as txn:
        txn.delete(BASE_KEY)  # as in the state of an earlier build
    with_base(replica, "file:/replica/")
    for changed in ("file:/elsewhere", None):
        with pytest.raises(ConfigError, match=r"external_base.*file:/replica.*Restore the setting"):
            with_base(replica, changed)
    with_base(replica, "file:///replica").apply([created(1)])


def test_a_base_that_is_added_later_is_refused_with_the_way_back(replica: FakedReplica) -> None:
    with pytest.raises(ConfigError, match=r"without a base for external tables.*Remove the setting"):
        with_base(replica, "file:/replica")
    with_base(replica, None).apply([created(1)])


def test_the_error_for_a_target_with_an_older_epoch_names_the_epochs(replica: FakedReplica) -> None:
    replica.projection.apply([created(1)])
    replica.projection.settle()
    expected = replica.parameters[EPOCH]
    replica.parameters[EPOCH] = "0-old"
    with pytest.raises(TargetDiverged, match=r"key=tideline.epoch, value=0-old") as stopped:
        replica.restart()
    replica.parameters[EPOCH] = str(stopped.value.context["expected"])
    assert replica.parameters[EPOCH] == expected
    replica.restart()


def test_a_database_that_a_killed_run_dropped_is_dropped_again_without_complaint(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(1)])
    replica.projection.settle()
    replica.projection.apply([created(2, "other")])
    replica.target.databases.clear()
    replica.target.drop_database = lambda *_, **__: None  # type: ignore[attr-defined]
    replica.restart()
    gone = DatabaseDropped(event_id=3, time_s=0, kind="DROP_DATABASE", db="shop")
    back = DatabaseCreated(
        event_id=4, time_s=0, kind="CREATE_DATABASE", db="shop", database=embedded(Database(name="shop"))
    )
    replica.projection.apply([gone, back, created(5)])
    replica.projection.settle()
    assert replica.parameters[LAST_ID] == "5"
    assert replica.parameters[EPOCH], "the new database is held at once"


@pytest.mark.parametrize("restored", [{LAST_ID: "1"}, {EPOCH: "0-older"}], ids=["position", "epoch"])
def test_a_target_restored_from_an_older_backup_is_refused_at_the_start(
    replica: FakedReplica, restored: dict[str, str]
) -> None:
    replica.projection.apply([created(1), created(2, "other")])
    replica.projection.settle()
    replica.projection.apply([created(3, "third")])
    replica.parameters.update(restored)
    before = dict(replica.parameters)
    with pytest.raises(TargetDiverged, match="restored from a backup"):
        replica.restart()
    assert replica.parameters == before


def test_a_target_of_another_source_is_refused_at_the_start(replica: FakedReplica) -> None:
    replica.parameters[SOURCE] = "shop of metastore other"
    with pytest.raises(TargetDiverged, match="another source"):
        replica.restart()


def test_a_source_without_an_identity_is_known_by_its_configured_name(replica: FakedReplica) -> None:
    def metastore_uuid() -> str:
        raise Unsupported("Hive 2.3 has no such call")

    replica.target.metastore_uuid = metastore_uuid  # type: ignore[method-assign]
    del replica.parameters[SOURCE]
    replica.restart()
    assert replica.parameters[SOURCE] == "shop of source lake"


def test_a_position_whose_write_was_not_answered_is_not_foreign(replica: FakedReplica) -> None:
    unanswered = replica.target.alter_database

    def alter_database(name: str, database: Database) -> None:
        unanswered(name, database)
        replica.target.alter_database = unanswered  # type: ignore[method-assign]
        raise AmbiguousCall("sent, but no answer came")

    replica.target.alter_database = alter_database  # type: ignore[method-assign]
    with pytest.raises(AmbiguousCall):
        replica.projection.apply([created(1), allocated(2, 1, 1)])
    replica.projection.open()
    replica.projection.apply([committed(3)])
    assert [txn for txn, _ in replica.target.commits] == [1]


def test_an_altered_database_keeps_its_epoch(replica: FakedReplica) -> None:
    epoch = replica.parameters[EPOCH]
    after = Database(name="shop", parameters={"team": "b", EPOCH: "the source is a replica itself"})
    event = DatabaseAltered(
        event_id=1,
        time_s=0,
        kind="ALTER_DATABASE",
        db="shop",
        before=embedded(Database(name="shop")),
        after=embedded(after),
    )
    replica.projection.apply([event])
    assert replica.parameters["team"] == "b"
    assert replica.parameters[EPOCH] == epoch


@pytest.mark.parametrize("value", [b"{", b'{"number":1}', b"[]"])
def test_a_claim_that_cannot_be_read_is_corrupt_state(value: bytes) -> None:
    with pytest.raises(StateCorrupt):
        Claim.from_bytes(value)


@given(
    st.lists(
        st.one_of(st.none(), st.text(max_size=5), st.builds("{}-x".format, st.integers(0, 99))), max_size=3
    )
)
def test_an_epoch_is_above_all_known_ones(known: list[str | None]) -> None:
    made = next_epoch(*known)
    assert all(epoch_number(made) > epoch_number(other) for other in known)
    assert made not in known


Operation = tuple[int, str, int]
OPERATIONS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["claim", "advance", "check", "pause"]), st.integers(0, 30)),
    max_size=20,
)


@given(OPERATIONS)
def test_only_the_last_claimant_raises_the_position_and_nothing_lowers_it(
    operations: list[Operation],
) -> None:
    target, clock = FakeTarget(Path("/nonexistent")), Clock()
    target.databases["shop_r"] = Database(name="shop_r", parameters={LAST_ID: "5"})
    policy = Policy(name="shop", source_db="shop", target_db="shop_r")
    client: Any = target
    instances = [TargetPosition(client, policy, clock=clock) for _ in range(3)]
    holder: int | None = None
    highest = 5
    for number, name, event_id in operations:
        instance = instances[number]
        run = partial(instance.advance, event_id, {}) if name == "advance" else instance.check
        if name == "claim":
            instance.forget_claim()
            instance.claim(
                {EPOCH: next_epoch((instance.find_parameters() or {}).get(EPOCH)), INSTANCE: "", SOURCE: ""},
                None,
                {},
            )
            holder = number
        elif name == "pause":
            clock.now_s += 60
        elif holder == number:
            run()
            highest = max(highest, event_id) if name == "advance" else highest
        elif instance.stamp:
            with pytest.raises(Fenced):
                run()
        assert (target.databases["shop_r"].parameters or {})[LAST_ID] == str(highest)


def test_a_fenced_copy_does_not_appear_on_the_target(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    second_instance(replica, position=2)
    replica.clock.now_s += 2 * FRESH_S
    with closing(replica.context.copies):
        replica.projection._transactions.files.start_copies(written(3, replica.file()))
        with pytest.raises(Fenced):
            replica.projection._transactions.files.wait_for_copies(committed(3))
    assert replica.files_on_target() == []
