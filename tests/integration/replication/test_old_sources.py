"""Sources of Hive 2.3 and 3.1 with a target of Hive 4.2: what is replicated, and what is refused with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dev.fixtures.hive_tables import a_partition, a_table, whole_number_statistics
from dev.fixtures.writing_client import WritingMetastore
from dev.stack.hive.old_metastore import OldMetastore
from handlers.metastore.hive_version import V3_1
from handlers.structs.notifications import InsertEventRequestData
from handlers.structs.objects import Database, SerDeInfo
from tests.builders.components.availability import start_or_skip
from tests.builders.replication.replica import build_replica


if TYPE_CHECKING:
    from collections.abc import Iterator

    from dev.stack.endpoints import ClusterEndpoints
    from dev.stack.hive.sql_session import Session
    from handlers.structs.objects import Table


pytestmark = [pytest.mark.old_hive, pytest.mark.long]
INSERT_ONLY = {"transactional": "true", "transactional_properties": "insert_only"}


@pytest.fixture(scope="module", params=["2.3", "3.1"])
def old(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldMetastore]:
    server = OldMetastore(tmp_path_factory.mktemp("source"), request.param)
    with start_or_skip(f"metastore of Hive {request.param}"):
        server.start()
    yield server
    server.stop()


def text_table(db: str, name: str, **options: object) -> Table:
    """Return a table of text files."""
    table = a_table(db, name, **options)  # type: ignore[arg-type]
    table.sd.inputFormat = "org.apache.hadoop.mapred.TextInputFormat"
    table.sd.outputFormat = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"
    table.sd.serdeInfo = SerDeInfo(serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe")
    return table


def write_rows(location: str | None, name: str, rows: str) -> str:
    """Write a file below a location; return its URI."""
    path = Path((location or "").removeprefix("file:").replace("//", "/")) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(rows)
    return f"file:{path}"


def write_history(client: WritingMetastore, db: str) -> None:
    """Write what a source of this version can report: tables, partitions, inserts, statistics, a rename and a drop."""
    client.create_database(Database(name=db))
    for name in ("plain", "gone", "before"):
        client.create_table(text_table(db, name))
    for name, rows in (("plain", "1\n2\n"), ("before", "4\n")):
        file = write_rows(client.get_table(db, name).sd.location, "000000_0", rows)
        client.fire_insert_event(db, name, InsertEventRequestData(filesAdded=[file], filesAddedChecksum=[""]))
    client.create_table(text_table(db, "parts", partition_keys=["dt"]))
    partition = a_partition(client.get_table(db, "parts"), "a")
    write_rows(partition.sd.location, "000000_0", "3\n")
    client.add_partitions(db, "parts", [partition])
    client.update_table_statistics(whole_number_statistics(db, "plain", "id", 2))
    renamed = client.get_table(db, "before")
    renamed.tableName = "after"
    client.alter_table(db, "before", renamed)
    client.drop_table(db, "gone")
    if client.hive_version >= V3_1:
        client.create_table(text_table(db, "acid", parameters=INSERT_ONLY))
        (txn,) = client.open_txns(1)
        client.allocate_write_ids(db, "acid", [txn])
        client.commit_txn(txn)


def test_plain_tables_of_an_older_source_are_replicated_and_transactional_ones_stay_empty(
    old: OldMetastore, target: ClusterEndpoints, database: str, target_sql: Session
) -> None:
    with WritingMetastore(old.uri) as client:
        before = client.current_event_id()
        write_history(client, database)
    replica = build_replica(
        old.uri,
        target.metastore,
        db=database,
        roots=[f"{old.directory}"],
        start=before,
    )
    replica.follow()
    db = replica.policy.target_db
    tables = set(replica.target.table_names(db))
    assert tables - {"acid"} == {"plain", "parts", "after"}
    assert target_sql.rows(f"select id from {db}.plain order by id") == [("1",), ("2",)]
    assert target_sql.rows(f"select id, dt from {db}.parts") == [("3", "a")]
    assert target_sql.rows(f"select id from {db}.after") == [("4",)], "renamed before its files were copied"
    assert replica.quarantined() == ({"acid": "unsupported"} if "acid" in tables else {})
    replica.projection.close()
