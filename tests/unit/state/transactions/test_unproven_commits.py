"""Commits that wait for their proof, in memory and in the store."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from state.errors import StateCorrupt
from state.store.memory import MemoryStore
from state.transactions.open_transactions import Allocation, SourceTxn
from state.transactions.unproven_commits import UnprovenCommit, UnprovenCommits


COMMITS = st.builds(
    UnprovenCommit,
    st.integers(1, 5),
    st.none() | st.integers(1, 2**62),
    st.dictionaries(st.sampled_from(["shop.a", "shop.b", "shop.ü"]), st.integers(1, 2**62), max_size=3),
)
STEPS = st.lists(COMMITS | st.sampled_from(["prove", "record", "restart"]), max_size=30)


@given(STEPS)
@example(
    [
        UnprovenCommit(1, None, {"shop.a": 1}),
        "record",
        "prove",
        UnprovenCommit(1, None, {"shop.b": 1}),
        "record",
        "restart",
    ]
)
def test_what_was_recorded_and_not_proven_survives_a_restart(steps: list[UnprovenCommit | str]) -> None:
    store, commits = MemoryStore(), UnprovenCommits()
    model: dict[int, UnprovenCommit] = {}
    recorded: dict[int, UnprovenCommit] = {}
    for step in steps:
        if isinstance(step, UnprovenCommit):
            if step.txn_id in model:
                continue  # a transaction ends once
            commits.add(step)
            model |= {step.txn_id: step} if step.write_ids else {}
        elif step == "prove":
            commits.clear()
            model.clear()
        elif step == "record":
            with store.transaction() as txn:
                commits.flush(txn)
            recorded = dict(model)
        else:
            commits = UnprovenCommits()
            commits.load(store)
            model = dict(recorded)
        assert {each.txn_id: each for each in commits.commits()} == model
        assert len(commits) == len(model)
        assert commits.tables() == {
            name.partition(".")[2] for each in model.values() for name in each.write_ids
        }


def test_a_commit_holds_the_write_ids_of_its_transaction() -> None:
    txn = SourceTxn(7, 1, (Allocation("shop.a", 3, 1), Allocation("shop.b", 9, 2)), target_txn=70)
    assert UnprovenCommit.of(txn) == UnprovenCommit(7, 70, {"shop.a": 3, "shop.b": 9})


@pytest.mark.parametrize("value", [b"", b"{}", b"[1]", b"7"])
def test_a_record_that_cannot_be_read_is_corrupt(value: bytes) -> None:
    store = MemoryStore()
    with store.transaction() as txn:
        txn.put(b"unproven/x", value)
    with pytest.raises(StateCorrupt):
        UnprovenCommits().load(store)


def test_a_flush_without_changes_writes_nothing() -> None:
    commits, store = UnprovenCommits(), MemoryStore()
    commits.add(UnprovenCommit(7, 900, {"shop.a": 1}))
    with store.transaction() as txn:
        commits.flush(txn)
    with store.transaction() as txn:
        commits.flush(txn)
        assert txn._replaced == {}  # type: ignore[attr-defined]
