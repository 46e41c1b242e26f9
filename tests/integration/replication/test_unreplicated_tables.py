"""Tables whose rows are elsewhere are left out and reported, on real metastores, by events and by a
bootstrap."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from daemon.replica.status.unreplicated import list_unreplicated
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from handlers.replication.effects.unreplicated import record_existing
from handlers.replication.tables.table_entries import UnreplicatedTables
from handlers.structs.objects import FieldSchema, SerDeInfo, StorageDescriptor, Table
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.small_workload import create_source
from tests.builders.replication.verification import verify


KINDS = {
    "iced": {"table_type": "ICEBERG", "metadata_location": "file:/source/iced/metadata/1.json"},
    "in_hbase": {"storage_handler": "org.apache.hadoop.hive.hbase.HBaseStorageHandler"},
    "in_kudu": {"storage_handler": "org.apache.hadoop.hive.kudu.KuduStorageHandler"},
    "behind_jdbc": {"storage_handler": "org.apache.hive.storage.jdbc.JdbcStorageHandler"},
    "in_delta": {"spark.sql.sources.provider": "delta"},
    "in_hudi": {"spark.sql.sources.provider": "hudi"},
    "of_kafka": {"spark.sql.sources.provider": "kafka"},
}
FORMATS = {
    "linked": "org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat",
    "synced": "org.apache.hudi.hadoop.HoodieParquetInputFormat",
}
"""Tables that only their input formats distinguish."""
DEFINITION = "defined"
"""A table of HBase whose policy replicates only the metadata."""
CODES = dict.fromkeys(KINDS, "storage-handler") | {
    "iced": "iceberg",
    "in_delta": "delta",
    "in_hudi": "hudi",
    "of_kafka": "spark-provider",
    "linked": "symlink",
    "synced": "hudi",
}


def external_table(db: str, name: str, parameters: dict[str, str], location: str) -> Table:
    """Return a table as its engine creates it by a call of the metastore."""
    return Table(
        tableName=name,
        dbName=db,
        owner="ann",
        tableType="EXTERNAL_TABLE",
        parameters={"EXTERNAL": "TRUE", **parameters},
        sd=StorageDescriptor(
            cols=[FieldSchema(name="id", type="int")],
            location=f"file:{location}/{db}/{name}",
            inputFormat="org.apache.hadoop.mapred.TextInputFormat",
            outputFormat="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
            serdeInfo=SerDeInfo(serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"),
        ),
        partitionKeys=[],
    )


@pytest.mark.parametrize("start", ["events", "bootstrap"])
def test_tables_that_cannot_be_replicated_are_left_out_with_their_reasons(
    start: str, source: ClusterEndpoints, target: ClusterEndpoints, database: str, source_sql: Session
) -> None:
    built = build_replica(
        source.metastore,
        target.metastore,
        db=database,
        roots=[source.warehouse, source.external, source.cmroot],
        metadata_only=(DEFINITION,),
        start=_newest(source) if start == "events" else False,
    )
    create_source(source_sql, database)
    for name, parameters in (
        KINDS | {name: {} for name in FORMATS} | {DEFINITION: KINDS["in_hbase"]}
    ).items():
        table = external_table(database, name, parameters, source.external)
        table.sd.inputFormat = FORMATS.get(name, table.sd.inputFormat)
        built.source.create_table(table)
    source_sql.run(f"create external table {database}.turned (id int)")
    source_sql.run(f"insert into {database}.turned values (1)")
    if start == "bootstrap":
        built.projection.close()
        built = build_replica(
            source.metastore,
            target.metastore,
            db=database,
            roots=[source.warehouse, source.external, source.cmroot],
            metadata_only=(DEFINITION,),
        )
    built.follow()
    turn_into_iceberg(built.source, database, "turned")
    built.follow()
    (status,) = list_unreplicated("p", built.context)
    assert {each.name: (each.code, each.on_target) for each in status.listed} == {
        **{f"{database}.{name}": (code, False) for name, code in CODES.items()},
        f"{database}.turned": ("iceberg", True),
    }
    assert sorted(built.target.table_names(built.policy.target_db)) == [DEFINITION, "turned"]
    assert built.quarantined() == {}
    require_listed_without_state(built)
    outcomes = {result.reason for result in verify(built, *CODES).values()}
    assert all(outcomes), outcomes
    built.source.drop_table(database, "turned", delete_data=False)
    built.source.drop_table(database, "iced", delete_data=False)
    built.follow()
    assert built.target.table_names(built.policy.target_db) == [DEFINITION]
    (result,) = verify(built, DEFINITION).values()
    assert (result.outcome.value, result.differences) == ("equal", ())
    built.projection.close()


def require_listed_without_state(replica: Replica) -> None:
    """Require that a process without the state file lists the tables that the target does not have."""
    lost = replace(replica.context, tables=replace(replica.context.tables, unreplicated=UnreplicatedTables()))
    record_existing(7, lost)
    assert {entry.table: entry.code for entry in lost.tables.unreplicated.entries()} == CODES


def _newest(source: ClusterEndpoints) -> int:
    with closing(Metastore([source.metastore])) as metastore:
        return metastore.current_event_id()


def turn_into_iceberg(metastore: Metastore, db: str, name: str) -> None:
    """Change a table as an engine does that turns it into an Iceberg table in place."""
    table = metastore.get_table(db, name)
    table.parameters = {**(table.parameters or {}), **KINDS["iced"]}
    metastore.alter_table(db, name, table)
