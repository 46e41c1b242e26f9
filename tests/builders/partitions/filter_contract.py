"""The contract between a metastore and an index in its dialect:
tests of filters that run for every Hive version.

Tests that are the same for all versions are here; differences of one version are in the subclass.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from thrift.Thrift import TException

from state.errors import BadFilter
from tests.builders.partitions.indexed_tables import DATE, DEFAULT, INT, STRING, Condition, conditions
from tests.builders.partitions.metastore_and_index import TEXTS, BothSides


EQUAL = (
    "",
    "i = 7",
    "i != 7",
    "i > 255 and i <= 511",
    "255 < i",
    "i not between 0 and 256",
    "i < 99999999999",
    "s < 'b'",
    "s != 'a'",
    "s > 'Z'",
    f"s = '{DEFAULT}'",
    's = "it\'s"',
    "s = 2020-06-17",
    "d = 2020-06-18",
    "d <= '2020-06-18'",
    "d != '2020-06-18'",
    "s like 'a%'",
    "(i) in (0, 255)",
    "(s) not in ('a', 'b')",
    "(struct(i, s)) in (struct(7, 'a'), struct(0, 'b'))",
)
REFUSED = (
    "s = 5",
    "i = 'a'",
    "i like '7'",
    "i <=> 255",
    "i in (1, 2)",
    "nosuch = 1",
    "'a' like s",
    "s not like 'a%'",
    "not i = 7",
    "d = 5",
    "d = 2020-02-30",
    "i = ",
)
NUMBERS = replace(INT, texts=tuple(TEXTS[0]))
WORDS = replace(STRING, constants=("", "a", "ab", "b", "it's", "Z", DEFAULT))
DAYS = DATE
any_filters = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


class BothSidesContract:
    """``both`` is a fixture of the subclass' module; the class variables are the filters of its Hive
    version."""

    ALSO_EQUAL: ClassVar[tuple[str, ...]]
    ALSO_REFUSED: ClassVar[tuple[str, ...]]
    REFUSED_HERE_ONLY: ClassVar[tuple[str, ...]]
    """Filters of which the metastore reads only the first half."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrise each test with the filters that it names."""
        filters = {
            "equal": EQUAL + self.ALSO_EQUAL,
            "refused": REFUSED + self.ALSO_REFUSED,
            "half_read": self.REFUSED_HERE_ONLY,
        }
        for name in filters.keys() & set(metafunc.fixturenames):
            metafunc.parametrize(name, filters[name])

    def test_both_answer_the_same_in_the_same_order(self, both: BothSides, equal: str) -> None:
        assert both.ours(equal) == both.theirs(equal)

    def test_both_refuse(self, both: BothSides, refused: str) -> None:
        with pytest.raises(TException):
            both.theirs(refused)
        with pytest.raises(BadFilter):
            both.ours(refused)

    def test_what_the_metastore_reads_half_of_is_refused_here(self, both: BothSides, half_read: str) -> None:
        both.theirs(half_read)
        with pytest.raises(BadFilter):
            both.ours(half_read)

    @pytest.mark.parametrize("most", [-1, 0, 1, 3, 1000])
    def test_both_cut_off_at_the_same_place(self, both: BothSides, most: int) -> None:
        assert both.ours("i > 0", most) == both.theirs("i > 0", most)

    @given(conditions((NUMBERS, WORDS, DAYS)))
    @any_filters
    def test_both_answer_any_filter_the_same(self, both: BothSides, condition: Condition) -> None:
        assert both.ours(condition.text) == both.theirs(condition.text)
