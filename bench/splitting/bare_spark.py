"""A Spark job without Tideline, the rival of a driver's start: ``python -m bench.splitting.bare_spark
DIRECTORY KEY...``.

The job streams JSON lines from a directory, extracts all keys as texts with one ``from_json``, and appends
them to an ORC table in Spark's own catalog (Hive's metastore with Derby). Its columns are fixed in advance
and have no types, and it loses values that do not fit. PySpark starts it in the usual way. It prints a line
after its first batch.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame


DONE = "first batch"
Tree = dict[str, Any]
"""Names, each with the names below it."""


def run(directory: Path, keys: Sequence[str]) -> None:
    """Read the events in ``directory`` into a new table and print DONE after each batch."""
    from pyspark.sql import SparkSession, functions
    from pyspark.sql.types import StructType

    builder = SparkSession.builder.master("local[2]").enableHiveSupport()
    for name, value in _build_conf(directory).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    tree: Tree = {}
    for key in keys:
        below = tree
        for name in key.split("."):
            below = below.setdefault(name, {})
    schema = StructType.fromJson(_build_schema(tree))
    columns = [functions.col(f"event.{path}").alias(name) for name, path in _name_leaves(tree)]

    def append(batch: DataFrame, _: int) -> None:
        batch.write.format("orc").mode("append").saveAsTable("events")
        print(DONE, flush=True)

    texts = spark.readStream.text(str(directory / "landing"))
    rows = texts.select(functions.from_json("value", schema).alias("event")).select(*columns)
    writer = rows.writeStream.foreachBatch(append).option("checkpointLocation", str(directory / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


def _build_conf(directory: Path) -> Mapping[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.caseSensitive": "true",
        "spark.sql.orc.compression.codec": "zstd",
        "spark.sql.warehouse.dir": f"{directory}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={directory}/metastore;create=true"
        ),
        "spark.driver.extraJavaOptions": (
            f"-XX:+UseParallelGC -Dderby.stream.error.file={directory}/derby.log"
        ),
    }


def _build_schema(tree: Tree) -> dict[str, Any]:
    fields = [
        {
            "name": name,
            "type": _build_schema(below) if below else "string",
            "nullable": True,
            "metadata": {},
        }
        for name, below in tree.items()
    ]
    return {"type": "struct", "fields": fields}


def _name_leaves(tree: Tree, above: str = "", path: str = "") -> Iterator[tuple[str, str]]:
    """Yield a column name and the quoted path of each leaf."""
    for name, below in tree.items():
        title, quoted = f"{above}{name}", f"{path}`{name}`"
        if below:
            yield from _name_leaves(below, f"{title}_", f"{quoted}.")
        else:
            yield title, quoted


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2:])
