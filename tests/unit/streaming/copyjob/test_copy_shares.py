"""Copies are split into balanced shares."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streaming.copyjob.share import SHARES_MAX, SHARES_PER_SLOT, copy_cost, count_shares, split_shares


COSTS = st.lists(st.integers(1, 1 << 50), max_size=200)


@given(COSTS, st.data())
def test_every_file_is_in_exactly_one_share_and_no_share_is_empty(
    costs: list[int], data: st.DataObject
) -> None:
    shares = split_shares(costs, data.draw(st.integers(min(1, len(costs)), len(costs))))
    assert sorted(index for share in shares for index in share) == list(range(len(costs)))
    assert all(shares)


@given(COSTS.filter(bool), st.data())
def test_no_share_costs_more_than_the_mean_and_the_largest_file(
    costs: list[int], data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, len(costs)))
    totals = [sum(costs[index] for index in share) for share in split_shares(costs, count)]
    assert max(totals) <= sum(costs) / count + max(costs)
    assert totals == sorted(totals, reverse=True)


@given(st.lists(st.integers(0, 1 << 45), max_size=200), st.integers(1, 5_000))
def test_there_are_enough_shares_for_all_slots_but_never_more_than_files(
    sizes: list[int], slots: int
) -> None:
    count = count_shares([copy_cost(size) for size in sizes], slots)
    assert min(len(sizes), slots * SHARES_PER_SLOT, SHARES_MAX) <= count <= min(len(sizes), SHARES_MAX)


def test_the_same_list_is_always_split_in_the_same_way() -> None:
    costs = [5, 1, 5, 1, 5, 1]
    assert split_shares(costs, 3) == split_shares(costs, 3) == [[0, 1], [2, 3], [4, 5]]
