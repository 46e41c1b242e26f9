"""A real Hive 4 metastore and the index, with the same partitions and the same filters.

Deliberate differences are stated in the test and listed in docs/PARTITIONS.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dev.stack.endpoints import ClusterEndpoints
from tests.builders.partitions.filter_contract import BothSidesContract
from tests.builders.partitions.indexed_tables import DEFAULT
from tests.builders.partitions.metastore_and_index import BothSides, both_sides, sixty_rows


@pytest.fixture(scope="module")
def both(target: ClusterEndpoints) -> Iterator[BothSides]:
    with both_sides(target.metastore, sixty_rows()) as sides:
        yield sides


class TestHive4(BothSidesContract):
    ALSO_EQUAL = (
        "d < DATE '2020-01-01'",
        "s like '_b'",
        r"s like '50\%'",
        f"i = '{DEFAULT}'",
        f"i != '{DEFAULT}'",
        f"d = '{DEFAULT}'",
        "(i = 7 or s = 'a') is not true",
        "i == 255",
        "i = 99999999999",
    )
    ALSO_REFUSED = ("i = '7'",)
    REFUSED_HERE_ONLY = ("i = 10.5", "i = 7 junk", "i > 0 && s = 'a'", "d = 'x'")

    @pytest.mark.parametrize(
        "values", [["7", "", ""], ["", "a", ""], ["", "", "1970-01-01"], ["255", "it's", ""], ["", "", ""]]
    )
    def test_both_find_the_same_for_a_partial_specification(self, both: BothSides, values: list[str]) -> None:
        theirs, ours = both.names_ps(values)
        assert ours == theirs

    def test_the_last_value_of_a_short_specification_is_a_value_and_not_a_prefix(
        self, both: BothSides
    ) -> None:
        theirs, ours = both.names_ps(["", "a"])
        assert set(ours) < set(theirs)
        assert all("/s=a/" in name for name in ours)

    def test_a_number_is_compared_as_a_number_here_and_as_text_in_hive_4(
        self, target: ClusterEndpoints
    ) -> None:
        rows = [("007", "xzy", "2020-06-17"), ("7", "x_y", "2020-06-17")]
        with both_sides(target.metastore, rows) as both:
            assert both.theirs("i = 7") == [("7", "x_y", "2020-06-17")]
            assert len(both.ours("i = 7")) == 2
            assert both.theirs("s != 'x_y'") == []
            assert both.ours("s != 'x_y'") == [("007", "xzy", "2020-06-17")]
