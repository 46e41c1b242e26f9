from __future__ import annotations

import json

import pytest

from state.columns.rules import FlatRules
from state.columns.types import ColumnType
from streaming.batch.observations import (
    FileCounts,
    Misfits,
    find_misfits,
    merge_counts,
    observe_batch,
    observe_sample,
)
from tests.builders.flat.layouts import HOUR, a_layout
from tests.builders.flat.streams import key


RULES = FlatRules()


@pytest.mark.parametrize(
    ("column_type", "value", "is_misfit"),
    [
        (ColumnType.TINYINT, 127, False),
        (ColumnType.TINYINT, 128, True),
        (ColumnType.INT, 1.5, True),
        (ColumnType.INT, "7", True),
        (ColumnType.BIGINT, 1 << 63, True),
        (ColumnType.DOUBLE, 7, False),
        (ColumnType.DOUBLE, (1 << 53) + 1, True),
        (ColumnType.DOUBLE, True, True),
        (ColumnType.BOOLEAN, True, False),
        (ColumnType.BOOLEAN, 1, True),
        (ColumnType.STRING, {"a": 1}, False),
        (ColumnType.INT, None, False),
    ],
)
def test_a_value_that_does_not_fit_its_column_is_a_misfit(
    column_type: ColumnType, value: object, is_misfit: bool
) -> None:
    layout = a_layout({"v": column_type, "other": ColumnType.STRING})
    found = find_misfits(layout, Misfits(10, (json.dumps({"v": value}), json.dumps({"other": 1}))), RULES)
    assert (key("v") in found) == is_misfit
    if is_misfit:
        assert found[key("v")].misfits == 5


def test_counts_and_bounds_come_from_footers_and_misfits_from_the_rescued_rows() -> None:
    layout = a_layout({"n": ColumnType.INT, "s": ColumnType.STRING})
    counts = merge_counts([FileCounts(5, (0, 4, 2), {1: (3, 9)}), FileCounts(3, (1, 1, 0), {1: (-1, 2)})])
    seen = observe_batch(layout, counts, Misfits(1, ('{"n":"x"}',)), RULES)
    seen.check()
    number = seen.keys[key("n")]
    assert (number.rows, number.nonnull, number.misfits) == (8, 5, 1)
    assert (number.evidence.least, number.evidence.most, number.evidence.has_text) == (-1, 9, True)
    assert seen.keys[key("s")].nonnull == 2


def test_malformed_rows_are_counted() -> None:
    layout = a_layout({"n": ColumnType.INT})
    assert observe_batch(layout, FileCounts(2, (1, 0), {}), Misfits(1, ("no json",)), RULES).malformed == 1


def test_a_key_missing_in_a_sample_is_recorded_as_not_seen() -> None:
    seen = observe_sample({HOUR: ['{"a":1}', '{"a":"x"}', "[]"]}, RULES, [key("a"), key("typo")])[HOUR]
    seen.check()
    assert seen.rows == 0
    assert seen.keys[key("a")].values == 2
    assert seen.keys[key("typo")].values == 0
    assert seen.keys[key("typo")].rows == 3
