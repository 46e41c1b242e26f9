"""What a user of Spark does, as a program:
``spark_program.py METASTORE_URI DIRECTORY DATABASE``; prints one JSON object.

It is a process of its own, since Spark's Hive client cannot change its metastore within one JVM.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def main(uri: str, directory: str, database: str) -> dict[str, Any]:
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"{directory}/spark-warehouse",
        "spark.hadoop.hive.metastore.uris": uri,
        "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sql(f"CREATE DATABASE {database} LOCATION '{Path(directory, database).as_uri()}'")
    table = f"{database}.visits"
    spark.sql(f"CREATE TABLE {table} (id INT) PARTITIONED BY (dt STRING) STORED AS ORC")
    spark.sql(
        f"INSERT INTO {table} PARTITION (dt) VALUES (1, '2024-01-01'), (2, '2024-01-02'), (3, '2024-01-03')"
    )
    query = spark.sql(f"SELECT id FROM {table} WHERE dt >= '2024-01-02' ORDER BY id")
    found = {
        "ids": [row.id for row in query.collect()],
        "plan": query._jdf.queryExecution().executedPlan().toString(),
        "partitions": [row.partition for row in spark.sql(f"SHOW PARTITIONS {table}").collect()],
    }
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (name STRING)")
    spark.sql(f"ALTER TABLE {table} RENAME TO {database}.renamed")
    found["columns"] = spark.table(f"{database}.renamed").columns
    spark.sql(f"DROP TABLE {database}.renamed")
    spark.stop()
    return found


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))  # noqa: T201 - the result of the program
