"""Every row of the seed's table of plans, with the correct result where the seed or Hive's own attempt was
wrong."""

from __future__ import annotations

import pytest

from state.partitions.index.partition_index import PartitionIndex
from state.partitions.index.prepared_filters import PreparedFilter
from tests.builders.partitions.indexed_tables import TABLE, an_index


ONE, TWO, NULLS_END, VALUES_END = "018000000a", "0180000014", "01", "02"
TEN, TEN_AFTER, TWENTY = "018000000a", "018000000b", "0180000014"


def planned(filter_text: str, *columns: str) -> tuple[PreparedFilter, list[tuple[str, str]]]:
    """The plan of a filter over int columns p1, c1, … and its ranges behind the table's prefix."""
    named = [(name, "int") for name in columns or ("p1",)]
    index: PartitionIndex = an_index(named, [])
    prepared = index.prepare(TABLE, filter_text)
    return prepared, [
        (start.hex(), "" if end is None else end.hex()) for start, end in prepared.access.ranges
    ]


ROWS = [
    ("p1 > 10 and p1 < 20", 1, [(TEN_AFTER, TWENTY)], True),
    ("p1 = 10", 1, [(TEN, TEN_AFTER)], True),
    ("p1 = 10", 2, [(TEN, TEN_AFTER)], True),
    ("p1 = 9 or p1 = 10", 2, [("0180000009", TEN_AFTER)], True),
    ("p1 = 8 or p1 = 10", 2, [("0180000008", "0180000009"), (TEN, TEN_AFTER)], True),
    ("p1 > 10 or p1 < 20", 2, [("01", "02")], True),
    ("p1 > 10 and c1 = 5", 2, [("0180000005" + TEN_AFTER, "0180000005" + "02")], True),
    ("p1 > 10 and c1 > 5", 2, [(TEN_AFTER, "02")], False),
    ("p1 < 20 and c1 > 5", 2, [("01", TWENTY)], False),
    ("p1 > 10 and p1 > 20 and p1 < 30 and p1 < 40", 1, [("0180000015", "018000001e")], True),
    ("p1 > 10 and (p1 > 20 or c1 = 5)", 2, [(TEN_AFTER, "02")], False),
    ("p1 > 10 and (p1 > 20 or c1 > 5)", 2, [(TEN_AFTER, "02")], False),
    ("10 < p1", 1, [(TEN_AFTER, "02")], True),
    ("(p1) in (10, 20)", 1, [(TEN, TEN_AFTER), (TWENTY, "0180000015")], True),
    ("p1 between 10 and 19", 1, [(TEN, TWENTY)], True),
    ("(p1) not in (10, 20)", 1, [("01", TEN), (TEN_AFTER, TWENTY), ("0180000015", "02")], True),
    ("p1 > 10 and p1 < 5", 1, [], True),
    ("p1 = 255", 1, [("01800000ff", "01800001")], True),
    ("p1 <= 255", 1, [("01", "01800001")], True),
    ("p1 > 255 and p1 <= 511", 2, [("01800001", "01800002")], True),
    ("p1 < 10 and p1 <= 10", 1, [("01", TEN)], True),
    ("p1 = 4294967296", 1, [], True),
    ("p1 != 4294967296", 1, [("01", "02")], True),
    ("p1 < 4294967296", 1, [("01", "02")], True),
    ("p1 >= 4294967296", 1, [], True),
    ("", 1, [("", "")], True),
]


@pytest.mark.parametrize(("text", "columns", "ranges", "exact"), ROWS)
def test_a_filter_becomes_the_ranges_of_the_seed(
    text: str, columns: int, ranges: list[tuple[str, str]], exact: bool
) -> None:
    prepared, found = planned(text, *["p1", "c1"][:columns])
    assert found == ranges
    assert (prepared.check is None) == exact


def test_a_whole_key_is_a_get() -> None:
    assert planned("p1 = 10")[0].access.whole_keys
    assert planned("p1 = 10 and c1 = 5", "p1", "c1")[0].access.whole_keys
    assert not planned("p1 = 10", "p1", "c1")[0].access.whole_keys


def test_a_condition_on_a_later_column_alone_reads_its_postings() -> None:
    prepared, ranges = planned("c1 = 5", "p1", "c1")
    assert prepared.access.column == 1
    assert ranges == [("0180000005", "0180000006")]


def test_an_or_with_a_whole_scan_is_one_whole_scan() -> None:
    prepared, ranges = planned("p1 = 10 or c1 > 5", "p1", "c1")
    assert (ranges, prepared.access.column) == ([("", "")], None)
    assert prepared.check is not None


def test_a_product_of_alternatives_becomes_boxes() -> None:
    prepared, ranges = planned("(p1 = 1 or c1 = 2) and (p1 = 3 or c1 = 4)", "p1", "c1")
    assert ranges == [
        ("01800000010180000004", "01800000010180000005"),
        ("01800000030180000002", "01800000030180000003"),
    ]
    assert prepared.check is None


def test_the_example_of_the_seed_with_year_month_and_state() -> None:
    index = an_index([("year", "string"), ("month", "string"), ("state", "string")], [])
    access = index.prepare(
        TABLE, "year = '2014' and (month > '10' or month < '03') and state like 'C%'"
    ).access
    year = "01" + b"2014".hex() + "00"
    assert access.column is None
    assert [(start.hex(), end.hex()) for start, end in access.ranges if end] == [
        (year + "01", year + "01" + b"03".hex() + "00"),
        (year + "01" + b"10".hex() + "01", year + "02"),
    ]
