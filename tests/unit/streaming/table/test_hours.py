"""Hours as partitions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.files.paths import parse_location
from state.errors import BadPartitionValue, InvalidRequest
from streaming.settings import PartitionColumn
from streaming.table.hours import HOUR_S, HourColumns, parse_version, version_directory
from tests.builders.flat.layouts import HOUR


HOURS = st.integers(0, 1_000_000).map(lambda n: n * HOUR_S)
COLUMNS = st.sampled_from(
    [
        HourColumns(),
        HourColumns((PartitionColumn("h", "string", "%Y%m%d%H"),)),
        HourColumns((PartitionColumn("h", "int", "%Y%m%d%H"),)),
        HourColumns(
            (
                PartitionColumn("year", "int", "%Y"),
                PartitionColumn("month", "string", "%m"),
                PartitionColumn("day", "int", "%d"),
                PartitionColumn("hour", "string", "%H:00"),
            )
        ),
    ]
)


@given(columns=COLUMNS, hour=HOURS)
def test_an_hour_is_parsed_from_its_values_and_from_its_name(columns: HourColumns, hour: int) -> None:
    assert columns.hour(columns.values(hour)) == hour
    assert columns.parse_name(columns.partition_name(hour)) == hour


def test_values_are_written_as_hive_writes_them() -> None:
    assert HourColumns().values(HOUR - 16 * HOUR_S) == ("2016-04-18", "5")
    assert HourColumns().partition_name(HOUR - 16 * HOUR_S) == "yyyy_mm_dd=2016-04-18/hh=5"
    colon = HourColumns((PartitionColumn("h", "string", "%Y-%m-%d %H:00"),))
    assert colon.partition_name(HOUR) == "h=2016-04-18 21%3A00"


@pytest.mark.parametrize(
    "values",
    [
        ("2016-04-18", "05"),
        ("2016-4-18", "5"),
        ("2016-04-18", "24"),
        ("2016-04-18", "__HIVE_DEFAULT_PARTITION__"),
        ("2016-04-18",),
        ("2016-04-18", "5", "6"),
        ("", ""),
    ],
)
def test_values_that_are_not_an_hour_are_refused(values: tuple[str, ...]) -> None:
    with pytest.raises(BadPartitionValue):
        HourColumns().hour(values)


@pytest.mark.parametrize("name", ["hh=5/yyyy_mm_dd=2016-04-18", "yyyy_mm_dd=2016-04-18", "x", ""])
def test_names_of_other_columns_are_refused(name: str) -> None:
    with pytest.raises(BadPartitionValue):
        HourColumns().parse_name(name)


@given(columns=COLUMNS)
def test_the_columns_are_restored_from_the_table(columns: HourColumns) -> None:
    keys = [(column.name, column.type) for column in columns.columns]
    assert HourColumns.from_table(keys, columns.patterns_text) == columns


@pytest.mark.parametrize("text", ["", "{}", "[1,2]", '["%Y"]', "null"])
def test_patterns_that_do_not_fit_the_columns_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        HourColumns.from_table([("d", "string"), ("h", "int")], text)


def test_versions_are_directories_of_the_hour() -> None:
    place = version_directory(parse_location("/t/d=1/h=2"), 12)
    assert str(place) == "file:/t/d=1/h=2/v12"
    assert parse_version(place) == 12
    assert [parse_version(parse_location(f"/t/{name}")) for name in ("v0", "v", "x1", "v01", "1")] == [
        None
    ] * 5
