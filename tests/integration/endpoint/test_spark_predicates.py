"""Every predicate of a Spark session has the rows that the same session finds without the metastore's help.

Spark 4.0 with its built-in client of Hive 2.3, in front of a metastore of Hive 4.2: without an index, and
with one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dev.fixtures.hive_tables import a_partition
from dev.stack.hive.servers import Metastore as MetastoreServer
from handlers.metastore.client import Metastore
from tests.builders.endpoint.served import Served
from tests.builders.endpoint.spark_predicates import COLUMNS, predicates, rows
from tests.builders.endpoint.spark_session import SparkSession, spark_at


pytestmark = pytest.mark.long

PADDED = ("padded", "08", "2024-01-01", "x")
"""A value that MSCK adds from a directory ``hr=08``."""


@pytest.fixture(scope="module")
def served(
    metastore: MetastoreServer, kafka: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    made = Served(metastore.uri, kafka, tmp_path_factory.mktemp("predicates"))
    made.start()
    yield made
    made.stop()


def fill(spark: SparkSession, metastore: str, db: str, table: str) -> None:
    """Create a table with a partition for each row, and one that Spark would name in another way."""
    spark.run(f"CREATE TABLE {db}.{table} (id INT) PARTITIONED BY ({COLUMNS}) STORED AS ORC")
    spark.run(f"INSERT INTO {db}.{table} VALUES {', '.join(rows())}")
    with closing(Metastore([metastore])) as client:
        known = client.get_table(db, table)
        other = next(client.all_partitions(db, table))
        padded = a_partition(known, *PADDED)
        padded.sd = other.sd
        client.add_partitions(db, table, [padded])


def find(spark: SparkSession, table: str) -> dict[str, list[str]]:
    """Return the rows that each predicate selects, with the help of the metastore."""
    spark.run("SET spark.sql.hive.metastorePartitionPruning=true")
    found = {one: spark.run(f"SELECT id, s, hr FROM {table} WHERE {one}") for one in predicates()}
    return {one: sorted(map(str, selected)) for one, selected in found.items()}


def find_without_pruning(spark: SparkSession, table: str) -> dict[str, list[str]]:
    """Return the same without it: every predicate is evaluated for every row."""
    spark.run("SET spark.sql.hive.metastorePartitionPruning=false")
    all_rows = spark.run(f"SELECT id, s, hr, {', '.join(predicates())} FROM {table}")
    assert len(all_rows) == len(rows()) + 1
    return {
        one: sorted(str(row[:3]) for row in all_rows if row[number] == "True")
        for number, one in enumerate(predicates(), 3)
    }


@pytest.mark.parametrize("is_indexed", [False, True], ids=["forwarded", "indexed"])
def test_every_predicate_finds_the_rows_that_it_finds_without_pruning(
    served: Served, endpoint: int, tmp_path: Path, is_indexed: bool
) -> None:
    port, table = (served.port if is_indexed else endpoint), f"p{int(is_indexed)}"
    with spark_at(f"thrift://127.0.0.1:{port}", tmp_path / "spark") as spark:
        fill(spark, served.metastore, served.db, table)
        before = served.endpoint_when(lambda _: True)
        found = find(spark, f"{served.db}.{table}")
        assert found == find_without_pruning(spark, f"{served.db}.{table}")
    if is_indexed:
        after = served.endpoint_when(lambda _: True)
        assert after["answered"] > before["answered"], after["reasons"]
        assert after["differing"] == []
