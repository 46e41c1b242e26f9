"""Compactions at the source that give rows new ids: ``ALTER TABLE … COMPACT 'REBALANCE'``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from handlers.events import CompactionCommitted
from handlers.replication.policy.metadata_only import select_metadata
from handlers.replication.policy.policy import Policy
from tests.builders.replication.fake_target import FakedReplica
from tests.builders.replication.replay_events import allocated, committed, created, dropped, written


def compacted(event_id: int, kind: str | None = "REBALANCE", table: str = "orders") -> CompactionCommitted:
    return CompactionCommitted(
        event_id=event_id,
        time_s=0,
        kind="COMMIT_COMPACTION_EVENT",
        db="shop",
        table=table,
        txn_id=9,
        compaction_type=kind,
    )


def waiting(replica: FakedReplica) -> list[str]:
    return [load.table for load in replica.context.tables.loads.waiting()]


def test_a_rebalanced_table_is_loaded_again_while_the_others_are_followed(replica: FakedReplica) -> None:
    replica.projection.apply(
        [created(1), created(2, "other"), compacted(3), allocated(4, 1, 1), allocated(5, 2, 1, "other")]
    )
    assert waiting(replica) == ["orders"]
    assert replica.target.allocations == [(2, 1, False)]
    assert replica.stored_quarantine() == {}
    assert replica.stored_position() == 5


def test_files_that_were_copied_for_a_later_commit_are_discarded(replica: FakedReplica) -> None:
    events = [created(1), allocated(2, 1, 1), compacted(3)]
    write = written(4, replica.file(write_id=1), txn_id=1, write_id=1, parts=2)
    replica.projection.apply([*events, write, committed(4, 1, part=1, parts=2)])
    assert waiting(replica) == ["orders"]
    assert replica.files_on_target() == []


@pytest.mark.parametrize("kind", ["MINOR", "MAJOR", None])
def test_other_compactions_have_no_effect(replica: FakedReplica, kind: str | None) -> None:
    replica.projection.apply([created(1), compacted(2, kind)])
    assert waiting(replica) == []


def test_a_table_outside_of_the_policy_is_not_loaded(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), replace(compacted(2), db="elsewhere")])
    assert waiting(replica) == []


def test_a_rebalanced_table_that_is_dropped_later_is_not_loaded(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), compacted(2), dropped(3)])
    assert waiting(replica) == []
    assert "orders" not in replica.target.tables


def test_a_load_that_contains_the_compaction_is_not_repeated(replica: FakedReplica) -> None:
    replica.projection.loads.request(["orders"], "repair")
    replica.projection.apply([created(1), compacted(2)])
    replica.context.tables.loads.finish("orders", 5, 1)
    replica.projection.apply([compacted(3), compacted(5)])
    assert waiting(replica) == []
    replica.projection.apply([compacted(6)])
    assert waiting(replica) == ["orders"]


def test_a_table_whose_rows_are_not_replicated_is_not_loaded() -> None:
    policy = Policy("shop", "shop", "shop_r", metadata_only=("orders",))
    assert select_metadata(compacted(1), policy) is None
