"""Transactions that ended at the source without an event, and alterations that a restart must not show
again."""

from __future__ import annotations

import time
from typing import Any

import pytest

from handlers.events import Inserted
from handlers.replication.effects import effect_table
from handlers.replication.policy.renames import are_undone, find_alterations
from handlers.replication.transactions.reconciliation import RECONCILE_S
from handlers.structs.objects import Table
from handlers.structs.transactions import GetOpenTxnsInfoResponse, TxnInfo, TxnState
from state.store.memory import MemoryStore
from tests.builders.replication.fake_target import FakedReplica, Killed
from tests.builders.replication.replay_events import (
    a_table,
    allocated,
    changed,
    committed,
    created,
    dropped,
    partitions_added,
    statistics,
)


class Source:
    """What the source's metastore answers."""

    def __init__(self, replica: FakedReplica, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open: list[int] = []
        self.aborted: list[int] = []
        self.newest = 0
        self.seen: list[tuple[str, float]] = []
        target, observer = replica.target, type(replica.context.observer)
        monkeypatch.setattr(target, "open_txns_info", self.open_txns_info)
        monkeypatch.setattr(target, "current_event_id", lambda: self.newest)
        monkeypatch.setattr(
            observer, "transaction_reconciled", lambda _, txn: self.seen.append(("ended", txn))
        )
        monkeypatch.setattr(observer, "transactions_open", lambda _, *n: self.seen.append(("open", n[0])))

    def open_txns_info(self) -> GetOpenTxnsInfoResponse:
        def info(txn_id: int, state: TxnState) -> TxnInfo:
            started_ms = int((time.time() - 600) * 1000)
            return TxnInfo(id=txn_id, state=state, user="", hostname="", startedTime=started_ms)

        listed = [info(txn, TxnState.OPEN) for txn in self.open]
        listed += [info(txn, TxnState.ABORTED) for txn in self.aborted]
        return GetOpenTxnsInfoResponse(txn_high_water_mark=50, open_txns=listed)

    def ended(self) -> list[float]:
        return [txn for what, txn in self.seen if what == "ended"]


@pytest.fixture
def source(replica: FakedReplica, monkeypatch: pytest.MonkeyPatch) -> Source:
    return Source(replica, monkeypatch)


def settle_later(replica: FakedReplica) -> None:
    replica.clock.now_s += RECONCILE_S
    replica.projection.settle()


def test_a_transaction_that_timed_out_at_the_source_is_aborted(replica: FakedReplica, source: Source) -> None:
    source.open, source.newest = [1, 2], 3
    replica.projection.apply([created(1), allocated(2, 1, 1), allocated(3, 2, 2)])
    source.open, source.aborted = [2], [1]
    settle_later(replica)
    assert replica.target.open_txns == [2]
    assert source.ended() == [1]
    assert [txn.txn_id for txn in [replica.context.tables.write_ids.get(2)] if txn] == [2]
    replica.restart()
    assert replica.context.tables.write_ids.get(1) is None, "the abort is recorded"


def test_a_transaction_is_not_aborted_before_the_events_that_may_end_it_are_applied(
    replica: FakedReplica, source: Source
) -> None:
    source.open = [1]
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    source.open, source.newest = [], 3
    settle_later(replica)
    assert replica.target.open_txns == [1], "its commit may be event 3"
    replica.projection.apply([committed(3)])
    settle_later(replica)
    assert [txn for txn, _ in replica.target.commits] == [1]
    assert source.ended() == []


def test_open_transactions_are_compared_from_time_to_time_only(replica: FakedReplica, source: Source) -> None:
    source.open = [1]
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    source.open = []
    for _ in range(3):
        replica.projection.settle()
    assert replica.target.open_txns == [1]
    settle_later(replica)
    assert replica.target.open_txns == []


def test_a_transaction_that_only_an_abandoned_catch_up_opened_is_aborted(
    replica: FakedReplica, source: Source
) -> None:
    source.open, source.newest = [1], 2
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    replica.target.open_replayed("shop", 7)
    settle_later(replica)
    assert replica.target.open_txns == [1]
    assert source.ended() == [7]


def test_without_state_hanging_transactions_are_found_on_the_target(
    replica: FakedReplica, source: Source
) -> None:
    source.open, source.newest = [1], 2
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    replica.projection.settle()
    replica.restart(store=MemoryStore())
    source.open = []
    settle_later(replica)
    assert replica.target.open_txns == []
    assert source.ended() == [1]


def test_a_restart_does_not_show_an_earlier_alteration_again(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [
        changed(2, a_table(), a_table(parameters={"transactional": "true", "note": "1"})),
        statistics(3, "other"),
        changed(4, a_table(), a_table(parameters={"transactional": "true", "note": "2"})),
    ]
    replica.projection.apply([created(1), created(2, "other")][:1])
    shown: list[str | None] = []
    alter = replica.target.alter_table

    def alter_table(db: str, name: str, table: Table, **options: Any) -> None:
        shown.append((table.parameters or {}).get("note"))
        alter(db, name, table, **options)

    monkeypatch.setattr(replica.target, "alter_table", alter_table)
    monkeypatch.setattr(
        "handlers.replication.batch.batch_replay.find_superseded_alters", lambda _: frozenset()
    )

    def die(name: str) -> None:
        if name == "replay.after-effect" and shown == ["1", "2"]:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(effect_table, "failpoint", die)
        patched.setattr(type(replica.projection), "apply", _apply_without_final_record)
        with pytest.raises(Killed):
            replica.projection.apply([events[0], events[2]])
    replica.restart()
    position = replica.stored_position()
    replica.projection.apply([event for event in (events[0], events[2]) if event.event_id > position])
    assert shown == ["1", "2", "2"], "the first alteration is not repeated"


def _apply_without_final_record(projection: Any, events: Any) -> None:
    """Apply as a process does that is killed: nothing is recorded on the way out."""
    for event in events:
        projection._replay.advance(event)


def test_only_alterations_of_one_object_undo_each_other() -> None:
    table, other = (
        find_alterations(changed(1, a_table(), a_table())),
        find_alterations(changed(2, a_table("other"), a_table("other"))),
    )
    assert are_undone(table, table)
    assert not are_undone(table, other)
    added = find_alterations(partitions_added(3))
    assert not are_undone(added, added), "an addition may be repeated"
    assert not find_alterations(dropped(4)), "the position is recorded around it anyway"
    overwrite, insert = (
        find_alterations(inserted(5, replace=True)),
        find_alterations(inserted(6, replace=False)),
    )
    assert are_undone(overwrite, overwrite)
    assert are_undone(insert, overwrite)
    assert not are_undone(insert, insert)


def inserted(event_id: int, *, replace: bool) -> Inserted:
    return Inserted(
        event_id=event_id,
        time_s=0,
        kind="INSERT",
        db="shop",
        table="t",
        replace=replace,
        files=(),
        partition=None,
        spec={},
        owner=None,
    )
