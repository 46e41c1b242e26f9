"""Transactions that are opened ahead of their turn: what is joined, what happens if that fails, and how those
end that are not needed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from handlers.events import Event
from handlers.replication.observer import BatchOverlap, LookaheadCounts
from handlers.replication.transactions.lookahead import TXNS_MAX
from state.errors import AmbiguousCall, InvalidRequest, ServerFault, TargetDiverged, TidelineError
from tests.builders.replication.fake_target import FakedReplica, faked_replica
from tests.builders.replication.replay_events import (
    aborted,
    allocated,
    altered,
    committed,
    created,
    dropped,
    written,
)


def inserts(first: int, txns: range, *, table: str = "orders", write_id: int | None = None) -> list[Event]:
    """Return the events of small transactions, one after the other; write ids begin at 1, or at
    ``write_id``."""
    events: list[Event] = []
    for at, txn in enumerate(txns):
        allocation = allocated(first + 2 * at, txn, (write_id or 1) + at, table)
        events += [allocation, committed(first + 2 * at + 1, txn)]
    return events


def calls(replica: FakedReplica) -> Counter[str]:
    """Return the calls about transactions since the last time."""
    names = ("open_replayed", "allocate_replayed", "allocate_many_replayed")
    found = Counter(name for name in replica.target.calls if name in names)
    replica.target.calls.clear()
    return found


def joined(count: int) -> dict[str, int]:
    return {"open_replayed": count, "allocate_many_replayed": 1}


def by_itself(count: int) -> dict[str, int]:
    return {"open_replayed": count, "allocate_replayed": count}


@pytest.fixture
def followed(replica: FakedReplica) -> FakedReplica:
    """A replica with two tables and no calls yet."""
    replica.projection.apply([created(1), created(2, "other")])
    replica.target.calls.clear()
    return replica


def require_replayed(replica: FakedReplica, **write_ids: int) -> None:
    """Assert that the target has these write ids, no transaction open, and nothing damaged."""
    target = replica.target
    assert (target.write_ids, target.open_txns, target.damaged, target.reopened) == (write_ids, [], [], [])


def test_the_write_ids_of_a_batch_are_allocated_by_one_call(followed: FakedReplica) -> None:
    followed.projection.apply(inserts(3, range(1, 21)))
    assert calls(followed) == joined(20)
    require_replayed(followed, orders=20)


def test_a_batch_reports_what_was_opened_and_allocated_ahead(
    followed: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[BatchOverlap] = []
    monkeypatch.setattr(followed.context.observer, "batch_replayed", reported.append)
    followed.projection.apply(inserts(3, range(1, 21)))
    followed.projection.apply(inserts(50, range(21, 23), write_id=21))
    assert [each.lookahead for each in reported] == [LookaheadCounts(20, 20, 1), LookaheadCounts()]


def test_two_write_ids_are_allocated_by_themselves(followed: FakedReplica) -> None:
    followed.projection.apply(inserts(3, range(1, 3)))
    assert calls(followed) == by_itself(2)


def test_transactions_that_write_into_two_tables_have_one_call_for_each_table(followed: FakedReplica) -> None:
    events: list[Event] = []
    for txn in range(1, 6):
        first = 3 * txn
        events += [allocated(first, txn, txn), allocated(first + 1, txn, txn, "other")]
        events += [committed(first + 2, txn)]
    followed.projection.apply(events)
    assert calls(followed) == {"open_replayed": 5, "allocate_many_replayed": 2}
    require_replayed(followed, orders=5, other=5)


def test_tables_that_are_written_in_another_order_than_transactions_were_opened_get_the_right_ids(
    followed: FakedReplica,
) -> None:
    """Hive gives the ids in the order of its own transactions."""
    txns = range(1, 5)
    events: list[Event] = [allocated(2 + txn, txn, txn) for txn in txns]
    events += [allocated(10 + at, txn, 1 + at, "other") for at, txn in enumerate(reversed(txns))]
    events += [committed(20 + txn, txn) for txn in txns]
    followed.projection.apply(events)
    require_replayed(followed, orders=4, other=4)
    held = {
        txn: write_id for (table, txn), write_id in followed.target._write_ids.items() if table == "other"
    }
    assert held == {1: 4, 2: 3, 3: 2, 4: 1}


def test_an_event_with_many_transactions_needs_few_calls(followed: FakedReplica) -> None:
    count = TXNS_MAX + 20
    stream = allocated(3, 0, 0)
    object.__setattr__(stream, "pairs", tuple((txn, txn) for txn in range(1, count + 1)))
    followed.projection.apply([stream, *(committed(3 + txn, txn) for txn in range(1, count + 1))])
    assert calls(followed) == {"open_replayed": count, "allocate_many_replayed": 2}
    require_replayed(followed, orders=count)


def test_an_older_target_opens_each_transaction_by_itself(
    followed: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot say which of its transactions stands for which of the source."""
    monkeypatch.setattr(
        followed.target, "supports", lambda call: call != "get_replayed_txns_for_policy", raising=True
    )
    followed.projection.apply(inserts(3, range(1, 6)))
    assert calls(followed) == by_itself(5)
    require_replayed(followed, orders=5)


