"""Avro tables whose schema is a file of the source: read by Hive on the target after the source's files are
gone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.replication.effects.avro_schemas import DIRECTORY
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.small_workload import create_source
from tests.builders.replication.verification import find_differences


AVRO = "row format serde 'org.apache.hadoop.hive.serde2.avro.AvroSerDe' stored as avro"


def write_schema(path: Path, *fields: str) -> str:
    """Write a record of an id and these optional texts; return the path."""
    columns: list[object] = [{"name": "id", "type": "int"}]
    columns += [{"name": name, "type": ["null", "string"], "default": None} for name in fields]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"type": "record", "name": "r", "fields": columns}))
    return str(path)


def read_properties(replica: Replica) -> str:
    """Return all definitions of the target, as text."""
    db = replica.policy.target_db
    tables = [replica.target.get_table(db, name) for name in replica.target.table_names(db)]
    partitions = [replica.target.all_partitions(db, "parts")]
    return repr(tables) + repr([list(each) for each in partitions])


def test_hive_reads_avro_tables_on_the_target_without_the_schema_files_of_the_source(
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    database: str,
    source_sql: Session,
    target_sql: Session,
) -> None:
    db, schemas = database, Path(source.external) / f"schemas_{database}"
    first, second = (write_schema(schemas / name, "v") for name in ("first.avsc", "second.avsc"))
    wide = write_schema(schemas / "wide.avsc", "v", "w")
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.early {AVRO} tblproperties ('avro.schema.url'='file://{first}')")
    source_sql.run(f"insert into {db}.early values (1, 'a')")
    replica = build_replica(
        source.metastore,
        target.metastore,
        db=db,
        roots=[source.warehouse, source.external, source.cmroot],
    )
    replica.follow()
    source_sql.run(f"create table {db}.late {AVRO} tblproperties ('avro.schema.url'='{second}')")
    source_sql.run(f"insert into {db}.late values (1, 'a')")
    source_sql.run(
        f"create external table {db}.parts partitioned by (p int) row format serde "
        "'org.apache.hadoop.hive.serde2.avro.AvroSerDe' with serdeproperties "
        f"('avro.schema.url'='{second}') stored as avro"
    )
    source_sql.run(f"insert into {db}.parts partition (p=1) values (1, 'a')")
    source_sql.run(f"alter table {db}.late set tblproperties ('avro.schema.url'='{wide}')")
    source_sql.run(f"insert into {db}.late values (2, 'b', 'c')")
    source_sql.run(f"alter table {db}.late rename to {db}.later")
    replica.follow()
    assert replica.quarantined() == {}
    names = ("early", "later", "parts")
    expected = {name: sorted(source_sql.rows(f"select * from {db}.{name}")) for name in names}
    differences = find_differences(replica, *names)
    assert not differences, differences
    definitions = read_properties(replica)
    assert definitions.count(DIRECTORY) == 4
    assert str(schemas) not in definitions
    write_schema(schemas / "first.avsc", "v", "added")
    assert "avro.schema.url" in {each.key for each in find_differences(replica, "early")["early"]}
    source_sql.run(f"alter table {db}.early set tblproperties ('comment'='the schema changed')")
    replica.follow()
    assert find_differences(replica, "early") == {}
    expected["early"] = source_sql.rows(f"select * from {db}.early")
    assert expected["early"] == [("1", "a", "NULL")]
    shutil.rmtree(schemas)
    copy = replica.policy.target_db
    assert {name: sorted(target_sql.rows(f"select * from {copy}.{name}")) for name in names} == expected
    replica.projection.close()
