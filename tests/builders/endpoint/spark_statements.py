"""A Spark session as a program: ``spark_statements.py METASTORE_URI DIRECTORY``. It runs each line of its
input, a JSON string with a statement, and prints a JSON object with rows, or with the error.

The metastore client is Spark's built-in one of Hive 2.3. It connects again after a failure, as any client in
front of a metastore that restarts must.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession


SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.catalogImplementation": "hive",
    "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
    "spark.hadoop.hive.metastore.connect.retries": "60",
    "spark.hadoop.hive.metastore.failure.retries": "60",
    "spark.hadoop.hive.metastore.client.connect.retry.delay": "1s",
}


def start(uri: str, directory: str) -> SparkSession:
    builder = SparkSession.builder.master("local[1]").config("spark.hadoop.hive.metastore.uris", uri)
    builder = builder.config("spark.sql.warehouse.dir", f"{directory}/spark-warehouse")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def run(spark: SparkSession, statement: str) -> dict[str, Any]:
    try:
        result = spark.sql(statement)
        rows = [[str(cell) for cell in row] for row in result.collect()]
        plan = result._jdf.queryExecution().executedPlan().toString()
    except Exception as error:  # noqa: BLE001 - the test decides
        return {"error": str(error)[:2000]}
    return {"rows": rows, "plan": plan}


def main(uri: str, directory: str) -> None:
    spark = start(uri, directory)
    for line in sys.stdin:
        print(json.dumps(run(spark, json.loads(line))), flush=True)  # noqa: T201 - the protocol
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
