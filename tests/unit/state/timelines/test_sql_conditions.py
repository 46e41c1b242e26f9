"""Conditions select exactly the partitions of a cover."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from state.errors import BadInput, LimitExceeded
from state.timelines import sql_conditions
from state.timelines.cover import CoverRun
from state.timelines.ignored_values import IGNORED_MAX, IgnoredValues
from state.timelines.periods import UpdatePeriod
from state.timelines.runs import Runs
from state.timelines.sql_conditions import (
    Column,
    format_between,
    format_in,
    format_or,
    refuse_shared_texts,
)
from state.timelines.time_ranges import PartitionRange


P = UpdatePeriod
DT = Column("dt", "t")
NONE = IgnoredValues()


def run(period: UpdatePeriod, text: str) -> CoverRun:
    part = PartitionRange.parse(period, text)
    return CoverRun("fact", period, part.begin, part.end - 1)


FIRST_TO_THIRD = run(P.DAILY, "[2015-01-01, 2015-01-04)")
ONE_AND_TWO = run(P.DAILY, "[2015-01-01, 2015-01-03)")
ONE = run(P.DAILY, "[2015-01-01, 2015-01-02)")
MIXED = [run(P.MONTHLY, "[2014-12, 2015-01)"), ONE, run(P.HOURLY, "[2015-01-02-00, 2015-01-02-01)")]


def test_or_names_each_partition() -> None:
    assert format_or(DT, [ONE_AND_TWO]) == "(t.dt = '2015-01-01') OR (t.dt = '2015-01-02')"
    assert format_or(DT, MIXED) == "(t.dt = '2014-12') OR (t.dt = '2015-01-01') OR (t.dt = '2015-01-02-00')"


def test_in_lists_the_partitions() -> None:
    assert format_in(DT, [ONE_AND_TWO]) == "(t.dt IN ('2015-01-01','2015-01-02'))"
    assert format_in(Column("dt"), MIXED) == "(dt IN ('2014-12','2015-01-01','2015-01-02-00'))"


@pytest.mark.parametrize("writer", [format_or, format_in])
def test_no_partitions_give_no_condition(writer: Callable[[Column, Iterable[CoverRun]], str]) -> None:
    assert not writer(DT, [])


def test_between_gives_bounds() -> None:
    expected = "(t.dt BETWEEN '2015-01-01' AND '2015-01-02')"
    assert format_between(DT, [ONE_AND_TWO], [P.DAILY], NONE) == expected


def test_one_partition_is_an_equality() -> None:
    assert format_between(DT, [ONE], [P.DAILY], NONE) == "(t.dt = '2015-01-01')"


def test_between_does_not_span_missing_partitions() -> None:
    third = run(P.DAILY, "[2015-01-03, 2015-01-05)")
    assert (
        format_between(DT, [ONE, third], [P.DAILY], NONE)
        == "(t.dt = '2015-01-01') OR (t.dt BETWEEN '2015-01-03' AND '2015-01-04')"
    )


def test_between_is_refused_if_several_periods_would_match() -> None:
    with pytest.raises(BadInput, match="HOURLY"):
        format_between(DT, MIXED, [], NONE)
    with pytest.raises(BadInput, match="HOURLY"):
        format_between(DT, [ONE], [P.DAILY, P.HOURLY], NONE)


@pytest.mark.parametrize("text", ["2015-01-02_backup", "2015-01-01.tmp", "2015-01-02-05", "2015-01-019"])
def test_between_is_refused_if_an_ignored_value_lies_between(text: str) -> None:
    with pytest.raises(BadInput, match="outside of the timeline") as caught:
        format_between(DT, [FIRST_TO_THIRD], [P.DAILY], IgnoredValues.of(["2014", text]))
    assert caught.value.context["values"] == [text]
    assert format_between(DT, [ONE], [P.DAILY], IgnoredValues.of([text])) == "(t.dt = '2015-01-01')"


@pytest.mark.parametrize("text", ["2015-01-03_backup", "2014-12-31", "latest", "", "\uff12015-01-02"])
def test_between_is_written_if_ignored_values_lie_outside(text: str) -> None:
    assert format_between(DT, [FIRST_TO_THIRD], [P.DAILY], IgnoredValues.of([text]))


@pytest.mark.parametrize("ignored", [None, IgnoredValues.of(map(str, range(IGNORED_MAX + 1)))])
def test_between_is_refused_if_the_ignored_values_are_not_known(ignored: IgnoredValues | None) -> None:
    with pytest.raises(BadInput, match="may also select"):
        format_between(DT, [FIRST_TO_THIRD], [P.DAILY], ignored)
    assert format_between(DT, [ONE], [P.DAILY], ignored) == "(t.dt = '2015-01-01')"


def test_a_value_that_stands_for_several_periods_is_refused() -> None:
    month = run(P.MONTHLY, "[2015-01, 2015-02)")
    quarter = P.QUARTERLY.parse("2015-01")
    refuse_shared_texts([month, ONE], {P.DAILY: Runs((0, 90_000)), P.MONTHLY: Runs((0, 1_000))}, NONE)
    with pytest.raises(BadInput, match="2015-01"):
        refuse_shared_texts([month], {P.QUARTERLY: Runs((quarter, quarter + 1))}, NONE)
    with pytest.raises(BadInput, match="2015-01"):
        refuse_shared_texts([month], {}, IgnoredValues.of(["2015-01"]))


def test_a_name_with_special_characters_is_quoted() -> None:
    assert format_in(Column("d`t", "select 1"), [ONE]) == "(`select 1`.`d``t` IN ('2015-01-01'))"


def test_a_condition_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_conditions, "PARTITIONS_MAX", 2)
    assert format_in(DT, [ONE_AND_TWO])
    with pytest.raises(LimitExceeded):
        format_in(DT, [FIRST_TO_THIRD])
    with pytest.raises(LimitExceeded):
        format_or(DT, [ONE_AND_TWO, ONE])
