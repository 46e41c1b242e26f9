"""What a Hive 3.1 logs about its transactions, and what its compactions leave in the directories: the facts
that a source of 3.1 rests on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dev.stack.cluster import HiveCluster
from dev.stack.errors import SqlFailed
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from handlers.structs.notifications import NotificationEvent
from handlers.structs.transactions import CompactionType
from state.errors import Unsupported
from tests.builders.components.hive_3 import (
    UNREADABLE,
    CompactionFailed,
    compact,
    read_row_ids,
    read_rows,
    stream,
)
from tests.builders.replication.small_workload import create_source, roll_back


pytestmark = [pytest.mark.old_hive, pytest.mark.long]

ACID = "stored as orc tblproperties ('transactional'='true')"
ANALYSIS = ["OPEN_TXN", "ALTER_TABLE", "COMMIT_TXN"]
"""What a compaction of a table with column statistics logs: its worker computes them again. The compaction
itself logs nothing."""
WRITE = ["OPEN_TXN", "ALLOC_WRITE_ID_EVENT", "ALTER_TABLE", "INSERT", "ALTER_TABLE", "COMMIT_TXN"]


@dataclass
class Written:
    """A table with five writes, the fifth aborted, and the events of the statements in order."""

    db: str
    metastore: Metastore
    sql: Session
    table: Path
    events: list[list[NotificationEvent]]

    def directories(self) -> list[str]:
        """Return the names of the directories with rows."""
        return sorted(entry.name for entry in self.table.iterdir() if entry.is_dir())


@pytest.fixture
def written(hive_3: HiveCluster, database: str) -> Iterator[Written]:
    with Metastore([hive_3.metastore.uri]) as metastore, hive_3.sql() as sql:
        create_source(sql, database)
        sql.run(f"create table {database}.t (k int, v string) {ACID}")
        table = hive_3.metastore.layout.warehouse / f"{database}.db" / "t"
        found = Written(database, metastore, sql, table, [])
        for statement in (
            "insert into {t} values (1, 'a'), (2, 'b')",
            "update {t} set v = 'u' where k = 1",
            "delete from {t} where k = 2",
            "insert overwrite table {t} select k, 'o' from {t}",
        ):
            before = metastore.current_event_id()
            sql.run(statement.format(t=f"{database}.t"))
            found.events.append(metastore.next_events(before, 1000))
        before = metastore.current_event_id()
        roll_back(sql, f"insert into {database}.t values (666, 'aborted')")
        found.events.append(metastore.next_events(before, 1000))
        yield found


def kinds(events: list[NotificationEvent]) -> list[str]:
    return [event.eventType for event in events]


def message(events: list[NotificationEvent], kind: str) -> dict[str, Any]:
    """Return the message of the only event of a kind."""
    (found,) = (json.loads(event.message) for event in events if event.eventType == kind)
    assert isinstance(found, dict)
    return found


def test_the_log_names_write_ids_and_files_but_has_no_write_events(written: Written) -> None:
    assert [kinds(events) for events in written.events] == [*[WRITE] * 4, [*WRITE[:-1], "ABORT_TXN"]]
    for number, events in enumerate(written.events, 1):
        ended = events[-1]
        assert (ended.dbName, ended.tableName, ended.catName) == ("null", " ", None)
        assert (events[1].dbName, events[1].tableName) == (written.db, " ")
        (txn_id,) = message(events, "ALLOC_WRITE_ID_EVENT")["txnIdList"]
        allocated = message(events, "ALLOC_WRITE_ID_EVENT")
        assert (allocated["dbName"], allocated["tableName"]) == (written.db, "t")
        assert allocated["writeIdList"] == [number]
        assert message(events, ended.eventType).keys() == {"txnid", "timestamp", "server", "servicePrincipal"}
        assert message(events, ended.eventType)["txnid"] == txn_id
        assert ended.messageFormat == "json-0.2"
        with pytest.raises(Unsupported):
            written.metastore.write_events(txn_id)


def test_insert_events_have_checksum_and_change_manager_and_their_paths_have_the_write_id(
    written: Written, hive_3: HiveCluster
) -> None:
    directories = []
    for events in written.events:
        inserted = message(events, "INSERT")
        assert inserted["replace"] == "false", "also of an overwrite"
        for entry in inserted["files"]:
            uri, checksum, cmroot, subdir = entry.split("#")
            assert len(checksum) > 0
            assert (cmroot, subdir) == (f"file:{hive_3.metastore.layout.cmroot}", "")
            directory, _, name = uri.partition("/t/")[2].rpartition("/")
            assert name.startswith("bucket_0000")
            directories.append(directory)
    assert directories == [
        "delta_0000001_0000001_0000",
        "delta_0000002_0000002_0000",
        "delete_delta_0000002_0000002_0000",
        "delete_delta_0000003_0000003_0000",
        "base_0000004",
        "delta_0000005_0000005_0000",
    ]


def test_a_major_compaction_is_named_after_an_aborted_write_and_only_a_file_inside_says_what_it_is(
    written: Written,
) -> None:
    rows = read_row_ids(written.sql, f"{written.db}.t")
    before = written.metastore.current_event_id()
    compact(written.metastore, written.db, "t")
    assert kinds(written.metastore.next_events(before, 1000)) == ANALYSIS
    assert written.directories() == ["base_0000005"]
    assert (written.table / "base_0000005" / "_metadata_acid").exists()
    assert read_row_ids(written.sql, f"{written.db}.t") == rows
    (valid,) = written.metastore.valid_write_ids([f"{written.db}.t"])
    assert (valid.high_water_mark, valid.aborted) == (5, (5,))


def test_a_minor_compaction_has_neither_suffix_nor_marker_and_a_directory_of_deletes_without_any(
    written: Written,
) -> None:
    written.sql.run(f"insert into {written.db}.t values (7, 'x')")
    written.sql.run(f"insert into {written.db}.t values (8, 'y')")
    compact(written.metastore, written.db, "t", CompactionType.MINOR)
    minor = ["delete_delta_0000005_0000007", "delta_0000005_0000007"]
    assert written.directories() == ["base_0000004", *minor]
    assert not any((written.table / name / "_metadata_acid").exists() for name in minor)


def test_a_minor_compaction_writes_deletions_twice_so_that_rows_are_not_readable_one_by_one(
    hive_3: HiveCluster, database: str
) -> None:
    """The table has no buckets, but two bucket files with deletions."""
    with Metastore([hive_3.metastore.uri]) as metastore, hive_3.sql() as sql:
        create_source(sql, database)
        sql.run(f"create table {database}.two (k int) clustered by (k) into 2 buckets {ACID}")
        sql.run(f"insert into {database}.two values (1), (2), (3), (4)")
        sql.run(f"create table {database}.t (k int, v string) {ACID}")
        sql.run(f"insert into {database}.t select k, 'a' from {database}.two")
        sql.run(f"update {database}.t set v = 'u' where k > 1")
        rows = read_rows(sql, f"{database}.t")
        row_ids = read_row_ids(sql, f"{database}.t")
        compact(metastore, database, "t", CompactionType.MINOR)
        with pytest.raises(SqlFailed, match=UNREADABLE):
            read_rows(sql, f"{database}.t")
        assert rows == [("1", "a"), ("2", "u"), ("3", "u"), ("4", "u")]
        assert sql.rows(f"select v, count(*) from {database}.t group by v") == [("a", "1"), ("u", "3")]
        assert read_row_ids(sql, f"{database}.t") == row_ids, "by the vectorized reader"
        with pytest.raises(CompactionFailed):
            compact(metastore, database, "t")


@pytest.fixture
def stream_table(hive_3: HiveCluster, database: str) -> Path:
    """The directory of a table that can be streamed into, with one row in the partition dt=old."""
    with hive_3.sql() as sql:
        create_source(sql, database)
        sql.run(
            f"create table {database}.s (k int, v string) partitioned by (dt string) "
            f"clustered by (k) into 1 buckets {ACID}"
        )
        sql.run(f"insert into {database}.s partition (dt='old') values (1, 'x')")
    return hive_3.metastore.layout.warehouse / f"{database}.db" / "s"


def test_streams_into_an_existing_partition_are_not_named_by_any_event(
    hive_3: HiveCluster, database: str, stream_table: Path
) -> None:
    with Metastore([hive_3.metastore.uri]) as metastore:
        before = metastore.current_event_id()
        stream(hive_3, database, "s", ["2,s,old", "3,s,new"])
        write = ["OPEN_TXN", "ALLOC_WRITE_ID_EVENT"]
        logged = kinds(metastore.next_events(before, 1000))
    assert logged == [*write, "COMMIT_TXN", *write, "ADD_PARTITION", "COMMIT_TXN"]
    assert (stream_table / "dt=old" / "delta_0000002_0000002").is_dir(), "without a statement"
    with hive_3.sql() as sql:
        rows = [row[1:] for row in read_row_ids(sql, f"{database}.s")]
    assert rows == [("1", "x", "old"), ("2", "s", "old"), ("3", "s", "new")]


def test_a_closed_batch_has_the_name_of_a_minor_compaction_but_no_directory_of_deletes(
    hive_3: HiveCluster, database: str, stream_table: Path
) -> None:
    with Metastore([hive_3.metastore.uri]) as metastore:
        before = metastore.current_event_id()
        stream(hive_3, database, "s", ["5,s,old", "6,s,old"], batch_size=3)
        events = metastore.next_events(before, 1000)
    assert kinds(events) == ["OPEN_TXN", "ALLOC_WRITE_ID_EVENT", "COMMIT_TXN", "COMMIT_TXN", "ABORT_TXN"]
    assert message(events, "ALLOC_WRITE_ID_EVENT")["writeIdList"] == [2, 3, 4]
    names = {path.name for path in (stream_table / "dt=old").iterdir()}
    assert names == {"delta_0000001_0000001_0000", "delta_0000002_0000004"}
    batch = stream_table / "dt=old" / "delta_0000002_0000004"
    assert not [path for path in batch.iterdir() if path.name.endswith("_flush_length")]
