"""Commits: their write events, partitions that Hive logged no files for, and statistics of rows that
arrive."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from handlers.replication.target.objects import ACCURATE
from handlers.structs.objects import Partition, StorageDescriptor
from state.errors import NotFound
from state.transactions.valid_write_ids import ValidWriteIds
from tests.builders.replication.fake_target import FakedReplica, a_dispatcher
from tests.builders.replication.recording_metastore import RecordingMetastore
from tests.builders.replication.replay_events import a_table, aborted, allocated, committed, created, written


def test_the_parts_of_a_long_file_list_become_one_write_event(replica: FakedReplica) -> None:
    one, two = replica.file("bucket_00000_0"), replica.file("bucket_00001_0")
    replica.projection.apply(
        [
            created(1),
            allocated(2, 1, 1),
            written(3, one, part=0, parts=3),
            written(3, two, part=1, parts=3),
            committed(3, part=2, parts=3),
        ]
    )
    ((_, (event,)),) = replica.target.commits
    assert event.files == f"{one.uri}###{one.subdir}]{two.uri}###{two.subdir}"
    assert (event.database, event.table, event.writeId) == ("shop_r", "orders", 1)


def test_a_commit_leaves_the_statistics_of_its_table_accurate(replica: FakedReplica) -> None:
    accurate = {"transactional": "true", ACCURATE: "{}"}
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    replica.target.tables["orders"] = a_table(parameters=accurate, writeId=1)
    replica.projection.apply([committed(3)])
    assert (replica.target.tables["orders"].parameters or {}) == accurate


def test_an_abort_marks_the_statistics_of_its_rows_as_inaccurate(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    accurate = {"transactional": "true", ACCURATE: "{}"}
    replica.target.tables["orders"] = a_table(parameters=accurate, writeId=1)
    replica.projection.apply([aborted(3)])
    assert (replica.target.tables["orders"].parameters or {}) == {"transactional": "true"}


def a_partition(rows: str, write_id: int) -> Partition:
    return Partition(
        values=["1"],
        dbName="shop_r",
        tableName="orders",
        sd=StorageDescriptor(location="file:/p"),
        parameters={"numRows": rows},
        writeId=write_id,
    )


@pytest.mark.parametrize(
    ("rows", "write_id", "lost"),
    [("5", 1, True), ("0", 1, False), ("-1", 1, False), ("5", 2, False)],
    ids=["rows", "no rows", "no statistics", "rows of another write id"],
)
def test_a_touched_partition_that_is_gone_at_the_source_is_lost_only_if_it_had_rows(
    replica: FakedReplica, rows: str, write_id: int, *, lost: bool
) -> None:
    context = replica.context
    context.tables.write_ids.allocate(7, "shop.orders", 1, 1)
    context.tables.write_ids.touch_partition("shop.orders", 1, "dt=1")
    source: Any = RecordingMetastore({"get_partition_by_name": NotFound("there is none")})
    target: Any = RecordingMetastore(
        {
            "get_partition_by_name": a_partition(rows, write_id),
            "get_table": NotFound("there is none"),
            "get_database": NotFound("there is none"),
            "valid_write_ids": [ValidWriteIds("shop_r.orders", 9)],
        }
    )
    replay = a_dispatcher(replace(context, source=source, target=target)).transactions
    replay.commit(committed(2, txn_id=7))
    assert ("orders" in context.tables.quarantine) is lost
    assert "commit_replayed" in target.names(), "the transaction is committed for its other tables"
