"""A real Hive 2.3 metastore and an index in its dialect, with the same partitions and the same filters.

Deliberate differences are stated in the test and listed in docs/PARTITIONS.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given

from dev.stack.hive.old_metastore import OldMetastore
from state.partitions.filters.dialect import HIVE_2
from tests.builders.components.availability import start_or_skip
from tests.builders.partitions.filter_contract import DAYS, NUMBERS, BothSidesContract, any_filters
from tests.builders.partitions.indexed_tables import DEFAULT, Condition, conditions
from tests.builders.partitions.metastore_and_index import BothSides, both_sides, sixty_rows


pytestmark = pytest.mark.old_hive


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothSides]:
    server = OldMetastore(tmp_path_factory.mktemp("generation"), "2.3", has_log=False)
    with start_or_skip("metastore of Hive 2.3"):
        server.start()
    try:
        with both_sides(server.uri, sixty_rows(), HIVE_2) as sides:
            yield sides
    finally:
        server.stop()


class TestHive2(BothSidesContract):
    ALSO_EQUAL = (
        "i between 0 and 256",
        "s between 'a' and 'b'",
        "d between 2020-01-01 and 2021-01-01",
        "s like 'a.*'",
        "s like '.b'",
    )
    ALSO_REFUSED = (
        f"i = '{DEFAULT}'",
        "i == 255",
        "i = 10.5",
        "d = 'x'",
        "d < DATE '2020-01-01'",
        "i > 0 && s = 'a'",
    )
    REFUSED_HERE_ONLY = ("i = 7 junk", "(i = 7 or s = 'a') is not true")

    def test_a_backslash_before_a_wildcard_escapes_it_here_and_finds_nothing_in_hive_2(
        self, both: BothSides
    ) -> None:
        assert both.theirs(r"s like '50\%'") == []
        assert {values[1] for values in both.ours(r"s like '50\%'")} == {"50%"}

    @given(conditions((NUMBERS, DAYS)))
    @any_filters
    def test_both_give_the_same_answer_to_any_filter_on_numbers_and_dates(
        self, both: BothSides, condition: Condition
    ) -> None:
        assert both.ours(condition.text) == both.theirs(condition.text)
