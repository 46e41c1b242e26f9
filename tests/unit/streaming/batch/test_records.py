from __future__ import annotations

from pathlib import Path

import pytest

from state.columns.counts.observations import HourCounts, KeyCounts, Observations
from state.columns.types import ColumnType, integers
from state.errors import StateCorrupt
from streaming.batch.records import (
    KEPT,
    BatchPlan,
    BatchRecords,
    HourDelta,
    Move,
    StagedBatch,
    have_same_columns,
)
from streaming.batch.watermark import Watermark
from tests.builders.flat.layouts import HOUR, a_layout, next_version, retyped
from tests.builders.flat.local_storage import LocalStorage
from tests.builders.flat.streams import key


LAYOUT = a_layout({"a.b": ColumnType.INT, "c": ColumnType.STRING})
MARK = Watermark().advance({0: HOUR + 5, 1: None}, HOUR, 600)
BOOK = HourCounts({HOUR: Observations(3, 1, {key("a.b"): KeyCounts(3, 2, 0, integers(1, 9))})})


def a_batch(batch: int) -> StagedBatch:
    return StagedBatch(
        batch=batch,
        origin='{"t":{"0":5}}',
        directory="/stage",
        moves=(Move("/stage/x.orc", "/table/b-q-0-0.orc"),),
        hours={HOUR: HourDelta(3, (1, 2), 99)},
        counts={"rows": 3},
        watermark=MARK,
        observed=BOOK,
    )


@pytest.fixture
def records(tmp_path: Path) -> BatchRecords:
    return BatchRecords(LocalStorage(), str(tmp_path / "batches"))


def test_a_plan_is_read_back_unchanged(records: BatchRecords) -> None:
    plan = BatchPlan(7, LAYOUT, MARK, HOUR, frozenset({1}), BOOK)
    assert records.plan(7) is None
    records.save_plan(plan)
    assert records.plan(7) == plan


def test_a_staged_batch_is_read_back_unchanged_and_the_newest_is_found(records: BatchRecords) -> None:
    assert records.last() is None
    for batch in (3, 11):
        records.save_staged(a_batch(batch))
    assert records.staged(3) == a_batch(3)
    assert records.last() == a_batch(11)
    done = records.finish(a_batch(11))
    assert done.done
    assert records.last() == done


def test_records_of_old_batches_are_deleted(records: BatchRecords) -> None:
    records.save_staged(a_batch(0))
    records.finish(a_batch(KEPT))
    assert records.staged(0) is None


def test_a_corrupt_record_is_reported(records: BatchRecords, tmp_path: Path) -> None:
    LocalStorage().write(str(tmp_path / "batches" / f"{5:012d}.plan.json"), '{"batch":5}')
    with pytest.raises(StateCorrupt):
        records.plan(5)


def test_columns_differ_by_type_but_not_by_version() -> None:
    assert have_same_columns(LAYOUT, next_version(LAYOUT))
    assert not have_same_columns(LAYOUT, retyped(LAYOUT, 1, ColumnType.BIGINT))
