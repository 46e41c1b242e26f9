"""Which write ids one call allocates: joined calls have the effect of one call for each write id."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from handlers.replication.transactions.coming_events import WriteIdOfTxn, select_joinable
from tests.builders.replication.hive_write_ids import HiveWriteIds


def joinable(coming: list[tuple[int, int]], *, next_write_id: int, target_txns: dict[int, int]) -> list[int]:
    """Return the write ids that are allocated together."""
    pairs = [WriteIdOfTxn(*each) for each in coming]
    return [
        each.write_id for each in select_joinable(pairs, next_write_id=next_write_id, target_txns=target_txns)
    ]


TARGETS = {1: 101, 2: 102, 3: 103, 4: 104}


def test_the_next_write_ids_are_allocated_together() -> None:
    assert joinable([(1, 5), (2, 6), (3, 7)], next_write_id=5, target_txns=TARGETS) == [5, 6, 7]


def test_write_ids_that_the_target_has_are_left_out() -> None:
    assert joinable([(1, 5), (2, 6), (3, 7)], next_write_id=7, target_txns=TARGETS) == [7]
    assert joinable([(1, 5), (2, 6)], next_write_id=7, target_txns=TARGETS) == []


def test_nothing_is_allocated_above_a_gap() -> None:
    assert joinable([(1, 5), (2, 7), (3, 8)], next_write_id=5, target_txns=TARGETS) == [5]
    assert joinable([(1, 5), (2, 6)], next_write_id=4, target_txns=TARGETS) == []


def test_nothing_is_allocated_beyond_a_transaction_that_is_not_open() -> None:
    assert joinable([(1, 5), (9, 6), (3, 7)], next_write_id=5, target_txns=TARGETS) == [5]


def test_a_call_ends_where_the_target_would_give_the_ids_in_another_order() -> None:
    assert joinable([(2, 5), (3, 6), (1, 7)], next_write_id=5, target_txns=TARGETS) == [5, 6]


def test_two_transactions_that_one_of_the_target_stands_for_are_not_joined() -> None:
    assert joinable([(1, 5), (2, 6)], next_write_id=5, target_txns={1: 101, 2: 101}) == [5]


@given(
    txns=st.lists(st.integers(1, 30), min_size=1, max_size=12, unique=True),
    opened_in=st.randoms(use_true_random=False),
    first=st.integers(1, 9),
    killed_at=st.integers(0, 12),
    closed=st.sets(st.integers(1, 30), max_size=2),
    missing=st.sets(st.integers(0, 11), max_size=2),
)
def test_runs_of_joined_write_ids_are_those_of_single_calls(
    txns: list[int],
    opened_in: object,
    first: int,
    killed_at: int,
    closed: set[int],
    missing: set[int],
) -> None:
    """Also after a process that was killed had allocated some of them, and if some are unknown or not to be
    allocated."""
    order = list(txns)
    opened_in.shuffle(order)  # type: ignore[attr-defined]
    target_txns = {txn: 100 + at for at, txn in enumerate(order) if txn not in closed}
    log = [WriteIdOfTxn(txn, first + at) for at, txn in enumerate(txns)]
    single, before = HiveWriteIds(), HiveWriteIds(next=first)
    for each in log[:killed_at]:
        if each.txn_id not in target_txns:
            break
        before.allocate([each], target_txns)
    together = replace(before, held=dict(before.held))
    coming = [each for at, each in enumerate(log) if at not in missing]
    assert together.next is not None
    reached = together.next
    while run := select_joinable(coming, next_write_id=reached, target_txns=target_txns):
        together.allocate(run, target_txns)
        assert together.next == reached + len(run)
        reached = together.next
    single.next = first
    for each in log[: reached - first]:
        assert single.allocate([each], target_txns) == [(target_txns[each.txn_id], each.write_id)]
    assert together == single
