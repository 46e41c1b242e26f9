"""What a user of Iceberg on Spark does, as a program:
``iceberg_spark_program.py METASTORE_URI DIRECTORY DATABASE JAR``.

Prints one JSON object. It is a process of its own, because its class path differs from that of other tests.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def start(uri: str, directory: str, jar: str) -> SparkSession:
    settings = {
        "spark.jars": jar,
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hive",
        "spark.sql.catalog.lake.uri": uri,
        "spark.sql.catalog.lake.warehouse": Path(directory).as_uri(),
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def main(uri: str, directory: str, database: str, jar: str) -> dict[str, Any]:
    spark = start(uri, directory, jar)
    table = f"lake.{database}.visits"

    def insert(row: int) -> str:
        try:
            spark.sql(f"INSERT INTO {table} VALUES ({row}, '2024-01-03')")
        except Exception as error:  # noqa: BLE001 - the test reports every failure
            return str(error)
        return ""

    spark.sql(f"CREATE NAMESPACE lake.{database} LOCATION '{Path(directory, database).as_uri()}'")
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, dt STRING) USING iceberg PARTITIONED BY (dt) "
        "TBLPROPERTIES ('commit.retry.num-retries' = '50')"
    )
    spark.sql(f"INSERT INTO {table} VALUES (1, '2024-01-01'), (2, '2024-01-02')")
    with ThreadPoolExecutor(3) as pool:
        failures = [text for text in pool.map(insert, (10, 11, 12)) if text]
    found: dict[str, Any] = {
        "failures": failures,
        "ids": [row.id for row in spark.sql(f"SELECT id FROM {table} ORDER BY id").collect()],
        "pruned": [row.id for row in spark.sql(f"SELECT id FROM {table} WHERE dt = '2024-01-01'").collect()],
    }
    spark.sql(f"ALTER TABLE {table} ADD COLUMN name STRING")
    spark.sql(f"ALTER TABLE {table} RENAME TO lake.{database}.renamed")
    found["columns"] = spark.table(f"lake.{database}.renamed").columns
    found["tables"] = [row.tableName for row in spark.sql(f"SHOW TABLES IN lake.{database}").collect()]
    spark.sql(f"DROP TABLE lake.{database}.renamed")
    spark.stop()
    return found


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))  # noqa: T201 - the result of the program
