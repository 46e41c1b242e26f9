"""Touched partitions are those of a naive model, and never more than the limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import example, given
from hypothesis import strategies as st

from state.transactions import touched_partitions
from state.transactions.touched_partitions import TouchedByTxn, TouchedPartitions


if TYPE_CHECKING:
    import pytest


TXNS, TABLES, IDS, NAMES = range(1, 5), ("s.a", "s.b"), range(1, 4), ("p=1", "p=2", "p=3")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("allocate"), st.sampled_from(TXNS), st.sampled_from(TABLES), st.sampled_from(IDS)),
        st.tuples(st.just("touch"), st.sampled_from(TABLES), st.sampled_from(IDS), st.sampled_from(NAMES)),
        st.tuples(st.just("end"), st.sampled_from(TXNS)),
    ),
    max_size=40,
)


class Naive:
    """Remembers every allocation and every touch."""

    def __init__(self) -> None:
        self.first: dict[int, int] = {}
        self.owners: dict[tuple[str, int], int] = {}
        self.touched: dict[int, dict[tuple[str, int], dict[str, str]]] = {}

    def allocate(self, txn_id: int, table: str, write_id: int, event_id: int) -> None:
        self.first.setdefault(txn_id, event_id)
        self.owners[table, write_id] = txn_id
        self.touched.setdefault(txn_id, {}).setdefault((table, write_id), {})

    def touch(self, table: str, write_id: int, name: str) -> None:
        owner = self.owners.get((table, write_id))
        if owner in self.first:
            assert owner is not None
            self.touched[owner][table, write_id][name] = f"/{name}"

    def end(self, txn_id: int) -> dict[tuple[str, int], dict[str, str]] | None:
        self.owners = {written: owner for written, owner in self.owners.items() if owner != txn_id}
        return None if self.first.pop(txn_id, None) is None else self.touched.pop(txn_id)


@given(STEPS)
def test_what_a_transaction_touched_is_what_a_naive_model_remembers(steps: list[tuple[object, ...]]) -> None:
    ours, naive = TouchedPartitions(), Naive()
    for event_id, (step, *values) in enumerate(steps, 1):
        apply(ours, naive, step, values, event_id)
        assert ours.first_event_id == min(naive.first.values(), default=None)
        assert len(ours) == sum(
            len(names) for txn_id in naive.first for names in naive.touched[txn_id].values()
        )
        for table in TABLES:
            assert ours.is_open(table) == any(name == table for name, _ in naive.owners)


def apply(ours: TouchedPartitions, naive: Naive, step: object, values: list[object], event_id: int) -> None:
    match step, values:
        case "allocate", [int(txn_id), str(table), int(write_id)]:
            ours.allocate(txn_id, table, write_id, event_id)
            naive.allocate(txn_id, table, write_id, event_id)
        case "touch", [str(table), int(write_id), str(name)]:
            ours.touch(table, write_id, name, f"/{name}")
            naive.touch(table, write_id, name)
        case "end", [int(txn_id)]:
            found, expected = ours.end(txn_id), naive.end(txn_id)
            assert found.complete == (expected is not None)
            assert found.partitions == (expected or {})


@given(STEPS, st.integers(1, 5), st.integers(1, 3))
@example([("allocate", 3, "s.a", 1), ("allocate", 1, "s.a", 1), ("allocate", 3, "s.a", 2), ("end", 3)], 1, 1)
def test_above_the_limits_something_is_forgotten_and_reported_as_incomplete(
    steps: list[tuple[object, ...]], partitions_max: int, txns_max: int
) -> None:
    ours, naive = TouchedPartitions(partitions_max=partitions_max, txns_max=txns_max), Naive()
    for event_id, (step, *values) in enumerate(steps, 1):
        if step == "end":
            (txn_id,) = values
            assert isinstance(txn_id, int)
            found, expected = ours.end(txn_id), naive.end(txn_id)
            assert not found.complete or found.partitions == expected
        else:
            apply(ours, naive, step, values, event_id)
        assert len(ours) <= partitions_max


def test_a_transaction_that_writes_into_too_many_tables_is_incomplete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(touched_partitions, "ALLOCATIONS_MAX", 2)
    ours = TouchedPartitions()
    for event_id, table in enumerate(("s.a", "s.b", "s.a"), 1):
        ours.allocate(1, table, 1, event_id)
    ours.touch("s.a", 1, "p=1", "/p=1")
    assert len(ours) == 1
    ours.allocate(1, "s.c", 1, 4)
    assert not ours.is_open("s.c")
    ours.touch("s.b", 1, "p=2", "/p=2")
    assert not ours.end(1).complete
    assert len(ours) == 0


def test_the_transaction_with_most_partitions_is_forgotten_first() -> None:
    ours = TouchedPartitions(partitions_max=3)
    ours.allocate(1, "s.a", 1, 1)
    ours.allocate(2, "s.b", 1, 2)
    ours.touch("s.a", 1, "p=1", "/p=1")
    for name in ("p=1", "p=2", "p=3"):
        ours.touch("s.b", 1, name, f"/{name}")
    assert len(ours) == 1
    assert not ours.end(2).complete
    assert ours.end(1) == TouchedByTxn(complete=True, partitions={("s.a", 1): {"p=1": "/p=1"}})


def test_a_partition_that_is_touched_again_has_its_newest_location_and_counts_once() -> None:
    ours = TouchedPartitions(partitions_max=1)
    ours.allocate(1, "s.a", 1, 1)
    ours.touch("s.a", 1, "p=1", "/old")
    ours.touch("s.a", 1, "p=1", "/new")
    assert len(ours) == 1
    assert ours.end(1) == TouchedByTxn(complete=True, partitions={("s.a", 1): {"p=1": "/new"}})


def test_the_end_of_an_unknown_transaction_is_incomplete() -> None:
    assert TouchedPartitions().end(1) == TouchedByTxn(complete=False)


def test_a_table_is_open_until_its_last_write_id_has_ended() -> None:
    ours = TouchedPartitions()
    ours.allocate(1, "s.a", 1, 1)
    ours.allocate(2, "s.a", 2, 2)
    ours.end(1)
    assert ours.is_open("s.a")
    ours.end(2)
    assert not ours.is_open("s.a")
