"""Tables that Spark 4 creates:
a Spark session on the replica reads each of them when nothing is left of the source.

The source's session is closed before the one on the target starts, since Spark's Hive client cannot change
its metastore within one JVM.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from daemon.replica.status.unreplicated import list_unreplicated
from dev.stack.endpoints import ClusterEndpoints
from handlers.metastore.client import Metastore
from handlers.replication.external.cycle import ExternalSettings
from handlers.structs.objects import Partition, Table
from tests.builders.endpoint.endpoint_process import EndpointProcess
from tests.builders.endpoint.spark_session import SparkSession, spark_at
from tests.builders.replication.external import ExternalCopies
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.verification import verify


pytestmark = pytest.mark.long

FORMATS = ("parquet", "orc", "csv", "json")


@contextmanager
def spark_on(metastore: str, directory: Path) -> Iterator[SparkSession]:
    """Provide a session of Spark through an endpoint in front of a metastore."""
    directory.mkdir(parents=True)
    endpoint = EndpointProcess(directory, metastore)
    endpoint.start()
    try:
        with spark_at(endpoint.uri, directory / "spark") as session:
            yield session
    finally:
        endpoint.stop()


def create_tables(spark: SparkSession, db: str, files: Path) -> None:
    """Create a table of each kind that Spark stores differently."""
    spark.run(f"create database {db} location 'file:{files}/{db}.db'")
    for kind in FORMATS:
        spark.run(f"create table {db}.managed_{kind} (id int, item string) using {kind}")
        spark.run(
            f"create table {db}.external_{kind} (id int, item string) using {kind} location "
            f"'file:{files}/ext/{kind}'"
        )
        spark.run(
            f"create table {db}.parts_{kind} (id int, dt string) using {kind} partitioned by (dt) "
            f"location 'file:{files}/parts/{kind}'"
        )
    spark.run(f"create table {db}.external_text (line string) using text location 'file:{files}/ext/text'")
    spark.run(f"create table {db}.buckets (id int) using parquet clustered by (id) into 2 buckets")
    spark.run(f"create table {db}.managed_parts (id int, dt string) using parquet partitioned by (dt)")
    spark.run(f"create table {db}.selected using csv options (header true) as select 1 as id")
    spark.run(f"create table {db}.hive_orc (id int) partitioned by (dt string) stored as orc")


def fill_tables(spark: SparkSession, db: str, number: int) -> None:
    """Add a row to each table, and a partition to each partitioned one."""
    for kind in FORMATS:
        spark.run(f"insert into {db}.managed_{kind} values ({number}, 'pen')")
        spark.run(f"insert into {db}.external_{kind} values ({number}, 'ink')")
        spark.run(f"insert into {db}.parts_{kind} values ({number}, 'd{number}')")
    spark.run(f"insert into {db}.external_text values ('line {number}')")
    spark.run(f"insert into {db}.buckets values ({number})")
    spark.run(f"insert into {db}.managed_parts values ({number}, 'd{number}')")
    spark.run(f"insert into {db}.hive_orc values ({number}, 'd{number}')")


def read_tables(spark: SparkSession, db: str) -> dict[str, list[list[str]]]:
    """Return the rows of all tables by name."""
    names = [row[1] for row in spark.run(f"show tables in {db}")]
    return {name: sorted(spark.run(f"select * from {db}.{name}")) for name in names}


def list_texts(item: Table | Partition) -> list[str]:
    """Return all texts of a definition in which a location could be."""
    assert item.sd is not None
    assert item.sd.serdeInfo is not None
    maps = (item.parameters, item.sd.parameters, item.sd.serdeInfo.parameters)
    return [item.sd.location or "", *(value for each in maps for value in (each or {}).values())]


@dataclass
class SparkLake:
    """A database that Spark writes below ``files``, and its replica."""

    db: str
    files: Path
    base: str
    replica: Replica
    copies: ExternalCopies

    def follow(self) -> None:
        """Apply all events, and run a cycle."""
        self.replica.follow()
        progress = self.copies.run()
        assert progress.is_complete, progress.problems

    def definitions(self) -> list[Table | Partition]:
        """Return all tables and partitions of the target."""
        target, db = self.replica.target, self.replica.policy.target_db
        found: list[Table | Partition] = []
        for name in target.table_names(db):
            table = target.get_table(db, name)
            found.append(table)
            if table.partitionKeys:
                found += target.get_partitions(db, name, target.partition_names(db, name))
        return found


@pytest.fixture
def build(
    source: ClusterEndpoints, target: ClusterEndpoints, tmp_path: Path
) -> Iterator[Callable[..., SparkLake]]:
    """A function that begins a replica: after an event, or with a bootstrap now."""
    db, files = f"spark_{uuid.uuid4().hex[:8]}", tmp_path / "source"
    made: list[SparkLake] = []

    def begin(kind: str, *, start: bool | int) -> SparkLake:
        base = f"file:{target.external}/{kind}_{db}"
        replica = build_replica(
            source.metastore,
            target.metastore,
            db=db,
            target_db=f"{db}_{kind}",
            roots=[str(files)],
            start=start,
            external_base=base,
        )
        copies = ExternalCopies(replica.context, ExternalSettings(every_s=60, delete=False, workers=2))
        made.append(SparkLake(db, files, base, replica, copies))
        return made[-1]

    yield begin
    for each in made:
        each.replica.projection.close()


def change_tables(spark: SparkSession, db: str, files: Path) -> None:
    """Move, rename and overwrite tables, and place a partition elsewhere."""
    spark.run(f"alter table {db}.external_parquet set location 'file:{files}/ext/moved'")
    spark.run(f"insert into {db}.external_parquet values (3, 'nib')")
    spark.run(f"alter table {db}.external_json rename to {db}.renamed_json")
    spark.run(f"alter table {db}.managed_csv rename to {db}.renamed_csv")
    spark.run(f"insert overwrite {db}.managed_orc values (7, 'cap')")
    spark.run(f"insert overwrite {db}.managed_json select 1, 'none' where false")
    spark.run(f"insert overwrite {db}.external_csv values (8, 'hat')")
    spark.run(f"insert overwrite {db}.parts_orc partition (dt = 'd1') values (9)")
    spark.run(f"insert overwrite {db}.hive_orc partition (dt = 'd2') values (9)")
    spark.run(f"alter table {db}.parts_parquet add partition (dt = 'far') location 'file:{files}/far'")
    spark.run(f"insert into {db}.parts_parquet values (5, 'far')")
    spark.run(f"alter table {db}.parts_json drop partition (dt = 'd1')")


def test_spark_reads_every_table_of_the_replica_without_the_source(
    build: Callable[..., SparkLake], source: ClusterEndpoints, target: ClusterEndpoints, tmp_path: Path
) -> None:
    with closing(Metastore([source.metastore])) as metastore:
        before = metastore.current_event_id()
    with spark_on(source.metastore, tmp_path / "at_source") as spark:
        followed = build("followed", start=before)
        db, files = followed.db, followed.files
        create_tables(spark, db, files)
        fill_tables(spark, db, 1)
        followed.follow()
        loaded = build("loaded", start=True)
        loaded.follow()
        fill_tables(spark, db, 2)
        change_tables(spark, db, files)
        for lake in (followed, loaded):
            lake.follow()
        rows = read_tables(spark, db)
    assert rows["renamed_json"] == [["1", "ink"], ["2", "ink"]]
    assert rows["renamed_csv"] == [], "Spark loses them at the source, too"
    assert (rows["managed_orc"], rows["managed_json"]) == ([["7", "cap"]], [])
    for lake in (followed, loaded):
        require_equal(lake)
    files.rename(tmp_path / "switched_off")
    with spark_on(target.metastore, tmp_path / "at_target") as spark:
        for lake in (followed, loaded):
            name = lake.replica.policy.target_db
            assert read_tables(spark, name) == rows
        spark.run(f"insert into {name}.external_csv values (9, 'cap')")
        spark.run(f"insert into {name}.parts_json values (9, 'd9')")
        assert spark.run(f"select id from {name}.external_csv where item = 'cap'") == [["9"]]
        assert spark.run(f"select id from {name}.parts_json where dt = 'd9'") == [["9"]]
    assert not files.exists(), "nothing is written to the source's directories"


def require_equal(lake: SparkLake) -> None:
    """Require that all tables are replicated, that none names a directory of the source, and that
    verification finds no difference."""
    assert list_unreplicated("p", lake.replica.context) == ()
    assert lake.replica.quarantined() == {}
    naming = [text for each in lake.definitions() for text in list_texts(each) if str(lake.files) in text]
    assert [text for text in naming if not text.startswith(lake.base)] == []
    names = lake.replica.source.table_names(lake.db)
    differing = {
        name: found.differences for name, found in verify(lake.replica, *names).items() if found.differences
    }
    assert differing == {}
