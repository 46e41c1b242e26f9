"""The same partitions in a real Hive 4 metastore and in the index, the same filters to both.

Where the two differ on purpose the test says so; docs/PARTITIONS.md lists it.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from thrift.Thrift import TException

from state.errors import BadFilter
from tests.builders.both_sides import TEXTS, both_sides
from tests.builders.partitions import DATE, DEFAULT, INT, STRING, conditions


if TYPE_CHECKING:
    from collections.abc import Iterator

    from dev.stack.endpoints import ClusterEndpoints
    from tests.builders.both_sides import BothSides
    from tests.builders.partitions import Condition


EQUAL = [
    "",
    "i = 7",
    "i != 7",
    "i > 255 and i <= 511",
    "255 < i",
    "s < 'b'",
    "s != 'a'",
    "s > 'Z'",
    "d = 2020-06-18",
    "d <= '2020-06-18'",
    "d != '2020-06-18'",
    "d < DATE '2020-01-01'",
    "s like 'a%'",
    "s like '_b'",
    r"s like '50\%'",
    "(i) in (0, 255)",
    "(s) not in ('a', 'b')",
    "i not between 0 and 256",
    f"s = '{DEFAULT}'",
    f"i = '{DEFAULT}'",
    f"i != '{DEFAULT}'",
    f"d = '{DEFAULT}'",
    's = "it\'s"',
    "s = 2020-06-17",
    "(struct(i, s)) in (struct(7, 'a'), struct(0, 'b'))",
    "(i = 7 or s = 'a') is not true",
    "i == 255",
    "i < 99999999999",
    "i = 99999999999",
]
REFUSED = [
    "s = 5",
    "i = 'a'",
    "i = '7'",
    "i <=> 255",
    "i in (1, 2)",
    "nosuch = 1",
    "'a' like s",
    "i like '7'",
    "d = 5",
    "not i = 7",
    "s not like 'a%'",
    "d = 2020-02-30",
    "i = ",
]
REFUSED_HERE_ONLY = ["i = 10.5", "i = 7 junk", "i > 0 && s = 'a'", "d = 'x'"]


@pytest.fixture(scope="module")
def both(target: ClusterEndpoints) -> Iterator[BothSides]:
    draw = random.Random(9452)  # noqa: S311 - the same partitions in every run
    with both_sides(target.metastore, draw.sample(list(itertools.product(*TEXTS)), 60)) as sides:
        yield sides


@pytest.mark.parametrize("text", EQUAL)
def test_both_answer_the_same_in_the_same_order(both: BothSides, text: str) -> None:
    assert both.ours(text) == both.theirs(text)


@pytest.mark.parametrize("text", REFUSED)
def test_both_refuse(both: BothSides, text: str) -> None:
    with pytest.raises(TException):
        both.theirs(text)
    with pytest.raises(BadFilter):
        both.ours(text)


@pytest.mark.parametrize("text", REFUSED_HERE_ONLY)
def test_what_the_metastore_reads_half_of_is_refused_here(both: BothSides, text: str) -> None:
    both.theirs(text)
    with pytest.raises(BadFilter):
        both.ours(text)


@pytest.mark.parametrize("most", [-1, 0, 1, 3, 1000])
def test_both_cut_off_at_the_same_place(both: BothSides, most: int) -> None:
    assert both.ours("i > 0", most) == both.theirs("i > 0", most)


@pytest.mark.parametrize(
    "values", [["7", "", ""], ["", "a", ""], ["", "", "1970-01-01"], ["255", "it's", ""], ["", "", ""]]
)
def test_both_find_the_same_for_a_partial_specification(both: BothSides, values: list[str]) -> None:
    theirs, ours = both.names_ps(values)
    assert ours == theirs


def test_the_last_value_of_a_short_specification_is_a_value_and_not_a_prefix(both: BothSides) -> None:
    theirs, ours = both.names_ps(["", "a"])
    assert set(ours) < set(theirs)
    assert all("/s=a/" in name for name in ours)


ASKED = [
    replace(INT, texts=tuple(TEXTS[0])),
    replace(STRING, constants=("", "a", "ab", "b", "it's", "Z", DEFAULT)),
    DATE,
]


@given(conditions((ASKED[0], ASKED[1], ASKED[2])))
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_both_answer_any_filter_the_same(both: BothSides, condition: Condition) -> None:
    assert both.ours(condition.text) == both.theirs(condition.text)


def test_a_number_is_a_number_here_and_a_text_in_hive_4(target: ClusterEndpoints) -> None:
    with both_sides(target.metastore, [("007", "xzy", "2020-06-17"), ("7", "x_y", "2020-06-17")]) as both:
        assert both.theirs("i = 7") == [("7", "x_y", "2020-06-17")]
        assert len(both.ours("i = 7")) == 2
        assert both.theirs("s != 'x_y'") == []
        assert both.ours("s != 'x_y'") == [("007", "xzy", "2020-06-17")]
