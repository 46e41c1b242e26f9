"""The same partitions in a real Hive 2.3 metastore and in an index that speaks its dialect, the same filters to both.

Where the two differ on purpose the test says so; docs/PARTITIONS.md lists it.
"""

from __future__ import annotations

import itertools
import os
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from thrift.Thrift import TException

from dev.stack.errors import StackError
from dev.stack.generations import OldMetastore
from state.errors import BadFilter
from state.partitions.dialect import HIVE_2
from tests.builders.both_sides import TEXTS, both_sides
from tests.builders.partitions import DATE, DEFAULT, INT, STRING, conditions


if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.builders.both_sides import BothSides
    from tests.builders.partitions import Condition


pytestmark = pytest.mark.generations

EQUAL = [
    "",
    "i = 7",
    "i != 7",
    "i > 255 and i <= 511",
    "255 < i",
    "i between 0 and 256",
    "i not between 0 and 256",
    "i < 99999999999",
    "s < 'b'",
    "s != 'a'",
    "s > 'Z'",
    "s between 'a' and 'b'",
    f"s = '{DEFAULT}'",
    's = "it\'s"',
    "s = 2020-06-17",
    "d = 2020-06-18",
    "d <= '2020-06-18'",
    "d != '2020-06-18'",
    "d between 2020-01-01 and 2021-01-01",
    "s like 'a%'",
    "s like 'a.*'",
    "s like '.b'",
    "(i) in (0, 255)",
    "(s) not in ('a', 'b')",
    "(struct(i, s)) in (struct(7, 'a'), struct(0, 'b'))",
]
REFUSED = [
    "s = 5",
    "i = 'a'",
    "i like '7'",
    f"i = '{DEFAULT}'",
    "i == 255",
    "i <=> 255",
    "i in (1, 2)",
    "i = 10.5",
    "nosuch = 1",
    "'a' like s",
    "s not like 'a%'",
    "not i = 7",
    "d = 5",
    "d = 'x'",
    "d = 2020-02-30",
    "d < DATE '2020-01-01'",
    "i > 0 && s = 'a'",
    "i = ",
]
REFUSED_HERE_ONLY = ["i = 7 junk", "(i = 7 or s = 'a') is not true"]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothSides]:
    server = OldMetastore(tmp_path_factory.mktemp("generation"), "2.3", has_log=False)
    try:
        server.start()
    except StackError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no metastore of Hive 2.3: {error}")
    draw = random.Random(9452)  # noqa: S311 - the same partitions in every run
    try:
        with both_sides(server.uri, draw.sample(list(itertools.product(*TEXTS)), 60), HIVE_2) as sides:
            yield sides
    finally:
        server.stop()


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


def test_a_backslash_before_a_wildcard_is_a_regular_expressions_here_and_finds_nothing_there(
    both: BothSides,
) -> None:
    assert both.theirs(r"s like '50\%'") == []
    assert {values[1] for values in both.ours(r"s like '50\%'")} == {"50%"}


ASKED = [
    replace(INT, texts=tuple(TEXTS[0])),
    replace(STRING, constants=("", "a", "ab", "b", "it's", "Z", DEFAULT)),
    DATE,
]


@given(conditions((ASKED[0], ASKED[2])))
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_both_answer_any_filter_on_numbers_and_dates_the_same(both: BothSides, condition: Condition) -> None:
    assert both.ours(condition.text) == both.theirs(condition.text)


@given(conditions((ASKED[0], ASKED[1], ASKED[2])))
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_both_answer_any_filter_the_same(both: BothSides, condition: Condition) -> None:
    assert both.ours(condition.text) == both.theirs(condition.text)
