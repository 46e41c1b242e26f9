"""A layout reads back from its table, and a table that was altered by something else is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.columns.names import choose_column_name
from state.columns.paths import KeyPath
from state.columns.slot_codec import (
    COMMENT_CHARS_MAX,
    VERSION_PARAMETER,
    Column,
    encode_columns,
    encode_parameters,
    format_hour,
    parse_hour,
    parse_layout,
    replace_parameters,
)
from state.columns.slots import HOUR_S, Layout, Slot, SlotState
from state.columns.types import ColumnType
from state.errors import BadInput, FlatTableAltered
from tests.builders.flat.columns import T0, a_layout, a_slot, keys


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    slots: list[Slot] = []
    names: list[str] = []
    long_keys = keys().map(lambda key: KeyPath((*key.members, "\u00e9" * 300)))
    for index, key in enumerate(draw(st.lists(st.one_of(keys(), long_keys), unique=True, max_size=6)), 1):
        names.append(choose_column_name(key, names))
        hours = draw(
            st.one_of(st.none(), st.lists(st.integers(0, 2**20), min_size=2, max_size=2).map(sorted))
        )
        first, last = (None, None) if hours is None else (hours[0] * HOUR_S, hours[1] * HOUR_S)
        column_type = draw(st.sampled_from([each for each in ColumnType if each is not ColumnType.NULL]))
        state = draw(st.sampled_from([SlotState.LIVE, SlotState.EMPTY]))
        former = draw(st.one_of(st.none(), st.just(f"former/{index}")))
        slots.append(Slot(index, names[-1], key, column_type, first, last, state, former))
    return a_layout(*slots, version=draw(st.integers(1, 10**12)))


@given(layouts())
def test_what_is_written_reads_back_as_the_layout(layout: Layout) -> None:
    columns = encode_columns(layout)
    assert parse_layout(columns, encode_parameters(layout)) == layout
    for column in columns:
        assert column.comment is not None
        assert len(column.comment) <= COMMENT_CHARS_MAX
        assert column.comment.isascii()
    assert all(text.isascii() for text in encode_parameters(layout).values())


@given(layouts(), layouts())
def test_parameters_of_an_earlier_layout_leave_nothing_behind(before: Layout, after: Layout) -> None:
    foreign = {"EXTERNAL": "TRUE", "tideline.writer": "w"}
    parameters = replace_parameters(replace_parameters(foreign, before), after)
    assert parameters == foreign | encode_parameters(after)


LAYOUT = a_layout(a_slot(1, "a.b", ColumnType.INT), a_slot(2, "c"), version=7)
COLUMNS = encode_columns(LAYOUT)


def test_a_comment_is_short_readable_json() -> None:
    assert COLUMNS[1].comment == '{"k":"$.a.b","f":"2027011508","l":"2027011508","t":"int"}'


@pytest.mark.parametrize(
    "column",
    [
        Column("a/b", "bigint", COLUMNS[1].comment),
        Column("a/b", "decimal(10,2)", COLUMNS[1].comment),
        Column("a/b", "int", None),
        Column("a/b", "int", "the number of b"),
        Column("a/b", "int", "[]"),
        Column("a/b", "int", "[" * 250),
        Column("a/b", "int", '{"k":"$.a.b","t":"int","x":"1"}'),
        Column("a/b", "int", '{"k":"$.a.b","t":"int","s":"gone"}'),
        Column("a/b", "int", '{"k":"$.a.b","t":"int","f":"2027011508"}'),
        Column("a/b", "int", '{"k":"$.a.b","t":"int","f":"2027019908","l":"2027011508"}'),
        Column("a/b", "int", '{"k":"a.b","t":"int"}'),
        Column("a/b", "int", '{"k":"$[\'a\'].b","t":"int"}'),
        Column("a/b", "int", '{"k":["$.a"],"t":"int"}'),
        Column("a/b", "int", '{"d":"0123456789abcdef","t":"int"}'),
        Column("a.b", "int", COLUMNS[1].comment),
        Column("c", "int", COLUMNS[1].comment),
        Column("c/d", "int", '{"k":"$.c","t":"int"}'),
        Column("_rescued", "int", COLUMNS[1].comment),
    ],
)
def test_a_column_that_was_altered_by_hand_is_refused(column: Column) -> None:
    with pytest.raises(FlatTableAltered):
        parse_layout([COLUMNS[0], column, COLUMNS[2]], encode_parameters(LAYOUT))


@pytest.mark.parametrize(
    "columns", [[], COLUMNS[1:], [COLUMNS[0], COLUMNS[1], COLUMNS[1]], [COLUMNS[0]._replace(type="int")]]
)
def test_columns_that_were_dropped_or_moved_are_refused(columns: list[Column]) -> None:
    with pytest.raises(FlatTableAltered):
        parse_layout(columns, encode_parameters(LAYOUT))


@pytest.mark.parametrize("version", [None, "", "0", "-1", "one", "\u0661", "9" * 30])
def test_a_table_without_a_version_is_refused(version: str | None) -> None:
    parameters = {} if version is None else {VERSION_PARAMETER: version}
    with pytest.raises(FlatTableAltered):
        parse_layout(COLUMNS, parameters)


@pytest.mark.parametrize("value", [None, "", "1", "[", '"$.other"'])
def test_a_long_key_whose_parameter_was_altered_is_refused(value: str | None) -> None:
    layout = a_layout(replace(a_slot(1, "x" * 400), name="x"))
    parameters = encode_parameters(layout)
    assert json.loads(parameters.pop("tideline.key.1")) == "$." + "x" * 400
    if value is not None:
        parameters["tideline.key.1"] = value
    with pytest.raises(FlatTableAltered):
        parse_layout(encode_columns(layout), parameters)


def test_hours_are_written_in_utc() -> None:
    assert format_hour(T0) == "2027011508"
    assert parse_hour("2027011508") == T0
    for text in ("", "2027", "2027011524", "2027-01-15", "\u0662027011508"):
        with pytest.raises(BadInput):
            parse_hour(text)
