"""Restarts: events that the target already has, a lost state file, and which events need the position around
them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from handlers.events import DatabaseAltered, Event, PartitionsAltered, TxnCommitted, Undecodable
from handlers.replication.opening import STATE_LOST
from handlers.replication.policy.renames import needs_checkpoint
from handlers.replication.projection import ReplicationProjection
from handlers.structs.objects import Database, Partition, StorageDescriptor
from state.errors import ConfigError, MalformedEvent, TargetDiverged
from state.event_log.positions import POSITION_KEY, Position
from state.store.memory import MemoryStore
from state.transactions.write_id_mapping import WriteIdMapping
from tests.builders.replication.fake_target import FakedReplica, a_dispatcher
from tests.builders.replication.recording_metastore import RecordingMetastore
from tests.builders.replication.replay_events import (
    a_table,
    allocated,
    altered,
    committed,
    created,
    dropped,
    embedded,
    partitions_added,
)


def target_at(replica: FakedReplica, event_id: int) -> None:
    """Set the target's own position and restart, as after a kill before the position was recorded."""
    replica.restart(target_at=event_id)


def allocated_tables(replica: FakedReplica, txn_id: int) -> list[str]:
    txn = replica.context.tables.write_ids.get(txn_id)
    return [] if txn is None else [allocation.table for allocation in txn.allocations]


def moved_away(event_id: int) -> Event:
    return replace(
        altered(event_id), db="attic", before=embedded(a_table()), after=embedded(a_table(db="attic"))
    )


def test_events_that_the_target_has_are_recorded_and_not_applied(replica: FakedReplica) -> None:
    target_at(replica, 4)
    replica.projection.apply([created(1), allocated(2, 7, 1), altered(3, new_name="archive"), committed(4)])
    assert replica.target.calls == []
    assert allocated_tables(replica, 7) == ["shop.archive"]
    assert replica.stored_position() == 4


@pytest.mark.parametrize("end", [dropped(3), moved_away(3)], ids=["dropped", "moved away"])
def test_a_table_that_ended_before_the_targets_position_has_no_allocations(
    replica: FakedReplica, end: Event
) -> None:
    target_at(replica, 3)
    replica.projection.apply([allocated(1, 7, 1), allocated(2, 7, 1, "other"), end])
    assert allocated_tables(replica, 7) == ["shop.other"]


def test_a_transaction_that_ended_before_the_targets_position_is_forgotten(replica: FakedReplica) -> None:
    target_at(replica, 2)
    replica.projection.apply([allocated(1, 7, 1), committed(2, txn_id=7)])
    assert allocated_tables(replica, 7) == []


def without_state(replica: FakedReplica, store: MemoryStore, **options: Any) -> ReplicationProjection:
    """Return a projection on the same target whose state file is ``store``."""
    source: Any = RecordingMetastore(
        {"newest_txn_id": 7, "current_event_id": 5, "function_names": [], "table_names": []}
    )
    context = replace(
        replica.context, source=source, tables=replace(replica.context.tables, write_ids=WriteIdMapping())
    )
    return ReplicationProjection(source_name="lake", context=context, store=store, **options)


def test_without_state_the_end_of_every_transaction_that_may_be_open_is_replayed(
    replica: FakedReplica,
) -> None:
    store = MemoryStore()
    target_at(replica, 5)
    with capture_logs() as logs:
        assert without_state(replica, store).open() == Position(5)
    assert (STATE_LOST, 5) in [(each["event"], each["event_id"]) for each in logs]
    again = without_state(replica, store)
    assert again.open() == Position(5)
    again.apply([committed(6, txn_id=7), committed(7, txn_id=8)])
    assert [txn for txn, _ in replica.target.commits] == [7]


def test_a_restart_does_not_trust_cached_tables(replica: FakedReplica) -> None:
    replica.projection.apply([created(1)])
    assert replica.context.table_cache.location("orders").endswith("/orders")
    replica.target.tables["orders"].sd.location = "file:/elsewhere"
    replica.projection.open()
    assert replica.context.table_cache.location("orders") == "file:/elsewhere"


def test_a_policy_that_was_never_bootstrapped_is_refused(replica: FakedReplica) -> None:
    with pytest.raises(ConfigError, match="never bootstrapped"):
        without_state(replica, MemoryStore()).open()


def test_whether_a_policy_needs_a_bootstrap_is_known_before_it_is_opened(replica: FakedReplica) -> None:
    def needs_bootstrap(store: MemoryStore, *, bootstraps_itself: bool = True) -> bool:
        return without_state(replica, store, bootstraps_itself=bootstraps_itself).needs_bootstrap()

    target_at(replica, 5)
    assert not needs_bootstrap(MemoryStore()), "the target has its position"
    replica.parameters.clear()
    replica.context.target_position.forget_claim()
    replica.target.calls.clear()
    new = MemoryStore()
    assert needs_bootstrap(new)
    assert not needs_bootstrap(new, bootstraps_itself=False)
    assert new.get(POSITION_KEY) is None
    assert replica.target.calls == []


def test_an_undecodable_event_of_another_database_is_out_of_scope(replica: FakedReplica) -> None:
    bad = Undecodable(event_id=1, time_s=0, kind="DROP_DATABASE", db="attic", error=MalformedEvent("broken"))
    replica.projection.apply([created(1), replace(bad, event_id=2)])
    assert replica.context.tables.loads.waiting() == ()
    replica.projection.apply([replace(bad, event_id=3, db="shop")])
    assert [load.table for load in replica.context.tables.loads.waiting()] == ["orders"]


def a_partition(value: str) -> Any:
    return embedded(
        Partition(values=[value], dbName="shop", tableName="orders", sd=StorageDescriptor(location="file:/p"))
    )


def altered_partition(before: str | None, after: str, **fields: Any) -> PartitionsAltered:
    return PartitionsAltered(
        event_id=1,
        time_s=0,
        kind="ALTER_PARTITION",
        db="shop",
        table="orders",
        owner=None,
        after=(a_partition(after),),
        before=None if before is None else a_partition(before),
        **fields,
    )


@pytest.mark.parametrize(
    ("event", "needed"),
    [
        (created(1), True),
        (dropped(1), True),
        (altered(1), False),
        (altered(1, new_name="archive"), True),
        (altered_partition("1", "2"), True),
        (altered_partition("1", "1"), False),
        (altered_partition(None, "1"), False),
        (altered_partition("1", "2", truncate=True), False),
        (partitions_added(1), False),
        (allocated(1, 1, 1), False),
        (
            DatabaseAltered(
                event_id=1,
                time_s=0,
                kind="ALTER_DATABASE",
                db="shop",
                before=embedded(Database(name="shop")),
                after=embedded(Database(name="shop")),
            ),
            False,
        ),
    ],
)
def test_the_position_is_recorded_around_events_that_change_names(event: Event, *, needed: bool) -> None:
    assert needs_checkpoint(event) is needed


def test_an_aborted_write_id_on_the_target_disproves_a_commit(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), allocated(2, 7, 1)])
    target: Any = RecordingMetastore(
        {
            "valid_write_ids": lambda _tables: [
                replace(replica.target.valid_write_ids(["shop_r.orders"])[0], open=(), aborted=(1,))
            ]
        }
    )
    replay = a_dispatcher(replace(replica.context, target=target, source=target)).transactions
    event: TxnCommitted = committed(3, txn_id=7)
    with pytest.raises(TargetDiverged, match="did not commit"):
        replay.commit(event)
