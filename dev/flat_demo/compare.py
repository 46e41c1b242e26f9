"""The last step of the demo: compares all values of the flat table with ``get_json_object`` on the raw
events.

It reads the table through Spark's own catalog, in which the demo creates it, and matches rows by the ``uuid``
of their event.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table

from daemon.flat.answers import FlatAnswers
from daemon.flat.driver_settings import flat_settings
from daemon.flat.page import flat_page
from daemon.service.configuration import load_config
from state.columns.slots import RESCUED
from streaming.driver.local_catalog import build_conf
from streaming.driver.session import start
from streaming.settings import SparkSettings


if TYPE_CHECKING:
    from pyspark.sql import SparkSession


CONFIG: Final = "tideline.yaml"


def main() -> int:
    """Print the comparison, column by column, and return 0 only if all values are equal."""
    console = Console(highlight=False)
    directory = Path(sys.argv[1]).resolve()
    table = _describe_table(directory)
    (directory / "page.html").write_text(flat_page(table), encoding="utf-8")
    settings = flat_settings(load_config(directory / CONFIG), "web")
    spark = start(SparkSettings(conf=build_conf(settings)), name="tideline demo")
    try:
        spark.table(settings.name).createOrReplaceTempView("flat")
        columns = [column for column in table["columns"] if column["state"] == "live"]
        wrong = _print_comparison(console, spark, directory, columns)
        console.print(f"The page that the daemon shows for the table is {Path(sys.argv[1]) / 'page.html'}.")
    finally:
        spark.stop()
    return 1 if wrong else 0


def _describe_table(directory: Path) -> dict[str, Any]:
    """Return the description of the table that the daemon serves."""
    answers = FlatAnswers(load_config(directory / CONFIG), lambda: ())
    try:
        return answers.show_table("web")
    finally:
        answers.close()


def _print_comparison(
    console: Console, spark: SparkSession, directory: Path, columns: list[dict[str, Any]]
) -> int:
    raw = spark.read.text(str(directory / "raw" / "*.json"))
    raw.createOrReplaceTempView("raw")
    joined = _count_values(spark, columns)
    counts = joined.first()
    assert counts is not None
    table = Table("column", "type", "values", "in _rescued", "not equal")
    for number, column in enumerate(columns):
        values, rescued, wrong = (counts[f"{what}{number}"] for what in ("v", "r", "w"))
        table.add_row(column["name"], column["type"].lower(), f"{values:,}", f"{rescued:,}", f"{wrong:,}")
    console.print(table)
    total = raw.count()
    console.print(f"{counts['n']:,} of {total:,} events are in the table.")
    unequal: int = sum(counts[f"w{number}"] for number in range(len(columns)))
    return unequal + abs(int(counts["n"]) - int(total))


def _count_values(spark: SparkSession, columns: list[dict[str, Any]]) -> Any:
    """Count for each column the values, the values in ``_rescued``, and the values that are neither equal nor
    rescued.
    """
    counted = []
    for number, column in enumerate(columns):
        mine, text = f"f.`{column['name']}`", f"get_json_object(r.value, {_quote(column['key'])})"
        # A DOUBLE column returns 5.0 if the event contains 5.
        same = (
            f"try_cast({text} AS DOUBLE) <=> {mine}"
            if column["type"] == "DOUBLE"
            else f"{text} <=> CAST({mine} AS STRING)"
        )
        counted += [
            f"count({mine}) AS v{number}",
            f"count_if({mine} IS NULL AND {text} IS NOT NULL AND f.{RESCUED} IS NOT NULL) AS r{number}",
            f"count_if(NOT ({same}) AND f.{RESCUED} IS NULL) AS w{number}",
        ]
    return spark.sql(
        f"SELECT count(1) AS n, {', '.join(counted)} FROM raw r JOIN flat f ON get_json_object(r.value, "
        "'$.uuid') = f.uuid"
    )


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


if __name__ == "__main__":
    sys.exit(main())
