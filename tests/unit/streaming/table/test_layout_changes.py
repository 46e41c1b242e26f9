"""Which layout may replace which, and which names and texts a table may have."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.columns.slots import Layout, check_successor
from state.columns.types import ColumnType, readers_accept
from state.errors import BadInput, InvalidRequest, LimitExceeded
from streaming.table.parameters import check_columns, check_parameters, merge_parameters
from tests.builders.flat.layouts import a_layout, next_version, rekeyed, retyped, with_keys


TYPES = st.sampled_from([each for each in ColumnType if each is not ColumnType.NULL])
LAYOUT = a_layout({"a": ColumnType.INT, "b": ColumnType.STRING})
ALL = (0, 1, 2)


def test_slots_may_be_appended() -> None:
    check_successor(LAYOUT, with_keys(next_version(LAYOUT), {"c": ColumnType.BOOLEAN}), ())


@pytest.mark.parametrize("version", [0, 1])
def test_a_version_that_is_not_higher_is_refused(version: int) -> None:
    old = replace(LAYOUT, version=2)
    with pytest.raises(InvalidRequest, match="higher version"):
        check_successor(old, replace(LAYOUT, version=1 + version), ())


def test_slots_are_never_dropped() -> None:
    shorter = Layout(2, LAYOUT.slots[:-1])
    with pytest.raises(InvalidRequest, match="must not be dropped"):
        check_successor(LAYOUT, shorter, ALL)


def test_swapped_slots_of_one_type_are_refused() -> None:
    layout = a_layout({"a": ColumnType.STRING, "b": ColumnType.STRING})
    first, second = layout.slots[1:]
    swapped = Layout(2, (layout.slots[0], replace(second, index=1), replace(first, index=2)))
    with pytest.raises(InvalidRequest, match="another key"):
        check_successor(layout, swapped, ())


def test_an_empty_text_slot_cannot_become_numeric() -> None:
    with pytest.raises(InvalidRequest, match="metastore"):
        check_successor(LAYOUT, rekeyed(next_version(LAYOUT), 2, "c", ColumnType.BIGINT), ALL)


@given(old=TYPES, new=TYPES)
def test_only_a_text_column_is_narrowed_and_only_to_a_number(old: ColumnType, new: ColumnType) -> None:
    layout = a_layout({"a": old})
    after = retyped(next_version(layout), 1, new)
    if old is ColumnType.STRING and new.is_numeric:
        check_successor(layout, after, (), narrowed=[1])
        with pytest.raises(InvalidRequest, match="keep its key"):
            check_successor(layout, rekeyed(after, 1, "c", new), (), narrowed=[1])
    else:
        with pytest.raises(InvalidRequest, match="narrowed"):
            check_successor(layout, after, (), narrowed=[1])


@given(old=TYPES, new=TYPES)
def test_without_proof_only_numeric_widening_is_accepted(old: ColumnType, new: ColumnType) -> None:
    layout = a_layout({"a": old})
    after = retyped(next_version(layout), 1, new)
    if readers_accept(old, new):
        check_successor(layout, after, ())
    else:
        with pytest.raises(InvalidRequest):
            check_successor(layout, after, ())


@pytest.mark.parametrize("name", ["a.b", "a:b", "a,b", "a`b", "A", "", "hh", "a\\b"])
def test_names_that_break_a_reader_are_refused(name: str) -> None:
    with pytest.raises(BadInput):
        check_columns([(name, "")], ["hh"])


def test_two_columns_with_the_same_name_are_refused() -> None:
    with pytest.raises(BadInput, match="the same name"):
        check_columns([("a/b", ""), ("a/b", "")], [])


def test_a_comment_of_256_characters_fits_and_one_more_does_not() -> None:
    check_columns([("a", "x" * 256)], [])
    with pytest.raises(LimitExceeded):
        check_columns([("a", "x" * 257)], [])


@pytest.mark.parametrize("parameters", [{"tideline." + "k" * 248: "v"}, {"tideline.k": "v" * 4_001}])
def test_long_parameters_are_refused(parameters: dict[str, str | None]) -> None:
    with pytest.raises(LimitExceeded):
        check_parameters(parameters)


def test_foreign_parameters_are_kept_and_stale_ones_removed() -> None:
    old = {"a": "1", "tideline.x": "1", "numRows": "7", "spark.sql.sources.schema": "{}"}
    assert merge_parameters(old, {"tideline.x": None, "tideline.y": "2"}) == {"a": "1", "tideline.y": "2"}
