"""A replica becomes a database of its own: at one point, without open transactions, and without anything that
marks it as a replica."""

from __future__ import annotations

import pytest

from handlers.replication.loading.bootstrap import PROMOTED
from handlers.replication.operations.promotion import IncompleteTable, Promotion, find_promotion
from handlers.replication.projection import ReplicationProjection
from handlers.structs.objects import Database
from state.errors import (
    ConfigError,
    Fenced,
    IncompleteReplica,
    InvalidRequest,
    MetastoreUnavailable,
    StateCorrupt,
)
from tests.builders.replication.fake_target import FakedReplica, Killed, fake_context
from tests.builders.replication.replay_events import allocated, committed, created, written


def new_process(replica: FakedReplica) -> ReplicationProjection:
    """Return the projection of a process that has not opened the policy, as without a daemon."""
    old = replica.context
    replica.context = fake_context(
        replica.target, old.policy, files=old.files, allowed=old.copies.allowed, clock=replica.clock
    )
    replica.projection = type(replica.projection)(
        source_name="lake", context=replica.context, store=replica.store, clock=replica.clock
    )
    return replica.projection


def write_some(replica: FakedReplica) -> None:
    """Replay a committed transaction, and another one that stays open."""
    file = replica.file()
    replica.projection.apply(
        [
            created(1),
            allocated(2, 1, 1),
            written(3, file, part=0, parts=2),
            committed(3, part=1, parts=2),
            allocated(4, 2, 2),
        ]
    )
    replica.projection.settle()


def test_the_point_names_event_time_and_write_ids(replica: FakedReplica) -> None:
    write_some(replica)
    planned = replica.projection.plan_promotion()
    assert (planned.policy, planned.database, planned.event_id) == ("shop", "shop_r", 4)
    assert planned.time_s is not None
    assert planned.write_ids == {"orders": 2}
    assert planned.open_writes == {"orders": (2,)}
    assert planned.aborted == 1
    assert replica.target.open_txns == [2], "a plan changes nothing"
    assert "repl.last.id" in replica.parameters
    assert find_promotion(replica.store) is None


def test_a_promoted_database_has_no_open_transaction_and_no_mark_of_a_replica(replica: FakedReplica) -> None:
    write_some(replica)
    replica.parameters["owner.team"] = "sales"
    replica.parameters["repl.source.for"] = "another"
    replica.parameters["hive.repl.first.inc.pending"] = "true"
    done = replica.projection.promote(forced=False)
    assert done.aborted == 1
    assert replica.target.open_txns == []
    assert replica.parameters == {
        "owner.team": "sales",
        "repl.source.for": "another",
        PROMOTED: "shop:4",
    }
    assert {"repl.last.id", "tideline.epoch", "hive.repl.first.inc.pending"} <= set(done.removed)


def test_files_under_an_open_write_id_are_removed_before_its_abort_also_those_of_a_killed_process(
    replica: FakedReplica,
) -> None:
    write_some(replica)
    kept = replica.files_on_target()
    assert kept
    of_write = ("delta_0000002_0000002_0000", "delete_delta_0000002_0000002_0000", "base_0000002")
    for name in (*of_write, "base_0000002_v0000003"):
        early = replica.target.warehouse / "orders" / name / "bucket_00000_0"
        early.parent.mkdir(parents=True)
        early.write_bytes(b"copied early")
    for name in ("delta_0000001_0000001_v0000009", "base_0000001_v0000009"):
        compacted = replica.target.warehouse / "orders" / name / "bucket_00000"
        compacted.parent.mkdir(parents=True)
        compacted.write_bytes(b"visible")
        kept.append(f"orders/{name}/bucket_00000")
    replica.projection.promote(forced=False)
    assert replica.files_on_target() == sorted(kept)


def test_statistics_of_rows_that_will_not_arrive_are_no_longer_accurate(replica: FakedReplica) -> None:
    write_some(replica)
    table = replica.target.tables["orders"]
    table.writeId = 2
    table.parameters = {**(table.parameters or {}), "COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true"}'}
    replica.projection.promote(forced=False)
    assert "COLUMN_STATS_ACCURATE" not in (replica.target.tables["orders"].parameters or {})


def test_a_promoted_policy_is_not_followed_any_more(replica: FakedReplica) -> None:
    write_some(replica)
    replica.projection.promote(forced=False)
    with pytest.raises(ConfigError, match="promoted"):
        replica.restart()
    with pytest.raises(ConfigError, match="promoted"):
        replica.projection.require_active()


