"""A promotion to STRING, with readers between every two of its steps: those that begin there, and those
planned earlier."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from state.columns.slots import Layout
from state.columns.types import ColumnType
from streaming.batch.footers import FooterReader
from streaming.settings import Sealing
from tests.builders.flat.streams import Stream, rules


HOUR_S = 3_600
FIRST = int(time.time()) // HOUR_S * HOUR_S - 10 * HOUR_S
STEPS = (
    "flat.promoting",
    "flat.published",
    "flat.rewritten",
    "flat.switch",
    "flat.switched",
    "flat.flip",
    "flat.flipped",
)
"""Every durable step of a promotion, and the batches around it."""


@dataclass
class Readers:
    """Reads the table at every step: with new queries, with one planned at the step before, and with one
    planned at the start."""

    stream: Stream
    spark: Any
    hours: int = 0
    """Hours that are published completely."""
    steps: list[str] = field(default_factory=list)
    types: set[ColumnType] = field(default_factory=set)
    planned: list[tuple[Any, int]] = field(default_factory=list)
    """Queries that were analyzed and not yet run, and the hours that were published then."""

    def __post_init__(self) -> None:
        self._parts = self.stream.parts(self.spark)

    def reach(self, step: str) -> None:
        """Check all readers; the table has its first column ``n`` by the first published hour."""
        if step == "flat.published":
            self.hours += 1
        if step not in STEPS or not self.hours:
            return
        self.steps.append(step)
        self._parts.stream.table.forget()
        self.spark.catalog.refreshTable(self.name)
        self.types.add(self.type)
        self._check_files()
        for query, hours in self.planned:
            assert hours <= query.count() <= self.hours, (step, "planned earlier")
        by_serde, native = (self._query(by_serde) for by_serde in ("true", "false"))
        assert native.count() == by_serde.count() == self.hours, step
        self.planned = [*self.planned[:1], (self._query("true"), self.hours)]

    @property
    def name(self) -> str:
        return f"{self.stream.settings.database}.events_flat"

    @property
    def type(self) -> ColumnType:
        return self._layout.slots[2].type

    @property
    def _layout(self) -> Layout:
        return self._parts.stream.table.read().layout

    def _query(self, native: str) -> Any:
        """Analyze a query with a pushed filter, under the type that the table has now; every hour has one
        such row."""
        self.spark.conf.set("spark.sql.hive.convertMetastoreOrc", native)
        try:
            five = "'5'" if self.type is ColumnType.STRING else "5"
            return self.spark.sql(f"SELECT uuid, n, _rescued FROM {self.name} WHERE n = {five}")
        finally:
            self.spark.conf.unset("spark.sql.hive.convertMetastoreOrc")

    def _check_files(self) -> None:
        """Every file names its columns: Spark fails now and then if only some do
        (``streaming.split.pushdown_guard``)."""
        names = [slot.name for slot in self._layout.slots]
        for partition in self._parts.stream.table.partitions():
            for file in self._parts.stream.sampler.list_files(str(partition.location)):
                assert list(FooterReader(self.spark).read(file).columns) == names


@pytest.fixture
def stream(tmp_path: Path, spark: Any, database: str) -> Stream:
    spark.sql(f"CREATE DATABASE {database}")
    return Stream.of_directory(
        tmp_path / "flat",
        database,
        rules("epoch", "uuid", "n"),
        sealing=Sealing(old_files_s=HOUR_S, hours_per_pass=2),
    )


@pytest.fixture
def readers(stream: Stream, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Readers:
    readers = Readers(stream, spark)
    for name, module in list(sys.modules.items()):
        if name.startswith("streaming.") and hasattr(module, "failpoint"):
            monkeypatch.setattr(module, "failpoint", readers.reach)
    return readers


@pytest.mark.long
def test_no_query_fails_at_any_step_of_a_promotion_nor_if_it_was_planned_before_the_step(
    stream: Stream, spark: Any, readers: Readers
) -> None:
    for hour in range(4):
        odd = {3: "x", 4: "007"} if hour == 1 else {}
        events: list[Any] = [
            {"epoch": FIRST + hour * HOUR_S + n, "uuid": f"{hour}-{n}", "n": odd.get(n, n)} for n in range(10)
        ]
        stream.land(f"{hour}", [*events, {"uuid": f"no time {hour}", "n": hour}])
        stream.run(spark)
    assert readers.types == {ColumnType.TINYINT, ColumnType.STRING}
    after = readers.steps[readers.steps.index("flat.flipped") :]
    assert {"flat.published", "flat.switched"} <= set(after), (
        "files were written and replaced after the change"
    )
    texts = {row["uuid"]: row["n"] for row in stream.rows(spark)}
    assert (len(texts), texts["1-3"], texts["1-4"], texts["1-5"]) == (40, "x", "007", "5")
    letters = spark.read.orc(f"{stream.settings.dead_letter_directory}/wrong-time").select("_rescued")
    assert sorted(json.loads(row["_rescued"])["n"] for row in letters.collect()) == [0, 1, 2, 3]


@pytest.mark.parametrize("compression", ["zstd", "zlib", "none"])
def test_a_marked_column_is_read_under_both_types_and_other_columns_are_still_filtered(
    stream: Stream, spark: Any, tmp_path: Path, compression: str
) -> None:
    place = str(tmp_path / "marked")
    rows = spark.range(20_000).selectExpr("id AS a", "CAST(id AS STRING) AS n", "CAST(id AS STRING) AS s")
    rows.coalesce(1).write.option("compression", compression).orc(place)
    parts = stream.parts(spark)
    before = FooterReader(spark).read_all(parts.stream.sampler.list_files(place))
    parts.sealer.rewriter.guard.mark_directory(place, [1])
    files = parts.stream.sampler.list_files(place)
    assert len(files) == 1
    assert FooterReader(spark).read_all(files) == before
    for kind, literal in (("int", "5"), ("bigint", "5"), ("double", "5.0"), ("string", "'5'")):
        found = spark.read.schema(f"a bigint, n {kind}, s string").orc(place)
        for condition in (f"n = {literal}", f"n IN ({literal})", f"n <=> {literal}", "s = '5'", "a = 5"):
            assert [row["a"] for row in found.where(condition).collect()] == [5], (kind, condition)
        assert found.where("n IS NULL").count() == 0
