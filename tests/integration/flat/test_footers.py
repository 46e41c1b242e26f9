"""ORC footers of files that Spark wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from state.errors import FilesUnavailable, StateCorrupt
from streaming.batch.footers import EMPTY, ColumnFooter, Footer, FooterReader, Kind


def written(frame: Any, directory: Path) -> list[str]:
    frame.coalesce(1).write.mode("overwrite").orc(str(directory))
    return [str(file) for file in sorted(directory.glob("*.orc"))]


@pytest.fixture
def reader(spark: Any) -> FooterReader:
    return FooterReader(spark)


def test_values_are_counted_and_numbers_bounded(spark: Any, reader: FooterReader, tmp_path: Path) -> None:
    frame = spark.range(100).selectExpr(
        "CAST(id % 50 AS TINYINT) AS `a/tiny`",
        "CASE WHEN id % 2 = 0 THEN -id * 9000000000000000 END AS big",
        "CAST(id AS DOUBLE) / 4 AS d",
        "CASE WHEN id < 7 THEN 'x' END AS s",
        "id > 5 AS b",
        "CAST(NULL AS INT) AS n",
    )
    footer = reader.read_all(written(frame, tmp_path / "t"))
    footer.check()
    assert footer.rows == 100
    assert footer.columns == {
        "a/tiny": ColumnFooter(Kind.INTEGER, 100, 0, 49),
        "big": ColumnFooter(Kind.INTEGER, 50, -98 * 9_000_000_000_000_000, 0),
        "d": ColumnFooter(Kind.DOUBLE, 100, 0.0, 24.75),
        "s": ColumnFooter(Kind.STRING, 7),
        "b": ColumnFooter(Kind.BOOLEAN, 100),
        "n": ColumnFooter(Kind.INTEGER, 0),
    }


def test_files_are_added_by_name_and_by_position(spark: Any, reader: FooterReader, tmp_path: Path) -> None:
    old = written(spark.range(10).selectExpr("id AS a", "'x' AS b"), tmp_path / "old")
    new = written(
        spark.range(5).selectExpr("id + 100 AS a", "CAST(NULL AS STRING) AS b", "1.5D AS c"), tmp_path / "new"
    )
    both = reader.read_all(old + new)
    both.check()
    assert both.rows == 15
    assert both.columns["a"] == ColumnFooter(Kind.INTEGER, 15, 0, 104)
    assert [column.values for column in both.columns.values()] == [15, 10, 5]
    assert reader.values_by_position(old + new) == (15, 10, 5)
    assert reader.values_by_position([]) == ()
    assert reader.read_all([]) == EMPTY


def test_a_column_that_was_widened_is_of_the_wider_kind() -> None:
    whole, half = ColumnFooter(Kind.INTEGER, 2, 1, 3), ColumnFooter(Kind.DOUBLE, 1, 0.5, 0.5)
    assert whole.join(half) == half.join(whole) == ColumnFooter(Kind.DOUBLE, 3, 0.5, 3)
    assert whole.join(ColumnFooter(Kind.STRING, 4)).kind is Kind.STRING
    assert Footer(3, {"a": whole}).join(EMPTY) == Footer(3, {"a": whole})


def test_files_that_are_not_flat_orc_files_are_refused(
    spark: Any, reader: FooterReader, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("hello, this is not an ORC file")
    with pytest.raises(StateCorrupt, match="not an ORC file"):
        reader.read(str(tmp_path / "text"))
    with pytest.raises(FilesUnavailable):
        reader.read(str(tmp_path / "absent"))
    nested = written(spark.range(3).selectExpr("named_struct('x', id) AS s"), tmp_path / "nested")
    with pytest.raises(StateCorrupt, match="nested"):
        reader.read(nested[0])
