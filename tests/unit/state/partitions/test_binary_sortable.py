"""Fields: recorded bytes of Hive's serde, their order, decoding, and texts that are not values of their
type."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state.errors import StateCorrupt
from state.partitions.keys.binary_sortable import Instant, Unconvertible, Value, decode, encode
from state.partitions.keys.column_types import ColumnType, TypeKind
from state.partitions.keys.values import DEFAULT_PARTITION, encode_text, parse_value


GOLDEN = [
    ("boolean", "false", "0101"),
    ("boolean", "true", "0102"),
    ("tinyint", "0", "0180"),
    ("smallint", "1", "018001"),
    ("int", "0", "0180000000"),
    ("int", "10", "018000000a"),
    ("int", "255", "01800000ff"),
    ("int", "-1", "017fffffff"),
    ("int", "-2147483648", "0100000000"),
    ("bigint", "1", "018000000000000001"),
    ("double", "1.5", "01bff8000000000000"),
    ("double", "-1.5", "014007ffffffffffff"),
    ("double", "-0.0", "018000000000000000"),
    ("double", "NaN", "01fff8000000000000"),
    ("string", "", "0100"),
    ("string", "a", "016100"),
    ("string", "ab", "01616200"),
    ("string", "a\x00b", "016101016200"),
    ("string", "a\x01b", "016101026200"),
    ("string", "日", "01e697a500"),
    ("char(5)", "a  ", "016100"),
    ("binary", "a", "016100"),
    ("date", "1970-01-01", "0180000000"),
    ("date", "2020-02-29", "0180004791"),
    ("date", "1969-12-31", "017fffffff"),
    ("timestamp", "1970-01-01 00:00:00", "018000000000000000000000"),
    ("timestamp", "2020-01-01 00:00:00.5", "018000005e0be1001dcd6500"),
    ("decimal(10,2)", "1", "0102800000013100"),
    ("decimal(10,2)", "1.00", "0102800000013100"),
    ("decimal(10,2)", "10", "010280000002313000"),
    ("decimal(10,2)", "0.05", "01027fffffff3500"),
    ("decimal(10,2)", "0", "01017fffffff3000"),
    ("decimal(10,2)", "-1", "01007fffffffceff"),
    ("decimal(10,2)", "-10.5", "01007ffffffececfcaff"),
]
UNCONVERTIBLE = [
    ("int", "abc"),
    ("int", "10.7"),
    ("int", " 10"),
    ("int", ""),
    ("int", "2147483648"),
    ("int", "\uff11\uff10"),
    ("tinyint", "300"),
    ("boolean", "yes"),
    ("date", "x"),
    ("date", "2020-02-30"),
    ("date", "2020-1-1"),
    ("timestamp", "2020-01-01"),
    ("timestamp", "2020-01-01 24:00:00"),
    ("decimal(10,2)", "123.456"),
    ("decimal(4,2)", "100"),
    ("float", "1e39"),
    ("double", "0x10"),
]


@pytest.mark.parametrize(("declared", "text", "field"), GOLDEN)
def test_a_field_has_the_bytes_of_hives_serde(declared: str, text: str, field: str) -> None:
    assert encode_text(ColumnType.parse(declared), text).hex() == field


@pytest.mark.parametrize(("declared", "text"), UNCONVERTIBLE)
def test_a_text_that_is_not_a_value_keeps_its_text_and_sorts_after_all_values(
    declared: str, text: str
) -> None:
    type_ = ColumnType.parse(declared)
    field = encode_text(type_, text)
    assert field[0] == 2
    assert decode(type_, field) == Unconvertible(text)


@pytest.mark.parametrize("text", ["010", "10", "+10"])
def test_texts_of_the_same_number_have_the_same_field(text: str) -> None:
    assert encode_text(ColumnType.parse("int"), text).hex() == "018000000a"


def test_the_default_partition_is_null_in_typed_columns_and_text_in_others() -> None:
    assert encode_text(ColumnType.parse("int"), DEFAULT_PARTITION) == b"\x00"
    assert parse_value(ColumnType.parse("string"), DEFAULT_PARTITION) == DEFAULT_PARTITION
    assert encode_text(ColumnType.parse("int"), "none", "none") == b"\x00"


VALUES: dict[str, st.SearchStrategy[Value]] = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "decimal(38,18)": st.decimals(-(10**19), 10**19, allow_nan=False, allow_infinity=False, places=18),
    "string": st.text(st.characters(exclude_categories=["Cs"])),
    "binary": st.binary(max_size=8) | st.text("\x00\x01\x02ÿ").map(str.encode),
    "date": st.dates(),
    "timestamp": st.builds(Instant, st.integers(-(2**40), 2**40), st.integers(0, 10**9 - 1)),
}


@given(st.sampled_from(sorted(VALUES)), st.data())
@settings(max_examples=400, deadline=None)
def test_bytes_sort_like_values_and_fields_decode_to_their_values(declared: str, data: st.DataObject) -> None:
    type_ = ColumnType.parse(declared)
    one, other = data.draw(VALUES[declared]), data.draw(VALUES[declared])
    fields = encode(type_.kind, one), encode(type_.kind, other)
    assert decode(type_, fields[0]) == one
    keys = [(value.encode() if isinstance(value, str) else value) for value in (one, other)]
    low: Any = keys[0]
    expected = (low > keys[1]) - (low < keys[1])
    assert (fields[0] > fields[1]) - (fields[0] < fields[1]) == expected
    assert fields[0] == fields[1] or not fields[0].startswith(fields[1])


@pytest.mark.parametrize("declared", sorted(VALUES))
def test_null_is_a_field_of_every_type(declared: str) -> None:
    type_ = ColumnType.parse(declared)
    assert decode(type_, encode(type_.kind, None)) is None


@given(st.sampled_from(sorted(VALUES)), st.binary(max_size=14))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_decoded_or_refused_as_corrupt(declared: str, field: bytes) -> None:
    type_ = ColumnType.parse(declared)
    for marked in (field, b"\x01" + field, b"\x02" + field):
        try:
            value = decode(type_, marked)
        except StateCorrupt:
            continue
        assert value is None or isinstance(
            value, bool | int | float | Decimal | str | bytes | dt.date | tuple | Unconvertible
        )


def test_a_decimal_with_more_digits_than_hive_allows_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(StateCorrupt):
        decode(ColumnType.parse("decimal(38,10)"), bytes.fromhex("0102c001203120310000"))
    with pytest.raises(StateCorrupt):
        decode(ColumnType.parse("decimal(38,10)"), b"\x01\x02\x80\x00\x00\x27" + b"1" * 39 + b"\x00")


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ("DECIMAL( 10 , 2 )", TypeKind.DECIMAL),
        ("decimal(39,2)", TypeKind.OTHER),
        ("decimal(5,6)", TypeKind.OTHER),
        ("varchar(20)", TypeKind.VARCHAR),
        ("timestamp with local time zone", TypeKind.OTHER),
        ("array<int>", TypeKind.OTHER),
        ("integer", TypeKind.INT),
    ],
)
def test_types_are_parsed_as_the_metastore_writes_them(declared: str, kind: TypeKind) -> None:
    assert ColumnType.parse(declared).kind is kind
