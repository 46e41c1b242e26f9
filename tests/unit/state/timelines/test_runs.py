"""Runs are an exact set under every sequence of operations."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from state.timelines import runs as runs_module
from state.timelines.runs import Runs
from tests.builders.catalog.timelines import join_pairs


members = st.integers(-30, 30)
member_sets = st.sets(st.integers(-100, 100))


class RunsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runs = Runs()
        self.model: set[int] = set()

    @rule(x=members)
    def add(self, x: int) -> None:
        assert self.runs.add(x) == (x not in self.model)
        self.model.add(x)

    @rule(x=members)
    def drop(self, x: int) -> None:
        assert self.runs.drop(x) == (x in self.model)
        self.model.discard(x)

    @rule(start=members, end=members)
    def add_range(self, start: int, end: int) -> None:
        self.runs.add_range(start, end)
        self.model.update(range(start, end))

    @rule(xs=member_sets)
    def update(self, xs: set[int]) -> None:
        assert self.runs.update(xs) == len(xs - self.model)
        self.model |= xs

    @rule()
    def rebuild(self) -> None:
        self.runs = Runs(self.runs.edges())

    @rule(start=members, end=members)
    def walk(self, start: int, end: int) -> None:
        if start < end:
            part = Runs(self.runs.between(start, end))
            part.check()
            assert set(part) == self.model & set(range(start, end))

    @rule()
    def ask_often(self) -> None:
        """So often that the set is kept as a map, until it changes."""
        for _ in range(5):
            assert [x for x in range(-120, 121) if x in self.runs] == sorted(self.model)

    @rule(x=members)
    def ask(self, x: int) -> None:
        assert (x in self.runs) == (x in self.model)
        run = self.runs.run_at(x)
        assert (run is not None) == (x in self.model)
        if run is not None:
            assert run[0] <= x < run[1]
            assert self.model.issuperset(range(*run))
            assert self.model.isdisjoint({run[0] - 1, run[1]})

    @invariant()
    def is_the_same_set(self) -> None:
        self.runs.check()
        assert list(self.runs) == sorted(self.model)
        assert self.runs.count() == len(self.model)
        assert self.runs.first == min(self.model, default=None)
        assert self.runs.last == max(self.model, default=None)
        assert bool(self.runs) == bool(self.model)
        assert self.runs == Runs.of(self.model)


TestRunsMachine = RunsMachine.TestCase


def test_sets_that_are_asked_often_are_exact_also_far_outside_and_where_they_are_long() -> None:
    for length in (10, 1 << 20, 1 << 22):
        runs = Runs((5, 6, 8, length))
        for _ in range(2_000):
            assert 5 in runs
        outside = (-(2**62), -length, -1, 0, 4, 6, 7, length, length + 1, 2**62)
        assert not [x for x in outside if x in runs]
        assert length - 1 in runs
        runs.check()


def test_only_the_newest_maps_of_many_sets_are_kept_and_all_sets_stay_exact() -> None:
    sets = [Runs((number, number + 2)) for number in range(200)]
    for _ in range(2):
        for number, runs in enumerate(sets):
            for _ in range(1_100):
                assert number in runs
    for number, runs in enumerate(sets):
        assert [x for x in range(-1, 205) if x in runs] == [number, number + 1]
        runs.check()


@given(xs=st.lists(st.integers(-(2**40), 2**40)))
def test_repeated_members_in_any_order_give_the_same_set(xs: list[int]) -> None:
    runs = Runs.of(xs)
    runs.check()
    assert list(runs.pairs()) == list(join_pairs((x, x + 1) for x in xs).pairs())
    assert [x for gap in runs.gaps() for x in (gap[0], gap[1] - 1)] == [
        x for gap in runs.gaps() for x in (gap[0], gap[1] - 1) if x not in runs
    ]


@given(xs=st.lists(st.integers(-9, 9)).map(sorted))
def test_ordered_members_give_the_same_set_in_steps(xs: list[int]) -> None:
    pauses: list[None] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs_module, "STEP", 3)
        made = Runs.of_sorted(array("q", xs), lambda: pauses.append(None))
    made.check()
    assert made == Runs.of(xs)
    assert len(pauses) == -(-len(xs) // 3)


def test_a_range_joins_adjacent_runs() -> None:
    runs = join_pairs([(1, 5), (10, 12), (4, 10)])
    assert list(runs.pairs()) == [(1, 12)]
    runs.add_range(7, 7)
    assert list(runs.pairs()) == [(1, 12)]


def test_a_copy_is_independent() -> None:
    runs = Runs.of([1, 2])
    other = runs.copy()
    other.add(3)
    assert runs == Runs.of([1, 2])
    assert repr(runs) == "Runs([(1, 3)])"
    assert runs != {1, 2}


def test_a_run_costs_sixteen_bytes() -> None:
    assert Runs.of(range(0, 1_000, 2)).size_bytes() == 500 * 16


@pytest.mark.parametrize("edges", [(1,), (2, 1), (1, 1), (1, 3, 3, 4)])
def test_check_detects_invalid_edges(edges: tuple[int, ...]) -> None:
    with pytest.raises(AssertionError):
        Runs(edges).check()
