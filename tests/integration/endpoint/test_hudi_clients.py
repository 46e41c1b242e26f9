"""Hudi on a real metastore of Hive 4.2: its tables in Spark's catalog, and its synchronization with Hive.

Both use ``get_table``, which Hive 4.2 does not have. Directly they fail, as users report
(apache/hudi #18671).
"""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hmsclient.genthrift.hive_metastore import ttypes
from hmsclient.hmsclient import HMSClient

from dev.stack.hive.servers import Metastore
from tests.builders.components.availability import start_or_skip
from tests.builders.endpoint.hudi import Hudi, fetch_hudi, rows_of
from tests.builders.endpoint.served import client_of


pytestmark = pytest.mark.long

INVALID = "Invalid method name: 'get_table'"
CREATE = """
CREATE TABLE {0}.visits (id INT, name STRING, ts BIGINT, dt STRING) USING hudi
  TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts') PARTITIONED BY (dt);
"""
UPSERT = """
INSERT INTO {0}.visits VALUES (1, 'a', 1, '2024-01-01'), (2, 'b', 1, '2024-01-02');
MERGE INTO {0}.visits t
  USING (SELECT 2 AS id, 'c' AS name, 2L AS ts, '2024-01-02' AS dt
    UNION ALL SELECT 3, 'd', 2L, '2024-01-03') s
  ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
SHOW PARTITIONS {0}.visits;
SELECT id, name, dt FROM {0}.visits WHERE dt >= '2024-01-02' ORDER BY id;
"""
LATER = """
INSERT INTO {0}.visits VALUES (4, 'e', 3, '2024-01-04');
ALTER TABLE {0}.visits DROP PARTITION (dt = '2024-01-01');
SELECT id, name, dt FROM {0}.visits ORDER BY id;
"""


@dataclass
class Lake:
    """A database whose table ``visits`` Hudi wrote through the endpoint."""

    database: str
    through: Hudi
    direct: Hudi
    client: HMSClient
    printed: list[list[str]]
    """What the statements printed."""
    created: list[str]
    """The partitions that they created; a test drops one of them and adds another."""

    @property
    def files(self) -> Path:
        """The directory of the table."""
        return self.through.directory / self.database / "visits"

    def partitions(self, table: str) -> list[str]:
        """Return the partitions that the metastore knows."""
        return list(self.client.get_partition_names(self.database, table, -1))

    def synchronized_at(self, table: str) -> str:
        """Return the commit up to which Hudi has synchronized a table."""
        found: str = self.client.get_table(self.database, table).parameters["last_commit_time_sync"]
        return found


def rows_printed(done: subprocess.CompletedProcess[str]) -> list[list[str]]:
    assert done.returncode == 0, done.stderr
    return rows_of(done)


def days(*numbers: int) -> list[str]:
    return [f"dt=2024-01-0{number}" for number in numbers]


@pytest.fixture(scope="module")
def lake(metastore: Metastore, endpoint: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with start_or_skip("jars of Hudi"):
        fetch_hudi()
    directory, database = tmp_path_factory.mktemp("hudi"), f"db_{uuid.uuid4().hex[:12]}"
    through = Hudi(f"thrift://127.0.0.1:{endpoint}", directory)
    with client_of(endpoint) as client:
        location = (directory / database).as_uri()
        client.create_database(ttypes.Database(name=database, locationUri=location))
        printed = rows_printed(through.run_sql((CREATE + UPSERT).format(database)))
        created = list(client.get_partition_names(database, "visits", -1))
        yield Lake(database, through, Hudi(metastore.uri, directory), client, printed, created)


def test_hudi_cannot_create_a_table_directly(lake: Lake) -> None:
    done = lake.direct.run_sql(CREATE.format(lake.database))
    assert done.returncode == 1
    assert INVALID in done.stderr


def test_hudi_creates_upserts_prunes_and_synchronizes_its_table_through_the_endpoint(lake: Lake) -> None:
    shown = [[partition] for partition in days(1, 2, 3)]
    assert lake.printed == [*shown, ["2", "c", "2024-01-02"], ["3", "d", "2024-01-03"]]
    assert lake.created == days(1, 2, 3)
    assert lake.synchronized_at("visits")


def test_hudis_sync_tool_adds_and_drops_partitions_only_through_the_endpoint(lake: Lake) -> None:
    refused = lake.direct.sync(lake.files, lake.database, "synced")
    assert refused.returncode == 1
    assert INVALID in refused.stderr
    rows_printed(lake.through.sync(lake.files, lake.database, "synced"))
    assert lake.partitions("synced") == days(1, 2, 3)
    before = lake.synchronized_at("synced")
    changed = rows_printed(lake.through.run_sql(LATER.format(lake.database)))
    assert [row[0] for row in changed] == ["2", "3", "4"]
    rows_printed(lake.through.sync(lake.files, lake.database, "synced"))
    assert lake.partitions("synced") == lake.partitions("visits") == days(2, 3, 4)
    assert lake.synchronized_at("synced") > before