@pytest.mark.parametrize("call", ["open_replayed", "allocate_many_replayed"])
@pytest.mark.parametrize(
    "refusal", [ServerFault("internal error"), InvalidRequest("no"), TargetDiverged("other")]
)
def test_if_the_target_refuses_a_joined_call_each_event_is_applied_by_itself(
    followed: FakedReplica, call: str, refusal: TidelineError
) -> None:
    followed.target.fails(call, refusal)
    followed.projection.apply(inserts(3, range(1, 6)))
    assert calls(followed)["allocate_replayed"] == 5
    require_replayed(followed, orders=5)


def test_write_ids_that_a_joined_call_answered_otherwise_are_asked_for_again(followed: FakedReplica) -> None:
    followed.target.answers["allocate_many_replayed"].append({})
    followed.projection.apply(inserts(3, range(1, 6)))
    assert calls(followed)["allocate_replayed"] == 5
    require_replayed(followed, orders=5)


@pytest.mark.parametrize("failing", ["open_replayed", "allocate_many_replayed", "commit_replayed"])
def test_after_an_error_the_next_run_finds_what_was_opened_ahead(
    followed: FakedReplica, failing: str
) -> None:
    events = inserts(3, range(1, 21))
    followed.target.fails(failing, AmbiguousCall("sent, but no answer came"))
    with pytest.raises(AmbiguousCall):
        followed.projection.apply(events)
    position = followed.restart().open()
    followed.projection.apply([each for each in events if not position.covers(each.event_id, each.part)])
    require_replayed(followed, orders=20)


def test_a_next_run_may_join_other_events(followed: FakedReplica) -> None:
    """Its batch begins and ends elsewhere; what the first run opened beyond it stays open for the one
    after."""
    events = inserts(3, range(1, 21))
    followed.target.fails("commit_replayed", AmbiguousCall("sent, but no answer came"))
    with pytest.raises(AmbiguousCall):
        followed.projection.apply(events)
    position = followed.restart().open()
    left = [each for each in events if not position.covers(each.event_id, each.part)]
    followed.projection.apply(left[:12])
    followed.projection.apply([*left[12:], *inserts(100, range(21, 31), write_id=21)])
    require_replayed(followed, orders=30)


def test_a_transaction_opened_ahead_may_abort_or_end_in_a_later_batch(followed: FakedReplica) -> None:
    begun: list[Event] = [allocated(2 + txn, txn, txn) for txn in range(1, 6)]
    followed.projection.apply(begun)
    assert followed.target.open_txns == [1, 2, 3, 4, 5]
    followed.projection.apply([aborted(8, 1), *(committed(8 + txn, txn) for txn in range(2, 6))])
    require_replayed(followed, orders=5)
    assert followed.target.aborted == {1}


def test_a_transaction_whose_only_table_was_quarantined_meanwhile_is_aborted_at_its_end(
    followed: FakedReplica,
) -> None:
    events = inserts(3, range(1, 6))
    followed.target.fails("alter_table", InvalidRequest("no"))
    followed.projection.apply([*events[:2], altered(5), *inserts(6, range(2, 6), write_id=2)])
    assert followed.stored_quarantine() == {"orders": "invalid-request"}
    assert followed.target.open_txns == []
    assert followed.target.aborted == {2, 3, 4, 5}


def test_a_transaction_that_writes_into_a_quarantined_table_and_another_is_committed(
    followed: FakedReplica,
) -> None:
    events: list[Event] = [allocated(3, 1, 1), altered(4)]
    for txn in range(2, 6):
        events += [allocated(5 * txn, txn, txn), allocated(5 * txn + 1, txn, txn - 1, "other")]
        events += [committed(5 * txn + 2, txn)]
    followed.target.fails("alter_table", InvalidRequest("no"))
    followed.projection.apply(events)
    assert followed.stored_quarantine() == {"orders": "invalid-request"}
    assert followed.target.open_txns == [1], "it has not ended at the source"
    assert [txn for txn, _ in followed.target.commits] == [2, 3, 4, 5]


