"""The type follows from the evidence alone, whatever the order of the values."""

from __future__ import annotations

from functools import reduce
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from state.columns.types import (
    DOUBLE_EXACT_MAX,
    NOTHING,
    ColumnType,
    Evidence,
    integers,
    metastore_accepts,
    readers_accept,
)
from tests.builders.flat.columns import BOOLEANS, FLOATS, TEXT, evidences


def test_the_join_of_types_is_a_semilattice() -> None:
    for one, two, three in product(ColumnType, repeat=3):
        assert one.join(two) is two.join(one)
        assert one.join(one) is one
        assert one.join(two).join(three) is one.join(two.join(three))
        assert one.join(ColumnType.NULL) is one
        assert one.join(ColumnType.STRING) is ColumnType.STRING


@given(evidences(), evidences(), evidences())
def test_the_join_of_evidence_is_a_semilattice(one: Evidence, two: Evidence, three: Evidence) -> None:
    assert one.join(two) == two.join(one)
    assert one.join(one) == one
    assert one.join(two).join(three) == one.join(two.join(three))
    assert one.join(NOTHING) == one
    one.join(two).check()


@given(evidences(), evidences())
def test_more_evidence_never_narrows_the_type(one: Evidence, two: Evidence) -> None:
    joined = one.join(two).type
    assert one.type.join(joined) is joined
    assert two.type.join(joined) is joined


@given(st.lists(evidences(), max_size=6), st.randoms(use_true_random=False))
def test_joined_evidence_does_not_depend_on_the_order(each: list[Evidence], random: st.DataObject) -> None:
    shuffled = list(each)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert reduce(Evidence.join, shuffled, NOTHING) == reduce(Evidence.join, each, NOTHING)


def test_integers_take_the_narrowest_width_and_text_beyond_64_bits() -> None:
    expected = {7: ColumnType.TINYINT, 15: ColumnType.SMALLINT, 31: ColumnType.INT, 63: ColumnType.BIGINT}
    for bits, column_type in expected.items():
        assert integers(-(1 << bits), (1 << bits) - 1).type is column_type
        assert integers(0, 1 << bits).type is not column_type
    assert integers(0, 1 << 63).type is ColumnType.STRING


def test_integers_mixed_with_fractions_are_doubles_only_if_exact() -> None:
    assert integers(-DOUBLE_EXACT_MAX, DOUBLE_EXACT_MAX).join(FLOATS).type is ColumnType.DOUBLE
    assert integers(0, DOUBLE_EXACT_MAX + 1).join(FLOATS).type is ColumnType.STRING


def test_booleans_mixed_with_anything_else_are_text() -> None:
    assert BOOLEANS.type is ColumnType.BOOLEAN
    for other in (integers(0, 1), FLOATS, TEXT):
        assert BOOLEANS.join(other).type is ColumnType.STRING


def test_the_metastore_accepts_every_type_change_that_readers_accept() -> None:
    for old, new in product(ColumnType, repeat=2):
        if readers_accept(old, new):
            assert metastore_accepts(old, new)
    assert not metastore_accepts(ColumnType.BOOLEAN, ColumnType.STRING)
    assert not metastore_accepts(ColumnType.BIGINT, ColumnType.INT)
    assert metastore_accepts(ColumnType.DOUBLE, ColumnType.STRING)
