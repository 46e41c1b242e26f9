"""Iceberg's Hive catalogs on a real metastore of Hive 4.2:
PyIceberg and the runtime for Spark, through ``tideline serve``.

Both use ``get_table``, which Hive 4.2 does not have, and the metastore's locks and compare-and-set for their
commits.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.hive import HiveCatalog
from pyiceberg.exceptions import CommitFailedException, WaitingForLockException
from thrift.Thrift import TApplicationException

from dev.stack.downloads.jars import locate_jars, read_lock
from dev.stack.hive.servers import Metastore


WRITERS = 3
TRIES = 20
SPARK_TIMEOUT_S = 300.0


def catalog_at(uri: str, warehouse: Path) -> HiveCatalog:
    return HiveCatalog("lake", uri=uri, warehouse=warehouse.as_uri())


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def append_until_committed(uri: str, warehouse: Path, name: tuple[str, str], row: int) -> None:
    """Append as a client does: load the table again after another writer has committed."""
    for _ in range(TRIES):
        try:
            catalog_at(uri, warehouse).load_table(name).append(rows(row))
        except (CommitFailedException, WaitingForLockException):
            continue
        else:
            return
    pytest.fail(f"row {row} was never committed")


def test_pyiceberg_creates_appends_commits_concurrently_renames_and_drops_through_the_endpoint(
    metastore: Metastore, endpoint: int, tmp_path: Path, database: str
) -> None:
    direct, uri = catalog_at(metastore.uri, tmp_path), f"thrift://127.0.0.1:{endpoint}"
    catalog, name = catalog_at(uri, tmp_path), (database, "visits")
    catalog.create_namespace(database, {"location": (tmp_path / database).as_uri()})
    with pytest.raises(TApplicationException, match=re.escape("Invalid method name: 'get_table'")):
        direct.create_table(name, schema=rows().schema)
    catalog.drop_table(name)  # created, but the client could not read it back
    catalog.create_table(name, schema=rows().schema).append(rows(1, 2))
    with ThreadPoolExecutor(WRITERS) as pool:
        for done in [
            pool.submit(append_until_committed, uri, tmp_path, name, 10 + i) for i in range(WRITERS)
        ]:
            done.result()
    found = catalog.load_table(name).scan().to_arrow()["id"].to_pylist()
    assert sorted(found) == [1, 2, 10, 11, 12]
    catalog.rename_table(name, (database, "renamed"))
    assert catalog.list_tables(database) == [(database, "renamed")]
    catalog.drop_table((database, "renamed"))
    catalog.drop_namespace(database)


def run_spark(uri: str, directory: Path, database: str) -> subprocess.CompletedProcess[str]:
    (jar,) = locate_jars(read_lock("spark-iceberg"))
    program = Path(__file__).with_name("iceberg_spark_program.py")
    return subprocess.run(
        [sys.executable, str(program), uri, str(directory), database, str(jar)],
        capture_output=True,
        text=True,
        timeout=SPARK_TIMEOUT_S,
        check=False,
        cwd=directory,
    )


@pytest.mark.long
def test_icebergs_spark_runtime_creates_commits_concurrently_prunes_alters_and_renames_through_the_endpoint(
    endpoint: int, tmp_path: Path, database: str
) -> None:
    done = run_spark(f"thrift://127.0.0.1:{endpoint}", tmp_path, database)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["failures"] == []
    assert found["ids"] == [1, 2, 10, 11, 12]
    assert found["pruned"] == [1]
    assert found["columns"] == ["id", "dt", "name"]
    assert found["tables"] == ["renamed"]
