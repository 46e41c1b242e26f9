"""Every filter on any partitions has the same answer as a plain loop over their values."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from state.partitions.filters.conditions import compile_check
from state.partitions.filters.dialect import Dialect
from state.partitions.index.key_ranges import find_ranges
from state.partitions.index.scan_plans import plan_filter
from state.partitions.keys.partition_key import format_name
from tests.builders.partitions.indexed_tables import (
    DATE,
    INT,
    NAIVE_COLUMNS,
    STRING,
    TABLE,
    an_index,
    conditions,
    rows_of,
)


if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.partitions.index.partition_index import PartitionIndex, PreparedFilter
    from tests.builders.partitions.indexed_tables import Condition, NaiveColumn


DIALECT = Dialect(all_types=True)


@given(st.permutations(NAIVE_COLUMNS), st.integers(1, 4), st.data())
@settings(max_examples=200, deadline=None)
def test_every_filter_finds_what_a_loop_over_the_values_finds(
    columns: list[NaiveColumn], count: int, data: st.DataObject
) -> None:
    chosen = columns[:count]
    rows = data.draw(rows_of(chosen), "partitions")
    condition = data.draw(conditions(chosen), "filter")
    expect_same(chosen, rows, condition)


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_values_next_to_full_low_bytes_are_found_on_the_right_side_of_every_bound(
    data: st.DataObject,
) -> None:
    columns = [INT, DATE]
    rows = list(itertools.product(INT.texts, DATE.texts))
    expect_same(columns, rows, data.draw(conditions(columns), "filter"))


def test_two_bounds_that_look_like_one_value_are_a_range_of_values() -> None:
    rows = [(str(number), "a") for number in range(250, 520)]
    index = an_index([("i", "int"), ("s", "string")], rows)
    assert index.count(index.prepare(TABLE, "i > 255 and i <= 511 and s = 'a'")) == 256


def expect_same(
    columns: Sequence[NaiveColumn], rows: Sequence[tuple[str, ...]], condition: Condition
) -> None:
    index = an_index([(column.name, column.declared) for column in columns], rows)
    prepared = index.prepare(TABLE, condition.text, DIALECT)
    names = [column.name for column in columns]
    expected = sorted(format_name(names, values).encode() for values in rows if condition.holds(values))
    assert [name.encode() for name in index.names(prepared)] == expected
    expect_sound_paths(index, prepared, len(expected))


def expect_sound_paths(index: PartitionIndex, prepared: PreparedFilter, matching: int) -> None:
    """Every access path finds all matches, and an exact one nothing else."""
    assert prepared.condition is not None
    plan, columns = plan_filter(prepared.condition), len(prepared.table.key_schema.columns)
    plan.check()
    check = compile_check(prepared.condition, columns)
    for path in [None, *range(1, columns)]:
        access = find_ranges(plan, columns, path)
        edges = [edge for range_ in access.ranges for edge in range_]
        assert edges == sorted(set(edges), key=lambda edge: edge or b"\xff")
        found = list(index.keys(replace(prepared, access=access, check=None)))
        assert sum(check(key) for key in found) == matching
        assert len(found) == matching or not access.exact


def test_the_brute_force_columns_contain_unconvertible_texts_and_nulls() -> None:
    for column in NAIVE_COLUMNS:
        values = [column.value(text) for text in column.texts]
        assert column is STRING or values.count(None) >= 2
