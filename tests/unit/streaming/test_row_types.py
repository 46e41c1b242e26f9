"""Hive's types and formats as Spark reads them for comparisons of rows."""

from __future__ import annotations

import sys

import pytest

from daemon.replica.verification.session import open_row_comparison
from state.errors import ConfigError, Unsupported
from streaming.rows.comparison import RowSummary, find_format, to_event_schema, to_spark_schema, to_spark_type
from streaming.settings import SparkSettings


@pytest.mark.parametrize(
    ("hive", "spark"),
    [
        ("int", "int"),
        ("varchar(20)", "string"),
        ("decimal(10,2)", "decimal(10,2)"),
        ("map<char(2),array<varchar(3)>>", "map<string,array<string>>"),
        ("timestamp with local time zone('UTC')", "timestamp"),
    ],
)
def test_types_have_sparks_spelling(hive: str, spark: str) -> None:
    assert to_spark_type(hive) == spark


@pytest.mark.parametrize("hive", ["uniontype<int,string>", "array<interval_day_time>", "void"])
def test_types_that_spark_cannot_read_are_named(hive: str) -> None:
    with pytest.raises(Unsupported) as caught:
        to_spark_type(hive)
    assert caught.value.context["type"] == hive


def test_names_of_columns_are_quoted() -> None:
    assert to_spark_schema([("where", "int"), ("a`b", "string")]) == "`where` int, `a``b` string"
    assert to_event_schema([("where", "int")]).endswith("row struct<`where`: int>")


def test_only_formats_that_spark_reads_are_compared() -> None:
    assert find_format("org.apache.hadoop.hive.ql.io.orc.OrcInputFormat") == "orc"
    assert find_format("org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat") == "parquet"
    with pytest.raises(Unsupported):
        find_format("org.apache.hadoop.mapred.TextInputFormat")


def test_summaries_add_up_in_any_order() -> None:
    assert RowSummary().plus(2, -5).plus(1, 9) == RowSummary().plus(1, 9).plus(2, -5) == RowSummary(3, 4)


def test_without_spark_the_error_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ConfigError, match="PySpark") as caught, open_row_comparison(SparkSettings()):
        pass
    assert "pip install 'tideline[flat]'" in caught.value.hint
