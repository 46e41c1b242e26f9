"""Sources of Hive 2.3 and 3.1 with a target of Hive 4.2: what is replicated, and what is refused with the
reason."""

from __future__ import annotations

import pytest

from dev.fixtures.hive_tables import a_partition, whole_number_statistics
from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.old_metastore import OldMetastore
from dev.stack.hive.sql_session import Session
from handlers.metastore.calls import V3_1
from handlers.structs.objects import Database
from tests.builders.replication.old_source import insert_rows, text_table, write_rows
from tests.builders.replication.replica import build_replica


pytestmark = [pytest.mark.old_hive, pytest.mark.long]
INSERT_ONLY = {"transactional": "true", "transactional_properties": "insert_only"}


def write_history(client: WritingMetastore, db: str) -> None:
    """Write what a source of this version can report: tables, partitions, inserts, statistics, a rename and a
    drop."""
    client.create_database(Database(name=db))
    for name in ("plain", "gone", "before"):
        client.create_table(text_table(db, name))
    insert_rows(client, db, "plain", "1\n2\n")
    insert_rows(client, db, "before", "4\n")
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
    old_metastore: OldMetastore, target: ClusterEndpoints, database: str, target_sql: Session
) -> None:
    with WritingMetastore(old_metastore.uri) as client:
        before = client.current_event_id()
        write_history(client, database)
    replica = build_replica(
        old_metastore.uri,
        target.metastore,
        db=database,
        roots=[f"{old_metastore.directory}"],
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