def test_incomplete_tables_are_refused_and_named_unless_forced(replica: FakedReplica) -> None:
    replica.target.fails("create_table", InvalidRequest("no"))
    replica.projection.apply([created(1)])
    replica.projection.loads.request(["visits"], "repair")
    with pytest.raises(IncompleteReplica) as refused:
        replica.projection.promote(forced=False)
    assert refused.value.context["count"] == 2
    assert "orders: quarantined at event 1" in str(refused.value)
    assert "visits: waits for its load" in str(refused.value)
    assert find_promotion(replica.store) is None
    assert "tideline.epoch" in replica.parameters
    done = replica.projection.promote(forced=True)
    assert [each.table for each in done.incomplete] == ["orders", "visits"]
    assert replica.parameters == {PROMOTED: "shop:1"}


def test_a_database_that_hive_marked_as_incompatible_is_promoted_by_force_only(replica: FakedReplica) -> None:
    write_some(replica)
    replica.parameters["repl.incompatible"] = "true"
    with pytest.raises(IncompleteReplica):
        replica.projection.promote(forced=False)
    done = replica.projection.promote(forced=True)
    assert done.incomplete == (
        IncompleteTable("*", "a replayed transaction was ended outside of replication"),
    )
    assert "repl.incompatible" not in replica.parameters


def test_a_policy_is_promoted_without_its_source_by_a_process_that_never_opened_it(
    replica: FakedReplica,
) -> None:
    write_some(replica)
    replica.target.fails("metastore_uuid", MetastoreUnavailable("the source is lost"), times=9)
    done = new_process(replica).promote(forced=False)
    assert (done.event_id, done.aborted) == (4, 1)
    assert replica.target.open_txns == []
    assert replica.parameters == {PROMOTED: "shop:4"}


def test_the_point_of_a_killed_process_is_that_of_the_target(replica: FakedReplica) -> None:
    write_some(replica)
    replica.parameters["repl.last.id"] = "7"
    assert new_process(replica).promote(forced=False).event_id == 7


def test_a_database_that_another_instance_holds_is_not_promoted(replica: FakedReplica) -> None:
    write_some(replica)
    replica.parameters["tideline.epoch"] = "99-other"
    with pytest.raises(Fenced):
        new_process(replica).promote(forced=True)
    assert "tideline.epoch" in replica.parameters


def test_an_old_instance_is_fenced_by_a_promotion(replica: FakedReplica) -> None:
    write_some(replica)
    old = replica.projection
    new_process(replica).promote(forced=False)
    with pytest.raises(Fenced):
        old.apply([created(5, "late")])


def test_a_state_without_a_position_is_not_promoted(replica: FakedReplica) -> None:
    replica.store = type(replica.store)()
    with pytest.raises(ConfigError, match="has no position of this policy"):
        new_process(replica).promote(forced=True)


def test_the_stored_promotion_reads_back_and_garbage_is_refused() -> None:
    promotion = Promotion(
        "shop", "shop_r", 4, None, {"t": 2}, {"t": [2]}, 1, [IncompleteTable("x", "why")], [], ["a"], None
    )
    assert Promotion.from_bytes(promotion.to_bytes()) == promotion
    with pytest.raises(StateCorrupt):
        Promotion.from_bytes(b"{}")


@pytest.mark.parametrize("step", range(1, 12))
@pytest.mark.parametrize("after", [False, True])
def test_a_promotion_that_was_killed_at_any_step_is_completed_by_a_repetition(
    replica: FakedReplica, step: int, after: bool
) -> None:
    write_some(replica)
    replica.target.databases["shop"] = Database(name="shop", parameters={"repl.source.for": "shop"})
    replica.target.killed_at((step, after))
    try:
        replica.projection.promote(forced=False)
    except Killed:
        replica.target.killed_at(None)
        new_process(replica).promote(forced=False)
    else:
        replica.target.killed_at(None)
    assert replica.target.open_txns == []
    assert replica.parameters == {PROMOTED: "shop:4"}
    assert "repl.source.for" not in (replica.target.databases["shop"].parameters or {})
    found = find_promotion(replica.store)
    assert found is not None
    assert (found.event_id, found.write_ids) == (4, {"orders": 2})
