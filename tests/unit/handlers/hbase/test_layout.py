"""Conditions in HBase's filter language: what is sent and what the client checks. HBase itself is used in the
integration tests."""

from __future__ import annotations

from dataclasses import replace

from handlers.hbase.layout import INTERVALS_MAX, KEYS_ONLY, compared_columns, write_filter
from state.partitions.filters.conditions import AllOf, AnyOf, Leaf
from state.partitions.filters.intervals import Interval
from state.partitions.filters.like_pattern import LikePattern


LEAF = Leaf(1, (Interval(b"\x01a", b"\x01b"),))
OTHER = Leaf(2, (Interval(b"\x01'", b"\x02"),))
LONG = Leaf(3, tuple(Interval(b"\x01%03d" % at, b"\x01%03d\x00" % at) for at in range(INTERVALS_MAX + 1)))


def test_an_interval_is_two_comparisons_of_a_cell() -> None:
    assert write_filter(LEAF) == (
        b"((SingleColumnValueFilter('p', '1', >=, 'binary:\x01a', false, true)"
        b" AND SingleColumnValueFilter('p', '1', <, 'binary:\x01b', false, true))) AND KeyOnlyFilter()"
    )


def test_a_quote_is_doubled() -> None:
    assert b"'binary:\x01'''" in write_filter(OTHER)


def test_an_inexpressible_part_is_left_out_of_and_and_makes_or_inexpressible() -> None:
    assert write_filter(LONG) == KEYS_ONLY
    assert write_filter(AllOf((LEAF, LONG))) == write_filter(AllOf((LEAF,)))
    assert write_filter(AllOf((LONG, LONG))) == KEYS_ONLY
    assert write_filter(AnyOf((LEAF, LONG))) == KEYS_ONLY
    assert write_filter(AnyOf((LEAF, OTHER))).count(b" OR ") == 1


def test_a_filter_that_is_too_long_is_not_sent() -> None:
    wide = Leaf(1, (Interval(b"\x01" + b"x" * 20_000, b"\x02"),))
    assert write_filter(wide) == KEYS_ONLY


def test_the_compared_columns_are_those_of_all_parts() -> None:
    assert compared_columns(AnyOf((LEAF, AllOf((OTHER, LONG))))) == {1, 2, 3}


def test_only_the_interval_of_like_is_sent() -> None:
    assert write_filter(replace(LEAF, like=LikePattern.__new__(LikePattern))) == write_filter(LEAF)
