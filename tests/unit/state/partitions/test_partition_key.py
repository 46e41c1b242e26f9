"""Partition keys: a recorded key, the seed's three properties, and two partitions with equal typed values."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state.errors import BadPartitionValue, LimitExceeded, StateCorrupt
from state.partitions.filters.intervals import after
from state.partitions.keys import partition_key
from state.partitions.keys.column_types import parse_columns
from state.partitions.keys.partition_key import ROW_BYTES_MAX, KeySchema, format_name
from tests.builders.partitions.indexed_tables import NAIVE_COLUMNS


SCHEMA = KeySchema(parse_columns([("ds", "string"), ("hr", "int")]))
PREFIX = b"\x01default\x00\x01events\x00"
ROWS = st.tuples(*(st.sampled_from(column.texts) for column in NAIVE_COLUMNS))
WIDE = KeySchema(parse_columns([(column.name, column.declared) for column in NAIVE_COLUMNS]))


def test_a_key_is_a_prefix_the_fields_the_partition_name_and_the_start_of_each() -> None:
    key = PREFIX + SCHEMA.row(["2020-01-01", "5"])
    fields = "01323032302d30312d303100" + "0180000005"
    name = b"ds=2020-01-01/hr=5\x00".hex()
    starts = "0024" + "0018" + "0013" + "02"
    assert key.hex() == PREFIX.hex() + fields + name + starts
    assert partition_key.name_reader(2)(key) == b"ds=2020-01-01/hr=5"
    assert [partition_key.field(key, 0).hex(), partition_key.field(key, 1).hex()] == [
        "01323032302d30312d303100",
        "0180000005",
    ]
    assert partition_key.strip_prefix(key) == SCHEMA.row(["2020-01-01", "5"])


@given(st.lists(ROWS, min_size=2, max_size=30), st.binary(max_size=20))
@settings(max_examples=150, deadline=None)
def test_keys_sort_by_fields_then_names_and_every_field_is_found_from_the_end(
    rows: list[tuple[str, ...]], prefix: bytes
) -> None:
    made = {prefix + WIDE.row(values): values for values in rows}
    by_fields = sorted(made, key=lambda key: (WIDE.fields(made[key]), WIDE.name(made[key]).encode()))
    assert sorted(made) == by_fields
    read_name = partition_key.name_reader(4)
    assert partition_key.read_names(made, 4) == [read_name(key) for key in made]
    for key, values in made.items():
        assert [partition_key.field(key, at) for at in range(4)] == WIDE.fields(values)
        assert read_name(key).decode() == WIDE.name(values)
        assert WIDE.row(values, name=WIDE.name(values)) == WIDE.row(values)
        assert prefix + partition_key.strip_prefix(key) == key
        for count in range(1, 5):
            start = prefix + b"".join(WIDE.fields(values)[:count])
            assert start <= key < after(start)


def test_two_partitions_with_the_same_typed_value_have_two_keys_with_equal_fields() -> None:
    one, other = SCHEMA.row(["a", "5"]), SCHEMA.row(["a", "05"])
    assert one != other
    assert partition_key.field(one, 1) == partition_key.field(other, 1)


def test_a_partition_with_another_number_of_values_is_refused() -> None:
    with pytest.raises(BadPartitionValue):
        SCHEMA.row(["a"])


def test_a_key_that_is_too_long_for_a_store_is_refused() -> None:
    with pytest.raises(LimitExceeded):
        SCHEMA.row(["x" * ROW_BYTES_MAX, "1"])


def test_a_table_without_columns_or_with_too_many_is_refused() -> None:
    for count in (0, 65):
        with pytest.raises(LimitExceeded):
            KeySchema(parse_columns([(f"c{at}", "int") for at in range(count)]))


@given(st.binary(max_size=40), st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_either_a_key_or_refused_as_corrupt(data: bytes, columns: int) -> None:
    try:
        key = partition_key.verify(data, columns)
    except StateCorrupt:
        return
    assert partition_key.name_reader(columns)(key) in key
    assert partition_key.strip_prefix(key) in key


def test_a_key_whose_fields_do_not_follow_each_other_is_refused() -> None:
    key = SCHEMA.row(["a", "5"])
    assert partition_key.verify(key, 2) == key
    for at in (-3, -5, -7):  # the position of a field takes two bytes, after which comes the number of fields
        moved = bytearray(key)
        moved[at] = 0xFF
        with pytest.raises(StateCorrupt, match="invalid field positions"):
            partition_key.verify(bytes(moved), 2)


@pytest.mark.parametrize(
    ("values", "name"),
    [
        (["2020-01-01", "5"], "ds=2020-01-01/hr=5"),
        (["a/b=c:d", "%"], "ds=a%2Fb%3Dc%3Ad/hr=%25"),
        (["a b'{[]}^\x7f\x01\n", ""], "ds=a b%27%7B%5B%5D}%5E%7F%01%0A/hr=__HIVE_DEFAULT_PARTITION__"),
        (["日 ~!$&()+,;<>@`|.-", "1"], "ds=日 ~!$&()+,;<>@`|.-/hr=1"),
    ],
)
def test_names_escape_the_characters_that_hive_escapes(values: list[str], name: str) -> None:
    assert format_name(["ds", "hr"], values) == name


def test_the_collector_looks_at_no_object_for_each_cached_field() -> None:
    schema = KeySchema(parse_columns([("dt", "string"), ("x", "int")]))
    gc.collect()
    before = len(gc.get_objects())
    for number in range(2_000):
        schema.fields([f"d{number}", str(number)])
    gc.collect()
    assert len(gc.get_objects()) - before < 100