def test_nothing_is_opened_for_a_table_that_waits_for_its_load(followed: FakedReplica) -> None:
    followed.context.tables.loads.request("orders", "repair")
    followed.projection.apply(inserts(3, range(1, 6)))
    assert calls(followed) == {}


def test_nothing_is_opened_for_write_ids_that_a_load_contains(followed: FakedReplica) -> None:
    followed.context.tables.loads.request("orders", "repair")
    followed.context.tables.loads.finish("orders", 2, 3)
    followed.target.seed_write_ids("orders", 3)
    followed.projection.apply(inserts(3, range(1, 9)))
    assert calls(followed) == joined(5)
    assert sorted(txn for txn, _ in followed.target.commits) == [4, 5, 6, 7, 8]
    require_replayed(followed, orders=8)


def test_nothing_is_opened_ahead_where_the_target_must_be_asked_first(followed: FakedReplica) -> None:
    """The state is older than the target: the events may have been applied already."""
    followed.target.newest_event_id = 8
    followed.restart(target_at=3)
    followed.projection.apply(inserts(4, range(1, 9)))
    assert calls(followed)["allocate_replayed"] == 3
    require_replayed(followed, orders=8)


def test_the_ids_of_a_new_table_wait_for_its_creation(followed: FakedReplica) -> None:
    first = inserts(3, range(1, 5))
    second = inserts(13, range(5, 9))
    followed.projection.apply([*first, dropped(11), created(12), *second])
    assert calls(followed) == {"open_replayed": 8, "allocate_many_replayed": 2}
    require_replayed(followed, orders=4)


def test_a_write_id_that_replaces_another_is_allocated_at_its_turn(followed: FakedReplica) -> None:
    """The source logs a second one if it compiles the query again."""
    events: list[Event] = [allocated(2 + txn, txn, txn) for txn in range(1, 5)]
    events += [allocated(7, 2, 5), allocated(8, 5, 6), allocated(9, 6, 7), allocated(10, 7, 8)]
    followed.projection.apply([*events, *(committed(10 + txn, txn) for txn in range(1, 8))])
    assert (2, 5, True) in followed.target.allocations
    assert followed.target.damaged == []
    assert followed.target.write_ids == {"orders": 8}


def test_files_are_copied_as_soon_as_their_write_id_is_allocated_ahead(
    followed: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each commit would wait for its own copies."""
    events: list[Event] = []
    for txn in range(1, 6):
        file = followed.file(f"bucket_{txn}", write_id=txn)
        events += [allocated(2 * txn + 1, txn, txn)]
        events += [written(2 * txn + 2, file, txn_id=txn, write_id=txn, part=0, parts=2)]
        events += [committed(2 * txn + 2, txn, part=1, parts=2)]
    submitted: list[int] = []
    submit = followed.context.copies.submit

    def observe(_pool: object, *given: Any, **named: Any) -> Any:
        submitted.append(len(followed.target.commits))
        return submit(*given, **named)

    monkeypatch.setattr(type(followed.context.copies), "submit", observe)
    followed.projection.apply(events)
    assert submitted == [0] * 5
    assert len(followed.files_on_target()) == 5


def test_files_that_were_copied_ahead_are_removed_if_their_table_is_quarantined(
    followed: FakedReplica,
) -> None:
    """Their transaction is aborted, and Hive shows the files of an aborted one after a while."""
    events: list[Event] = [allocated(3, 1, 1)]
    for txn in range(2, 6):
        file = followed.file(f"bucket_{txn}", write_id=txn)
        events += [altered(5 * txn - 1)] if txn == 3 else []
        events += [allocated(5 * txn, txn, txn)]
        events += [written(5 * txn + 1, file, txn_id=txn, write_id=txn, part=0, parts=2)]
        events += [committed(5 * txn + 1, txn, part=1, parts=2)]
    followed.target.fails("alter_table", InvalidRequest("no"))
    followed.projection.apply(events)
    assert followed.stored_quarantine() == {"orders": "invalid-request"}
    assert [name.rpartition("/")[2] for name in followed.files_on_target()] == ["bucket_2"]


def test_a_policy_that_skips_failures_opens_ahead(tmp_path: Path) -> None:
    replica = faked_replica(tmp_path, on_failure="skip")
    replica.projection.apply([created(1), *inserts(2, range(1, 6))])
    assert calls(replica) == joined(5)
    replica.projection.close()
