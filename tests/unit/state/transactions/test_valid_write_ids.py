"""Write-id lists: Hive's text and Thrift forms, visibility, and when the lists of two clusters are equal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import BadInput, LimitExceeded
from state.transactions import valid_write_ids
from state.transactions.valid_write_ids import (
    ValidWriteIds,
    WriteIdDifference,
    WriteIdState,
    compare_write_ids,
)


MARK_MAX = 12


@st.composite
def lists(draw: st.DrawFn) -> ValidWriteIds:
    mark = draw(st.integers(0, MARK_MAX))
    states = draw(st.lists(st.sampled_from("voa"), min_size=mark, max_size=mark))
    ids = {state: tuple(i for i, s in enumerate(states, 1) if s == state) for state in "voa"}
    return ValidWriteIds("db.tbl", mark, ids["o"], ids["a"])


@pytest.mark.parametrize(
    ("mark", "opened", "aborted"),
    [
        (-1, (), ()),
        (9, (10,), ()),
        (9, (0,), ()),
        (9, (), (10,)),
        (9, (3, 3), ()),
        (9, (4, 3), ()),
        (9, (3,), (3,)),
    ],
)
def test_ids_out_of_order_or_out_of_bounds_are_refused(
    mark: int, opened: tuple[int, ...], aborted: tuple[int, ...]
) -> None:
    with pytest.raises(BadInput):
        ValidWriteIds("db.tbl", mark, opened, aborted)


def test_a_list_of_outside_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="below 0"):
        ValidWriteIds("db.tbl", -1)
    monkeypatch.setattr(valid_write_ids, "IDS_MAX", 2)
    assert ValidWriteIds("db.tbl", 9, (1, 2), (3, 4)).may_be_cut is False
    with pytest.raises(LimitExceeded, match="too many"):
        ValidWriteIds("db.tbl", 9, (), (1, 2, 3))


@given(lists(), st.integers(0, MARK_MAX + 1))
def test_a_list_has_an_open_id_up_to_another_if_any_of_its_open_ids_is_not_higher(
    ids: ValidWriteIds, write_id: int
) -> None:
    assert ids.has_open_up_to(write_id) == any(each <= write_id for each in ids.open)


def test_the_open_id_itself_is_up_to_it() -> None:
    ids = ValidWriteIds("db.tbl", 9, (4, 7))
    assert [ids.has_open_up_to(write_id) for write_id in (3, 4, 5)] == [False, True, True]
    assert not ValidWriteIds("db.tbl", 9).has_open_up_to(9)


def test_the_text_names_the_lowest_open_id_or_javas_largest_number() -> None:
    assert ValidWriteIds("db.tbl", 9, (4, 7), (5,)).format() == "db.tbl:9:4:4,7:5"
    assert ValidWriteIds("db.tbl", 9).format() == "db.tbl:9:9223372036854775807::"
    assert ValidWriteIds("db.tbl", 9, (), (5, 6)).format() == "db.tbl:9:9223372036854775807::5,6"


def test_aborted_bits_are_read_as_java_writes_them() -> None:
    ids = ValidWriteIds.from_reply("db.tbl", 20, list(range(11, 21)), bytes([0x05, 0x02]))
    assert ids.aborted == (11, 13, 20)
    assert ids.open == (12, 14, 15, 16, 17, 18, 19)


@given(lists(), st.randoms())
def test_a_reply_gives_the_list_whatever_the_order_of_its_ids(ids: ValidWriteIds, random: object) -> None:
    invalid = [*ids.open, *ids.aborted]
    random.shuffle(invalid)  # type: ignore[attr-defined]
    bits = sum(1 << at for at, write_id in enumerate(invalid) if write_id in ids.aborted)
    packed = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
    assert ValidWriteIds.from_reply("db.tbl", ids.high_water_mark, invalid, packed) == ids


def test_aborted_bits_beyond_the_ids_are_refused() -> None:
    with pytest.raises(BadInput):
        ValidWriteIds.from_reply("db.tbl", 9, [1], b"\x02")


@given(lists(), st.integers(0, MARK_MAX + 2))
def test_ids_below_the_mark_that_are_neither_open_nor_aborted_are_visible(
    ids: ValidWriteIds, write_id: int
) -> None:
    hidden = write_id > ids.high_water_mark or write_id in {*ids.open, *ids.aborted}
    assert ids.is_visible(write_id) == (not hidden)


@given(lists())
def test_a_list_equals_itself(ids: ValidWriteIds) -> None:
    assert compare_write_ids(ids, replace(ids, table="other.name")) == ()


def differs(source: WriteIdState, target: WriteIdState) -> bool:
    """Return whether two states differ, by a second formulation of the rule that lists the differences."""
    unseen = set(WriteIdState) - {WriteIdState.VISIBLE}
    wrong = {
        (WriteIdState.VISIBLE, WriteIdState.OPEN): True,
        (WriteIdState.OPEN, WriteIdState.VISIBLE): True,
        (WriteIdState.OPEN, WriteIdState.ABORTED): True,
        (WriteIdState.ABORTED, WriteIdState.OPEN): True,
        (WriteIdState.OPEN, WriteIdState.UNALLOCATED): True,
        (WriteIdState.UNALLOCATED, WriteIdState.OPEN): True,
        **{(WriteIdState.VISIBLE, state): True for state in unseen - {WriteIdState.OPEN}},
        **{(state, WriteIdState.VISIBLE): True for state in unseen - {WriteIdState.OPEN}},
        (WriteIdState.ABORTED, WriteIdState.VISIBLE): False,
        (WriteIdState.UNALLOCATED, WriteIdState.ABORTED): True,
    }
    return wrong.get((source, target), False)


@given(lists(), lists())
def test_spans_of_differences_equal_a_comparison_id_by_id(
    source: ValidWriteIds, target: ValidWriteIds
) -> None:
    found = compare_write_ids(source, target)
    spread = {i: (d.source, d.target) for d in found for i in range(d.first, d.last + 1)}
    assert len(spread) == sum(d.last - d.first + 1 for d in found)
    for write_id in range(1, max(source.high_water_mark, target.high_water_mark) + 1):
        states = source.state_of(write_id), target.state_of(write_id)
        expected = differs(*states)
        assert spread.get(write_id) == (states if expected else None), write_id


def test_an_abort_that_the_target_forgot_is_not_a_difference() -> None:
    assert compare_write_ids(ValidWriteIds("s.t", 9, (), (4, 5)), ValidWriteIds("t.t", 9)) == ()
    assert compare_write_ids(ValidWriteIds("s.t", 9, (), (9,)), ValidWriteIds("t.t", 8)) == ()


def test_an_id_that_only_the_target_hides_is_a_difference() -> None:
    source, target = ValidWriteIds("s.t", 9), ValidWriteIds("t.t", 9, (), (4, 5))
    assert compare_write_ids(source, target) == (
        WriteIdDifference(4, 5, WriteIdState.VISIBLE, WriteIdState.ABORTED),
    )


def test_rows_that_a_bootstrap_left_invisible_are_a_difference() -> None:
    source = ValidWriteIds("s.t", 9, (), (4, 5))
    differences = compare_write_ids(source, ValidWriteIds("t.t", 5, (), (4, 5)))
    assert differences == (WriteIdDifference(6, 9, WriteIdState.VISIBLE, WriteIdState.UNALLOCATED),)
    assert str(differences[0]) == "6-9: visible at the source, unallocated at the target"


def test_a_list_cut_at_its_lowest_invalid_id_hides_the_ids_above() -> None:
    cut = ValidWriteIds("s.t", 4, (4,))
    assert cut.may_be_cut
    assert compare_write_ids(cut, ValidWriteIds("t.t", 6, (4, 6), (5,))) == ()
    assert compare_write_ids(cut, ValidWriteIds("t.t", 6, (4,), (5,))) == (
        WriteIdDifference(6, 6, WriteIdState.HIDDEN, WriteIdState.VISIBLE),
    )


def test_marks_far_apart_do_not_make_the_comparison_slow() -> None:
    (difference,) = compare_write_ids(ValidWriteIds("s.t", 2**62), ValidWriteIds("t.t", 0))
    assert (difference.first, difference.last) == (1, 2**62)
