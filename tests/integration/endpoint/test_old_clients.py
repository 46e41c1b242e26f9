"""Old clients on a real metastore of Hive 4.2: they fail directly, and work through ``tideline serve``."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hmsclient import hmsclient
from hmsclient.genthrift.hive_metastore import ttypes
from thrift.Thrift import TApplicationException

from dev.stack.hive.servers import Metastore


INVALID = "Invalid method name: 'get_table'"
SPARK_TIMEOUT_S = 300.0


@contextmanager
def hms(port: int) -> Iterator[Any]:
    with hmsclient.HMSClient(host="127.0.0.1", port=port) as client:
        yield client


def make_table(client: Any, database: str) -> None:
    columns = [ttypes.FieldSchema(name="id", type="int")]
    storage = ttypes.StorageDescriptor(cols=columns, serdeInfo=ttypes.SerDeInfo())
    client.create_database(ttypes.Database(name=database))
    client.create_table(
        ttypes.Table(
            dbName=database,
            tableName="visits",
            sd=storage,
            parameters={},
            partitionKeys=[ttypes.FieldSchema(name="dt", type="string")],
            tableType="EXTERNAL_TABLE",
        )
    )


def test_a_client_of_hive_2_reads_tables_only_through_the_endpoint(
    metastore: Metastore, endpoint: int, database: str
) -> None:
    with hms(metastore.port) as direct, hms(endpoint) as client:
        make_table(client, database)
        with pytest.raises(TApplicationException, match=re.escape(INVALID)):
            direct.get_table(database, "visits")
        table = client.get_table(database, "visits")
        request = ttypes.GetTableRequest(dbName=database, tblName="visits")
        assert table == direct.get_table_req(request).table
        assert client.get_table_objects_by_name(database, ["visits", "missing"]) == [table]
        assert client.get_table_objects_by_name(database, []) == []
        with pytest.raises(ttypes.NoSuchObjectException):
            client.get_table(database, "missing")
        with pytest.raises(ttypes.NoSuchObjectException):
            client.get_table("no_such_database", "visits")
        assert client.get_table(f"@hive#{database}", "visits") == table
        assert client.get_indexes(database, "visits", 10) == []
        assert client.getVersion() == direct.getVersion()


def run_spark(uri: str, directory: Path, database: str) -> subprocess.CompletedProcess[str]:
    program = Path(__file__).with_name("spark_program.py")
    return subprocess.run(
        [sys.executable, str(program), uri, str(directory), database],
        capture_output=True,
        text=True,
        timeout=SPARK_TIMEOUT_S,
        check=False,
        cwd=directory,
    )


@pytest.mark.long
def test_sparks_own_client_fails_directly(metastore: Metastore, tmp_path: Path, database: str) -> None:
    done = run_spark(metastore.uri, tmp_path, database)
    assert done.returncode != 0
    assert INVALID in done.stderr


@pytest.mark.long
def test_sparks_own_client_creates_writes_prunes_alters_and_drops_through_the_endpoint(
    endpoint: int, tmp_path: Path, database: str
) -> None:
    done = run_spark(f"thrift://127.0.0.1:{endpoint}", tmp_path, database)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["ids"] == [2, 3]
    assert "InMemoryFileIndex(2 paths)" in found["plan"], "only matching partitions are read"
    assert found["partitions"] == ["dt=2024-01-01", "dt=2024-01-02", "dt=2024-01-03"]
    assert found["columns"] == ["id", "name", "dt"]
