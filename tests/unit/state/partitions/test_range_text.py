"""Ranges and conditions as text: read back as a filter, the text of a range selects the keys of the range."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from state.partitions.filters.dialect import HIVE_2, HIVE_4, Dialect
from state.partitions.filters.intervals import after
from state.partitions.index.explanation import describe_condition, explain_filter
from state.partitions.index.range_text import ALL, NONE, describe_range
from state.partitions.keys.binary_sortable import UNCONVERTIBLE, VALUE
from state.partitions.keys.column_types import parse_columns
from state.partitions.keys.partition_key import KeySchema
from tests.builders.partitions.indexed_tables import (
    DEFAULT,
    NAIVE_COLUMNS,
    TABLE,
    NaiveColumn,
    an_index,
    conditions,
    rows_of,
)


DIALECT = Dialect(all_types=True)
TYPES = [
    ("ds", "string"),
    ("hr", "int"),
    ("day", "date"),
    ("at", "timestamp"),
    ("x", "double"),
    ("d", "decimal(10,2)"),
]
VALUES = ("2024-01-01", "5", "2024-01-01", "2024-01-01 10:00:00", "1.5", "2.50")


def as_filter(text: str) -> str:
    """Return the text in the metastore's grammar: a list needs parentheses around its column, and NULL is a
    name."""
    text = re.sub(r"(\w+) (not )?in \(", r"(\1) \2in (", text)
    return re.sub(r"is (not )?null", lambda found: f"{'!=' if found[1] else '='} '{DEFAULT}'", text)


@given(st.permutations(NAIVE_COLUMNS), st.integers(1, 4), st.data())
@settings(max_examples=60, deadline=None)
def test_a_range_is_read_back_as_the_keys_that_it_contains(
    chosen: list[NaiveColumn], count: int, data: st.DataObject
) -> None:
    columns = [(column.name, column.declared) for column in chosen[:count]]
    rows = data.draw(rows_of(chosen[:count]), "partitions")
    index, schema = an_index(columns, rows), KeySchema(parse_columns(columns))
    prepared = index.prepare(TABLE, data.draw(conditions(chosen[:count]), "filter").text, DIALECT)
    for path in prepared.paths:
        order = [*([] if path.column is None else [schema.columns[path.column]]), *schema.columns]
        for start, end in path.ranges:
            text = describe_range(start, end, order)
            prefixes = [b"" if path.column is None else schema.fields(values)[path.column] for values in rows]
            keys = [prefix + schema.row(values) for prefix, values in zip(prefixes, rows, strict=True)]
            expected = {
                schema.name(values)
                for key, values in zip(keys, rows, strict=True)
                if start <= key and (end is None or key < end)
            }
            if text == ALL:
                assert len(expected) == len(rows)
            elif "value of" not in text and "\\" not in text:
                assert set(index.names(index.prepare(TABLE, as_filter(text), DIALECT))) == expected, text


@given(st.permutations(NAIVE_COLUMNS), st.integers(1, 3), st.data())
@settings(max_examples=60, deadline=None)
def test_a_condition_is_read_back_as_the_partitions_that_it_selects(
    chosen: list[NaiveColumn], count: int, data: st.DataObject
) -> None:
    index = an_index(
        [(column.name, column.declared) for column in chosen[:count]],
        data.draw(rows_of(chosen[:count]), "partitions"),
    )
    prepared = index.prepare(TABLE, data.draw(conditions(chosen[:count]), "filter").text, DIALECT)
    assert prepared.condition is not None
    text = describe_condition(
        prepared.condition, parse_columns([(c.name, c.declared) for c in chosen[:count]])
    )
    assume("value of" not in text and "\\" not in text and "…" not in text and NONE not in text)
    again = index.prepare(TABLE, as_filter(text) if text != ALL else "", DIALECT)
    assert index.names(again) == index.names(prepared), text


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        ("", ["every partition"]),
        ("ds = '2024-01-01'", ["ds = '2024-01-01'"]),
        ("ds >= '2024-01-01' and ds < '2024-01-02'", ["ds >= '2024-01-01' and ds < '2024-01-02'"]),
        ("ds > '2024-01-01' and ds <= '2024-01-02'", ["ds > '2024-01-01' and ds <= '2024-01-02'"]),
        ("ds > '2024-01-01'", ["ds > '2024-01-01'"]),
        ("ds < '2024-01-01'", ["ds < '2024-01-01'"]),
        ("ds != '2024-01-01'", ["ds < '2024-01-01'", "ds > '2024-01-01'"]),
        ("ds like '2024-01%'", ["ds like '2024-01%'"]),
        ("ds like '50\\%%'", ["ds like '50\\%%'"]),
        ("ds like '2024-01%' and ds > '2024-01-05'", ["ds > '2024-01-05' and ds < '2024-02'"]),
        ("ds like '2024-01%' and ds < '2024-01-05'", ["ds >= '2024-01' and ds < '2024-01-05'"]),
        ("ds < 'zÿ' or ds like 'zÿ%'", ["(ds <= 'zÿ' or ds like 'zÿ%')"]),
        ("(ds) in ('a', 'b')", ["ds = 'a'", "ds = 'b'"]),
        (f"ds = '{DEFAULT}'", [f"ds = '{DEFAULT}'"]),
        ('ds = "it\'s"', ['ds = "it\'s"']),
        ("ds = 'a' and hr = 5", ["ds = 'a' and hr = 5"]),
        ("ds = 'a' and hr > 5", ["ds = 'a' and hr >= 6"]),
        ("ds = 'a' and hr <= 255", ["ds = 'a' and hr < 256"]),
        (f"ds = 'a' and hr = '{DEFAULT}'", ["ds = 'a' and hr is null"]),
        (f"ds = 'a' and hr != '{DEFAULT}'", ["ds = 'a' and hr is not null"]),
        ("ds = 'a' and hr = 5 and day >= '2024-01-01'", ["ds = 'a' and hr = 5 and day >= '2024-01-01'"]),
    ],
)
def test_a_range_is_written_as_a_filter(filter_: str, expected: list[str]) -> None:
    index = an_index(TYPES[:3], [("a", "5", "2024-01-01")])
    assert list(explain_filter(index, TABLE, filter_).ranges) == expected


@pytest.mark.parametrize(
    ("column", "filter_", "expected"),
    [
        ("hr int", "hr > 4", "hr >= 5"),
        ("hr tinyint", "hr <= 126", "hr < 127"),
        ("hr bigint", "hr < 0", "hr < 0"),
        ("day date", "day <= '2024-01-01'", "day < '2024-01-02'"),
        ("day date", "day <= '9999-12-31'", "day <= '9999-12-31'"),
        ("at timestamp", "at <= '2024-01-01 10:00:00'", "at <= '2024-01-01 10:00:00'"),
        ("at timestamp", "at > '2024-01-01 10:00:00.5'", "at > '2024-01-01 10:00:00.5'"),
        ("at timestamp", "at > '0001-01-01 00:00:00'", "at > '0001-01-01 00:00:00'"),
        ("ds string", "ds = timestamp '0001-01-01 00:00:00'", "ds = '0001-01-01 00:00:00'"),
        ("x double", "x <= '1.5'", "x <= '1.5'"),
        ("x float", "x > '-1.5'", "x > '-1.5'"),
        ("x double", "x <= 'Infinity'", "x <= 'Infinity'"),
        ("d decimal(10,2)", "d <= '2.50'", "d <= '2.5'"),
        ("d decimal(10,2)", "d > '-2.50'", "d > '-2.5'"),
        ("d decimal(10,2)", "d < '-10'", "d < '-10'"),
        ("f boolean", "f = 'true'", "f = 'true'"),
        ("f boolean", "f <= 'false'", "f < 'true'"),
        ("b binary", "b >= 'ab'", "b >= 'ab'"),
        ("v varchar(5)", "v >= 'ab' and v < 'b'", "v >= 'ab' and v < 'b'"),
        ("c char(5)", "c = 'ab   '", "c = 'ab'"),
    ],
)
def test_values_of_every_type_are_written_as_the_filter_writes_them(
    column: str, filter_: str, expected: str
) -> None:
    name, declared = column.split(" ")
    index = an_index([(name, declared)], [("1",)])
    (text,) = explain_filter(index, TABLE, filter_, DIALECT).ranges
    assert text == expected
    again = index.prepare(TABLE, text, DIALECT)
    assert again.access.ranges == index.prepare(TABLE, filter_, DIALECT).access.ranges


@pytest.mark.parametrize(
    ("filter_", "dialect", "residual"),
    [
        ("ds like '%a'", HIVE_4, "ds like '%a'"),
        ("ds like 'x%a_'", HIVE_4, "ds like 'x%a_'"),
        ("ds like 'x.*a.'", HIVE_2, "ds like 'x%a_'"),
        ("ds > 'a' and hr > 5", HIVE_4, "hr >= 6"),
        ("ds > 'a' and hr != 5", HIVE_4, "hr != 5"),
        ("ds > 'a' and (hr) not in (5, 7)", HIVE_4, "hr not in (5, 7)"),
        ("ds like 'a%a' and (hr) in (5, 7)", HIVE_4, "(hr in (5, 7) and ds like 'a%a')"),
        ("ds > 'a' and (hr = 5 or hr > 7)", HIVE_4, "(hr = 5 or hr >= 8)"),
        ("hr = 5 or ds like '_'", HIVE_4, "(hr = 5 or ds like '_')"),
        (
            f"ds > 'a' and ({' or '.join(f'hr > {n} and hr < {n + 3}' for n in range(0, 40, 4))})",
            HIVE_4,
            f"({' or '.join(f'hr >= {n + 1} and hr < {n + 3}' for n in range(0, 32, 4))} or … 2 more)",
        ),
    ],
)
def test_a_residual_condition_is_written_as_a_filter(filter_: str, dialect: Dialect, residual: str) -> None:
    index = an_index(TYPES[:2], [("a", "5"), ("b", "6")])
    assert explain_filter(index, TABLE, filter_, dialect).residual == residual


def test_a_range_between_keys_of_different_prefixes_names_both_ends() -> None:
    columns = parse_columns([("a", "int"), ("b", "string")])
    schema = KeySchema(columns)
    one, two = (b"".join(schema.fields(values)) for values in (("1", "x"), ("3", "y")))
    assert (
        describe_range(one, two, columns) == "(a >= 2 or a = 1 and b >= 'x') and (a < 3 or a = 3 and b < 'y')"
    )
    assert (
        describe_range(after(one), None, columns)
        == "((a >= 2 or a is not a value of int) or a = 1 and b > 'x')"
    )


def test_a_column_with_an_odd_name_is_quoted_and_control_characters_are_escaped() -> None:
    index = an_index([("a b`c", "string")], [("x",)])
    assert explain_filter(index, TABLE, "`a b``c` = 'x\x1b[2J'").ranges == ("`a b``c` = 'x\\x1b[2J'",)


def test_a_range_without_a_beginning_names_its_end_alone() -> None:
    columns = parse_columns([("a", "int"), ("b", "string")])
    end = b"".join(KeySchema(columns).fields(("3", "y")))
    assert describe_range(b"", end, columns) == "((a is null or a < 3) or a = 3 and b < 'y')"


def test_a_range_after_all_texts_with_one_beginning_excludes_them() -> None:
    columns = parse_columns([("ds", "string")])
    start = after(VALUE + "zÿ".encode())
    assert describe_range(start, None, columns) == "ds > 'zÿ' and not ds like 'zÿ%'"


def test_the_texts_that_are_not_values_of_a_column_are_a_range() -> None:
    columns = parse_columns([("hr", "int")])
    assert describe_range(UNCONVERTIBLE, after(UNCONVERTIBLE), columns) == "hr is not a value of int"
