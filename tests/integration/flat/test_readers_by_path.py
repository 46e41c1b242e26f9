"""A reader that knows only the table's directory has Spark's rows at every step of batches, seals, a
promotion, a narrowing and a backfill."""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from state.columns.types import ColumnType
from streaming.settings import EventTime, Sealing
from streaming.upkeep.backfill import backfill
from streaming.upkeep.type_changes import begin_narrowing
from tests.builders.flat.streams import Stream, key, rules
from tideline import open_dataset


pytestmark = pytest.mark.long
HOUR_S = 3_600
FIRST = int(time.time()) // HOUR_S * HOUR_S - 10 * HOUR_S
LAGGING = "flat.switched"
"""The step between the switch in the metastore and the record of it, where the old files count."""
Rows = Counter[tuple[tuple[str, str | None], ...]]


@dataclass
class Comparison:
    """Compares both readers at every step, once the table has a column and a batch."""

    stream: Stream
    spark: Any
    steps: Counter[str] = field(default_factory=Counter)
    before: Rows = field(default_factory=Counter)
    naive: set[int] = field(default_factory=set)
    """Numbers of rows that a dataset over the whole directory would have had more."""

    def reach(self, step: str) -> None:
        """Compare the rows; types may be those of the step before until files of the new types are
        published."""
        if not (self.location / ".tideline/current.json").exists():
            return
        self.spark.catalog.refreshTable(self.name)
        by_spark = as_rows(row.asDict() for row in self.spark.table(self.name).collect())
        found = open_dataset(self.location)
        by_path = as_rows(found.to_table().to_pylist())
        assert by_path == (self.before if step == LAGGING else by_spark), step
        self.before = by_path if step == LAGGING else by_spark
        naive = pyarrow.dataset.dataset(self.location, format="orc", schema=found.schema)
        self.naive.add(naive.count_rows() - by_spark.total())
        self.steps[step] += 1

    @property
    def name(self) -> str:
        return self.stream.settings.name

    @property
    def location(self) -> Path:
        return self.stream.landing.parent / "table"


def as_rows(rows: Any) -> Rows:
    """Return rows as texts without absent values; columns that only one reader knows yet have none."""
    return Counter(
        tuple(sorted((name, as_text(value)) for name, value in row.items() if value is not None))
        for row in rows
    )


def as_text(value: Any) -> str:
    """Return the text of a value, the same for an integer in an integer column and in a DOUBLE column."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


@pytest.fixture
def stream(tmp_path: Path, spark: Any, database: str) -> Stream:
    spark.sql(f"CREATE DATABASE {database}")
    return Stream.of_directory(
        tmp_path / "flat",
        database,
        rules("epoch", "uuid", "n"),
        event_time=EventTime(key("epoch"), lateness_s=0, grace_s=86_400),
        sealing=Sealing(old_files_s=HOUR_S),
    )


@pytest.fixture
def comparison(stream: Stream, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Comparison:
    made = Comparison(stream, spark)
    for name, module in list(sys.modules.items()):
        if name.startswith("streaming.") and hasattr(module, "failpoint"):
            monkeypatch.setattr(module, "failpoint", made.reach)
    return made


def events(hour: int, values: list[Any], **more: Any) -> list[dict[str, Any]]:
    return [
        {"epoch": FIRST + hour * HOUR_S + n, "uuid": f"{hour}-{n}", "n": value, **more}
        for n, value in enumerate(values)
    ]


def test_a_reader_by_path_sees_what_spark_sees_at_every_step(
    stream: Stream, spark: Any, comparison: Comparison
) -> None:
    stream.land("0", events(0, [1, 2], newly="a"))
    stream.land("1", events(1, [2_000, None]))
    stream.land("2", [*events(2, [70_000]), "no json", {"epoch": FIRST + 5, "uuid": "late", "n": 7}])
    stream.run(spark)
    stream.upkeep(spark)
    stream.settings = replace(
        stream.settings,
        rules=rules("epoch", "uuid", "n", "newly", probation_values=1),
        raw_location=str(stream.landing),
    )
    stream.land("3", events(3, [1 << 40, 1.5], newly="b"))
    stream.run(spark)
    parts = stream.parts(spark)
    assert all(each.is_done for each in backfill(parts.sealer.rewriter, parts.stream.lease.hold(), None))
    seen = set(comparison.steps)
    assert {"flat.moved", "flat.rewritten", "flat.switch", "flat.switched", "flat.replaced"} <= seen
    assert max(comparison.naive) > 0, "the directory held rows twice"


def test_a_reader_by_path_sees_what_spark_sees_while_a_column_becomes_text_and_a_number_again(
    stream: Stream, spark: Any, comparison: Comparison
) -> None:
    hours: list[list[Any]] = [[1, 2], [3, "x"], [4, 5]]
    for hour, values in enumerate(hours):
        stream.land(f"{hour}", events(hour, values))
        stream.run(spark)
    stream.upkeep(spark)
    assert comparison.steps["flat.flipped"] == 1
    for hour in (0, 2):
        stream.land(f"more {hour}", events(hour, [8, 9]))
    stream.run(spark)
    parts = stream.parts(spark)
    assert {row["n"] for row in stream.rows(spark)} >= {"1", "x", "9"}
    spark.sql(f"ALTER TABLE {comparison.name} DROP PARTITION (hh={(FIRST // HOUR_S + 1) % 24})")
    stream.upkeep(spark)
    assert "x" not in open_dataset(comparison.location).to_table()["n"].to_pylist()
    begin_narrowing(parts.sealer.rewriter, parts.stream.lease.hold(), key("n"), ColumnType.INT)
    stream.upkeep(spark)
    assert comparison.steps["flat.narrowed"] == 1
    assert sum(open_dataset(comparison.location).to_table()["n"].to_pylist()) == 1 + 2 + 4 + 5 + 2 * (8 + 9)
