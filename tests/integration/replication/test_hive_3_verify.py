"""``tideline verify`` compares a replica with a source of Hive 3.1 whose tables are compacted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from dev.stack.errors import SqlFailed
from dev.stack.hive.sql_session import Session
from handlers.replication.verification.findings import Outcome, TableResult
from handlers.structs.transactions import CompactionType
from tests.builders.components.hive_3 import UNREADABLE, compact, read_rows
from tests.builders.daemon.tideline_process import tideline, write_config
from tests.builders.replication.hive_3_source import ACID, INSERT_ONLY, PLAIN, Hive3Source
from tests.builders.replication.replica import Replica
from tests.builders.replication.small_workload import roll_back
from tests.builders.replication.stepped_loads import SteppedLoads
from tests.builders.replication.verification import verify


pytestmark = [pytest.mark.old_hive, pytest.mark.long]

TABLES = ("untouched", "major", "minor", "copied", "twice", "parts", "lines", "converted")


@pytest.fixture
def replica(old: Hive3Source) -> Iterator[Replica]:
    """A replica that is loaded, of tables with updates, deletions and aborted writes, compacted before and
    after the load. Hive 3.1 itself cannot read ``twice`` row by row (reference: hive-3.1-source.md §3)."""
    for name in ("untouched", "major", "minor", "copied"):
        old.run(
            f"create table {{db}}.{name} (k int, v string) {ACID}",
            f"insert into {{db}}.{name} values (1, 'a'), (2, 'b'), (3, 'c')",
            f"update {{db}}.{name} set v = 'u' where k = 1",
            f"delete from {{db}}.{name} where k = 2",
        )
    old.run(
        f"create table {{db}}.parts (k int, v string) partitioned by (dt string) "
        f"clustered by (k) into 2 buckets {ACID}",
        "insert into {db}.parts partition (dt) values (1, 'a', 'a'), (2, 'b', 'b'), (3, 'c', 'a')",
        "delete from {db}.parts where k = 3",
        f"create table {{db}}.lines (k int) {INSERT_ONLY}",
        "insert into {db}.lines values (1), (2)",
        f"create table {{db}}.converted (k int, v string) {PLAIN}",
        "insert into {db}.converted values (1, 'plain'), (2, 'gone')",
        "alter table {db}.converted set tblproperties ('transactional'='true')",
        "delete from {db}.converted where k = 2",
        f"create table {{db}}.two (k int, v string) clustered by (k) into 2 buckets {ACID}",
        "insert into {db}.two values (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')",
    )
    roll_back(old.sql, f"insert into {old.db}.major values (666, 'aborted')")
    old.run(
        f"create table {{db}}.twice (k int, v string) {ACID}",
        "insert into {db}.twice select k, v from {db}.two",
        "update {db}.twice set v = 'u' where k > 1",
    )
    compact(old.metastore, old.db, "copied", CompactionType.MINOR)
    compact(old.metastore, old.db, "twice", CompactionType.MINOR)
    replica = old.load()
    with closing(replica.projection):
        SteppedLoads(replica).finish()
        yield replica


def assert_no_differences(results: Mapping[str, TableResult]) -> None:
    found = {name: (each.outcome, each.differences) for name, each in results.items()}
    assert found == dict.fromkeys(TABLES, (Outcome.EQUAL, ()))


def compact_after_load(old: Hive3Source) -> None:
    compact(old.metastore, old.db, "major")
    compact(old.metastore, old.db, "minor", CompactionType.MINOR)
    compact(old.metastore, old.db, "parts", CompactionType.MINOR, partition_name="dt=a")


def test_compactions_of_the_source_are_no_differences_and_are_counted(
    old: Hive3Source, replica: Replica
) -> None:
    before = verify(replica, *TABLES, checksums=True)
    assert_no_differences(before)
    assert {name for name, each in before.items() if dict(each.not_compared).get("files")} == set()
    compact_after_load(old)
    replica.follow()
    after = verify(replica, *TABLES, checksums=True)
    assert_no_differences(after)
    compacted = {name for name, each in after.items() if dict(each.not_compared).get("files")}
    assert compacted == {"major", "minor", "parts"}


def test_a_table_that_hive_3_1_cannot_read_any_more_is_readable_on_the_replica(
    old: Hive3Source, replica: Replica, target_sql: Session
) -> None:
    with pytest.raises(SqlFailed, match=UNREADABLE):
        read_rows(old.sql, f"{old.db}.twice")
    rows = read_rows(target_sql, f"{replica.policy.target_db}.twice")
    assert rows == [("1", "a"), ("2", "u"), ("3", "u"), ("4", "u")]
    old.assert_equal_now(replica, target_sql, "twice")


def test_spark_reads_the_acid_files_of_hive_3_1_as_its_engine_does(
    old: Hive3Source, replica: Replica, tmp_path: Path
) -> None:
    compact_after_load(old)
    replica.follow()
    config = write_config(
        tmp_path,
        {
            "sources": {
                "lake": {"metastore": [old.cluster.metastore.uri], "topic": "none", "read_roots": old.roots}
            },
            "targets": {"dr": {"metastore": [old.target.metastore]}},
            "policies": {
                "shop": {
                    "source": "lake",
                    "target": "dr",
                    "database": old.db,
                    "target_database": replica.policy.target_db,
                }
            },
            "kafka": {"bootstrap": "127.0.0.1:1"},
        },
    )
    done = tideline(config, "verify", "shop", *TABLES, "--rows", "--json", timeout_s=300)
    tables = {each["table"]: each for each in json.loads(done.stdout)["tables"]}
    counted: dict[str, int | None] = {
        name: int(old.sql.rows(f"select count(*) from {old.db}.{name}")[0][0])
        for name in TABLES
        if name != "converted"
    }
    counted["converted"] = None  # Spark cannot read rows from before the table was transactional
    assert {name: each["rows"] for name, each in tables.items()} == counted
    assert {name: each["differences"] for name, each in tables.items()} == {name: [] for name in TABLES}
    assert done.returncode == 0, done.stderr
