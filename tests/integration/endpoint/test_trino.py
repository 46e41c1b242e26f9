"""A Trino server through an endpoint with an index:
its answers are those that it gets from the metastore directly.

Trino's client of the metastore is its own: it finds the calls of the server's version by trying them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.stack.hive.servers import Metastore
from dev.stack.servers.trino import Trino
from tests.builders.components.availability import start_or_skip
from tests.builders.endpoint.served import Served


pytestmark = pytest.mark.long

CREATE = (
    "CREATE TABLE {0} (id INT, ds VARCHAR, w INT) WITH (partitioned_by = ARRAY['ds', 'w'], format = 'ORC')"
)
ROWS = ", ".join(f"({number}, '2024-01-0{number % 5 + 1}', {number % 3})" for number in range(30))
CHANGES = (
    f"INSERT INTO {{0}} VALUES {ROWS}",
    "INSERT INTO {0} VALUES (100, NULL, 7), (101, 'a b/c', NULL), (102, 'x_y%', -1)",
    # One partition, as concurrent drops deadlock in Derby
    "DELETE FROM {0} WHERE ds = '2024-01-02' AND w = 1",
    "ALTER TABLE {0} ADD COLUMN name VARCHAR",
    "INSERT INTO {0} VALUES (103, 'n', '2024-01-02', 9)",
)
CONDITIONS = (
    "true",
    "ds = '2024-01-03'",
    "ds >= '2024-01-04' AND w = 2",
    "ds IN ('2024-01-01', '2024-01-05', 'absent')",
    "w BETWEEN 1 AND 7",
    "ds LIKE '2024%' AND w <> 1",
    "ds IS NULL OR w IS NULL",
    "ds IN ('a b/c', 'x_y%')",
    "w < 0",
    "ds = 'absent'",
)
QUESTIONS = (
    "SELECT id FROM {0} WHERE {1} ORDER BY id",
    'SELECT DISTINCT "$path" FROM {0} WHERE {1} ORDER BY 1',
    "EXPLAIN (TYPE IO) SELECT id FROM {0} WHERE {1}",
)  # fmt: skip


@pytest.fixture
def served(metastore: Metastore, kafka: str, tmp_path: Path) -> Iterator[Served]:
    made = Served(metastore.uri, kafka, tmp_path)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def trino(served: Served, tmp_path: Path) -> Iterator[Trino]:
    endpoint = f"thrift://127.0.0.1:{served.port}"
    with start_or_skip("Trino"):
        server = Trino(tmp_path / "trino", {"direct": served.metastore, "indexed": endpoint})
        server.start()
    yield server
    server.stop()


def test_trino_creates_writes_lists_and_prunes_partitions_as_with_the_metastore_itself(
    trino: Trino, served: Served
) -> None:
    table, partitions = f"{served.db}.visits", f'{served.db}."visits$partitions"'

    def compare(question: str) -> int:
        direct, indexed = (trino.run(catalog, question) for catalog in ("direct", "indexed"))
        assert json.loads(json.dumps(indexed).replace("indexed", "direct")) == direct, question
        return len(indexed)

    trino.run("indexed", CREATE.format(table))
    for change in CHANGES:
        trino.run("indexed", change.format(table))
        assert compare(f"SELECT * FROM {partitions} ORDER BY 1, 2") > 3
        compare(QUESTIONS[0].format(table, CONDITIONS[2]))
    for condition, question in itertools.product(CONDITIONS, QUESTIONS):
        compare(question.format(table, condition))
    assert compare(f"SELECT * FROM {partitions} WHERE ds = '2024-01-03' ORDER BY 2") == 3
    trino.run("indexed", f"ANALYZE {table}")
    assert compare(f"SHOW STATS FOR {table}") == 5
    found = served.endpoint_when(lambda found: found["answered"] > len(CONDITIONS) * len(QUESTIONS))
    assert found["differing"] == []
    trino.run("indexed", f"DROP TABLE {table}")
    assert trino.run("direct", f"SHOW TABLES FROM {served.db} LIKE 'visits'") == []
