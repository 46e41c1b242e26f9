"""Every filter on any partitions has the same answer as a plain loop over their values."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state.errors import LimitExceeded
from state.partitions.filters.conditions import compile_check
from state.partitions.filters.dialect import HIVE_4, Dialect
from state.partitions.filters.parser import parse_filter
from state.partitions.index import access_paths, check_budget
from state.partitions.index.access_paths import AccessPath, find_candidates, find_ranges
from state.partitions.index.explanation import explain_filter
from state.partitions.index.lookups import TableLookups
from state.partitions.index.partition_index import PartitionIndex
from state.partitions.index.prepared_filters import PreparedFilter
from state.partitions.index.scan_plans import plan_filter
from state.partitions.keys.partition_key import format_name
from state.store.memory import MemoryStore
from tests.builders.partitions.indexed_tables import (
    DATE,
    INT,
    NAIVE_COLUMNS,
    STRING,
    TABLE,
    Condition,
    NaiveColumn,
    an_index,
    conditions,
    rows_of,
)


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


@given(st.permutations(NAIVE_COLUMNS), st.integers(2, 3), st.data())
@settings(max_examples=150, deadline=None)
def test_alternatives_that_are_read_on_several_paths_find_the_same(
    columns: list[NaiveColumn], count: int, data: st.DataObject
) -> None:
    chosen = columns[:count]
    rows = data.draw(rows_of(chosen), "partitions")
    condition = data.draw(conditions(chosen), "filter")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(access_paths, "PROBED_KEYS", (1, 2, 4))
        expect_same(chosen, rows, condition)


@pytest.mark.parametrize(
    "text",
    [
        "hr = 5 or region = 'r7'",
        "hr = 5 or region = 'r7' or ds = '2024-01-07'",
        "(hr = 5 and ds > '2024-01-02') or (region = 'r7' and ds < '2024-01-09')",
    ],
)
def test_an_or_over_several_indexed_columns_reads_each_alternative_on_its_own_path(text: str) -> None:
    rows = [
        (f"2024-01-{day:02}", str(hour), f"r{region}")
        for day in range(1, 16)
        for hour in range(24)
        for region in range(24)
    ]
    index = an_index([("ds", "string"), ("hr", "int"), ("region", "string")], rows)
    explanation = explain_filter(index, TABLE, text)
    names = index.names(index.prepare(TABLE, text))
    assert explanation.matched_rows == len(names) == len(set(names))
    assert explanation.scanned_rows <= 1.2 * len(names) + 48, explanation.way
    assert "whole table" not in explanation.way


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
    expect_same_in_every_form(index, prepared, expected)
    expect_sound_paths(index, prepared, len(expected))


def expect_same_in_every_form(
    index: PartitionIndex, prepared: PreparedFilter, expected: Sequence[bytes]
) -> None:
    """Names, rows and payloads are of the same partitions, in the same order."""
    whole = [(found.name.encode(), found.payload) for found in index.partitions(prepared)]
    assert index.find_payloads(prepared) == whole
    for limit in (-1, 0, 2):
        cut = expected if limit < 0 else expected[:limit]
        assert index.find_names(prepared, limit) == cut
        rows = index.find_rows(prepared, limit)
        assert [name for name, _ in rows] == cut
        payloads = index.payloads(prepared.table, [row for _, row in rows])
        assert payloads == [payload for _, payload in whole[: len(cut)]]


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


def test_partial_specifications_and_expressions_are_planned_once() -> None:
    index = an_index([("ds", "string"), ("hr", "int")], [("a", "1"), ("b", "2")])
    table, node = index.table(TABLE), parse_filter("hr = 2", HIVE_4)
    assert node is not None
    for _ in range(3):
        assert TableLookups(index, TABLE).by_values(["", "1"]).names() == [b"ds=a/hr=1"]
        assert index.find_names(index.prepare_node(table, node)) == [b"ds=b/hr=2"]
    assert index.counts["plans"] == 2


def test_more_partitions_than_one_answer_may_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    index = an_index([("ds", "string")], [(f"{day}" * 50,) for day in range(200, 260)])
    monkeypatch.setattr(check_budget, "ANSWER_BYTES_MAX", 5_000)
    with pytest.raises(LimitExceeded, match="too long"):
        index.find_payloads(index.prepare(TABLE, ""))


@given(rows_of((INT, STRING, DATE)), st.sampled_from([b"\x00", b"\x01", b"\x02"]))
@settings(max_examples=50, deadline=None)
def test_a_column_has_a_field_with_a_marker_if_a_partition_has_it(
    rows: list[tuple[str, ...]], marker: bytes
) -> None:
    columns = (INT, STRING, DATE)
    index = an_index([(column.name, column.declared) for column in columns], rows)
    table = index.table(TABLE)
    fields = [table.key_schema.fields(values) for values in rows]
    for column in range(3):
        expected = any(each[column].startswith(marker) for each in fields)
        assert index.has_field(table, column, marker) is expected


EVEN = [
    (f"2024-01-{day:02d}", str(hour), region) for day in range(1, 31) for hour in range(24) for region in "qr"
]


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("ds >= '2024-01-30' and hr between 0 and 23", 48),
        ("ds >= '2024-01-30' and region like 'r%'", 48),
        ("hr >= 23 and region like 'r%'", 60),
        ("(hr) in (0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23) and region = 'r'", 720),
        ("hr = 5 and region = 'none'", 0),
        ("hr = 77 and region = 'r'", 0),
        ("ds < '2024-01-02' and region = 'r'", 48),
    ],
)
def test_the_path_with_the_fewest_keys_is_read(text: str, most: int) -> None:
    index = an_index([("ds", "string"), ("hr", "int"), ("region", "string")], EVEN)
    explanation = explain_filter(index, TABLE, text)
    assert explanation.scanned_rows <= most


@given(st.permutations(NAIVE_COLUMNS), st.data())
@settings(max_examples=60, deadline=None)
def test_no_other_path_reads_clearly_fewer_keys_than_the_chosen_one(
    columns: list[NaiveColumn], data: st.DataObject
) -> None:
    chosen = columns[:3]
    rows, condition = data.draw(rows_of(chosen), "partitions"), data.draw(conditions(chosen), "filter")
    index = an_index([(column.name, column.declared) for column in chosen], rows)
    prepared = index.prepare(TABLE, condition.text, DIALECT)

    def cost(access: AccessPath) -> int:
        ranges = replace(prepared, access=access, check=None, residual=None)
        return len(access.ranges) + sum(1 for _ in index.keys(ranges))

    assert prepared.condition is not None
    candidates = find_candidates(plan_filter(prepared.condition), 3)
    assert cost(prepared.access) <= min(cost(access) for access in candidates) + 4


@pytest.mark.parametrize(
    "text", ["ds >= '2024-01-30' and hr between 0 and 23", "hr = 5 and region = 'q' and ds != '2024-01-03'"]
)
def test_planning_reads_at_most_twice_as_many_keys_of_each_path_as_the_answer(text: str) -> None:
    store = CountingStore()
    index = an_index([("ds", "string"), ("hr", "int"), ("region", "string")], EVEN, store)
    store.keys_read = 0
    prepared = index.prepare(TABLE, text)
    planning, store.keys_read = store.keys_read, 0
    index.count(prepared)
    paths = 3
    assert planning <= paths * 2 * max(
        store.keys_read + len(prepared.access.ranges), access_paths.PROBED_KEYS[0]
    )


class CountingStore(MemoryStore):
    """Counts the keys that scans return."""

    keys_read = 0

    def scan_keys(self, start: bytes, end: bytes | None) -> Iterator[bytes]:
        for key in super().scan_keys(start, end):
            self.keys_read += 1
            yield key


def test_a_cached_plan_is_made_again_when_its_table_has_outgrown_it() -> None:
    store = MemoryStore()
    index = an_index([("ds", "string"), ("hr", "int"), ("region", "string")], EVEN[:2], store)
    text = "ds >= '2024-01-30' and hr between 0 and 23 and region != 'x'"
    assert explain_filter(index, TABLE, text).scanned_rows <= 2
    with store.transaction() as txn:
        change = index.change(txn)
        for number in range(3_000):
            change.add(TABLE, (f"2023-{number:04}", str(number % 24), "q"))
        for values in EVEN:
            change.add(TABLE, values)
    change.publish()
    first, second = (explain_filter(index, TABLE, text) for _ in range(2))
    assert first.scanned_rows > 3_000, "the postings of hr were as short as any path"
    assert first.matched_rows == second.matched_rows == 48
    assert second.scanned_rows <= 48
    assert index.counts["plans"] <= 2 + 1, "and not at every answer; one plan is that of all partitions"
    explain_filter(index, TABLE, text)
    assert index.counts["plans"] <= 2 + 1


def test_a_path_that_was_not_read_to_its_end_is_not_taken_for_a_short_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(access_paths, "PROBED_KEYS", (8, 16))
    rows = [(f"{number:04}", "y" if number < 5 else "x", "c") for number in range(1_000)]
    index = an_index([("a", "string"), ("b", "string"), ("c", "string")], rows)
    assert explain_filter(index, TABLE, "a >= '0' and b >= 'y' and c != 'z'").scanned_rows == 5


def test_the_brute_force_columns_contain_unconvertible_texts_and_nulls() -> None:
    for column in NAIVE_COLUMNS:
        values = [column.value(text) for text in column.texts]
        assert column is STRING or values.count(None) >= 2


def test_names_of_no_partition_of_the_table_find_nothing() -> None:
    index = an_index([("ds", "string"), ("hr", "int")], [("a", "1")])
    names = ["ds=a/hr=1", "ds=a", "hr=1/ds=a", "ds=a/hr=1/x=2", "ds=a/hr=1"]
    assert TableLookups(index, TABLE).by_names(names).names() == [b"ds=a/hr=1"]
