"""The relay lists the partitions that Hive left out of a transaction's write events, when it meets the
commit."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from daemon.service.configuration import config_model
from daemon.sources import outbox as outbox_module
from daemon.sources.outbox import Outbox
from daemon.sources.touched_events import observe
from daemon.sources.unlogged_partitions import PAUSE_S, UnloggedPartitions, build_unlogged_partitions
from handlers.decoding.decoder import decode
from handlers.events import FilesWritten, SourceFile, TxnCommitted
from handlers.files.listing import WriteListing
from handlers.files.paths import AllowedRoots
from handlers.files.systems.schemes import open_file_systems
from handlers.structs import tjson
from handlers.structs.notifications import NotificationEvent, WriteEventInfo
from handlers.structs.objects import FieldSchema, Partition, SerDeInfo, StorageDescriptor, Table
from state.errors import FilesUnavailable
from state.transactions.touched_partitions import TouchedPartitions
from tests.builders.kafka.fake_log import ListedLog, commit, ddl, event
from tests.builders.kafka.fake_topics import outbox


CONTENT = b"rows"
MD5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()


class Warehouse:
    """A source with a table ``sales.p``, partitioned by ``dt``, in a local directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = ListedLog()
        self.files = open_file_systems()
        self.now = 0.0
        self.table = Table(
            tableName="p",
            dbName="sales",
            createTime=1_700_000_000,
            sd=StorageDescriptor(cols=[], serdeInfo=SerDeInfo(), location=f"file:{root}"),
            partitionKeys=[FieldSchema(name="dt", type="string")],
            parameters={"transactional": "true"},
            id=7,
        )
        self.log.tables["sales", "p"] = self.table

    def unlogged(self, *, timeout_s: float = 10.0) -> UnloggedPartitions:
        return UnloggedPartitions(
            ["sales"],
            self.files,
            AllowedRoots.of([f"file:{self.root}"]),
            clock=lambda: self.now,
            timeout_s=timeout_s,
        )

    def outbox(self, unlogged: UnloggedPartitions | None = None, **settings: Any) -> Outbox:
        return outbox(self.log, unlogged=unlogged or self.unlogged(), **settings)

    def add(self, kind: str, message: dict[str, Any], *, db: str = "sales") -> int:
        event_id = len(self.log.events) + 1
        self.log.add(event(event_id, kind, message, db=db, table="p"))
        return event_id

    def allocate(self, txn_id: int, write_id: int) -> None:
        message = {"dbName": "sales", "tableName": "p", "txnIdList": [txn_id], "writeIdList": [write_id]}
        self.add("ALLOC_WRITE_ID_EVENT", message)

    def touch(self, write_id: int, *days: str, kind: str = "ADD_PARTITION") -> None:
        partitions = [
            Partition(
                values=[day],
                dbName="sales",
                tableName="p",
                sd=StorageDescriptor(cols=[], serdeInfo=SerDeInfo(), location=f"file:{self.root}/dt={day}"),
                parameters={},
                writeId=write_id,
            )
            for day in days
        ]
        for partition in partitions:
            self.log.partitions[f"dt={(partition.values or [''])[0]}"] = partition
        message = {
            "db": "sales",
            "table": "p",
            "tableObjJson": tjson.encode(self.table),
            "partitions": [{"dt": day} for day in days],
            "partitionListJson": [tjson.encode(partition) for partition in partitions],
        }
        self.add(kind, message)

    def write(self, write_id: int, *days: str) -> None:
        for day in days:
            directory = self.root / f"dt={day}" / f"delta_{write_id:07d}_{write_id:07d}_0000"
            directory.mkdir(parents=True)
            (directory / "bucket_00000_0").write_bytes(CONTENT)

    def commit(self, txn_id: int, write_id: int, logged: Iterable[str] = ()) -> int:
        event_id = len(self.log.events) + 1
        self.log.add(commit(event_id, txn_id))
        self.log.writes[txn_id] = [self.logged(write_id, day) for day in logged]
        return event_id

    def logged(self, write_id: int, day: str) -> WriteEventInfo:
        subdir = f"delta_{write_id:07d}_{write_id:07d}_0000"
        entry = f"file:{self.root}/dt={day}/{subdir}/bucket_00000_0#{MD5}#file:{self.root}/cm#{subdir}"
        return WriteEventInfo(
            writeId=write_id,
            database="sales",
            table="p",
            files=entry,
            partition=f"dt={day}",
            tableObj=tjson.encode(self.table),
        )


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path)


def multi_insert(warehouse: Warehouse, *, days: str = "abc", logged: str = "a") -> int:
    """A multi-insert into static partitions, of which Hive logs only the first."""
    warehouse.allocate(71, 1)
    for day in days:
        warehouse.touch(1, day)
    warehouse.touch(1, *days, kind="ALTER_PARTITIONS")
    warehouse.write(1, *days)
    return warehouse.commit(71, 1, logged)


def writes_of(box: Outbox, event_id: int) -> tuple[dict[str, tuple[SourceFile, ...]], TxnCommitted]:
    """Return the files by partition, and the commit, as a relay that starts before ``event_id`` publishes
    them."""
    (item,) = [item for item in box.read(0) if item.event_id == event_id]
    events = [decode(record.value, record.headers) for record in item.records]
    assert isinstance(events[-1], TxnCommitted)
    writes = {each.partition_name: each.files for each in events if isinstance(each, FilesWritten)}
    assert len(writes) == len(events) - 1
    return writes, events[-1]


def test_unlogged_partitions_are_listed_with_checksums_behind_the_logged_ones(warehouse: Warehouse) -> None:
    writes, end = writes_of(warehouse.outbox(), multi_insert(warehouse))
    assert list(writes) == ["dt=a", "dt=b", "dt=c"]
    assert end.listed
    for files in writes.values():
        (file,) = files
        assert (file.checksum, file.cm_root) == (MD5, f"file:{warehouse.root}/cm")
        assert file.subdir == "delta_0000001_0000001_0000"


def test_the_parts_of_listed_partitions_are_marked(warehouse: Warehouse) -> None:
    event_id = multi_insert(warehouse)
    (item,) = [item for item in warehouse.outbox().read(0) if item.event_id == event_id]
    marks = [json.loads(record.value)["message"].get("listed") for record in item.records]
    assert marks == [None, True, True, True]


def test_a_partition_without_new_files_is_marked_as_listed_and_empty(warehouse: Warehouse) -> None:
    event_id = multi_insert(warehouse)
    shutil.rmtree(warehouse.root / "dt=b" / "delta_0000001_0000001_0000")
    writes, end = writes_of(warehouse.outbox(), event_id)
    assert writes["dt=b"] == ()
    assert end.listed


def test_a_partition_that_is_already_compacted_is_left_to_the_replica(warehouse: Warehouse) -> None:
    event_id = multi_insert(warehouse)
    delta = warehouse.root / "dt=b" / "delta_0000001_0000001_0000"
    delta.rename(warehouse.root / "dt=b" / "base_0000003_v0000012")
    shutil.rmtree(warehouse.root / "dt=c")
    unlogged = warehouse.unlogged()
    writes, end = writes_of(warehouse.outbox(unlogged), event_id)
    assert list(writes) == ["dt=a"]
    assert not end.listed
    assert (unlogged.listed, unlogged.unlisted) == (0, 2)


@pytest.mark.parametrize("change", ["replaced", "recreated", "gone"])
def test_files_of_a_table_that_has_the_name_by_then_are_left_to_the_replica(
    warehouse: Warehouse, change: str
) -> None:
    event_id = multi_insert(warehouse)
    if change == "replaced":
        warehouse.table.id = 8
    elif change == "recreated":
        warehouse.table.createTime = 1_700_000_001
    else:
        del warehouse.log.tables["sales", "p"]
    unlogged = warehouse.unlogged()
    writes, end = writes_of(warehouse.outbox(unlogged), event_id)
    assert list(writes) == ["dt=a"]
    assert not end.listed
    assert (unlogged.listed, unlogged.unlisted) == (0, 2)


def test_files_of_a_partition_that_has_the_values_by_then_are_left_to_the_replica(
    warehouse: Warehouse,
) -> None:
    event_id = multi_insert(warehouse, days="abcd")
    for day in "bc":
        warehouse.log.partitions[f"dt={day}"].writeId = 5
    after = warehouse.log.partitions["dt=b"]
    before = Partition(values=["x"], dbName="sales", tableName="p", sd=after.sd, parameters={})
    warehouse.add(
        "ALTER_PARTITION",
        {
            "db": "sales",
            "table": "p",
            "tableObjJson": tjson.encode(warehouse.table),
            "keyValues": {"dt": "x"},
            "partitionObjBeforeJson": tjson.encode(before),
            "partitionObjAfterJson": tjson.encode(after),
        },
    )
    writes, end = writes_of(warehouse.outbox(), event_id)
    assert list(writes) == ["dt=a", "dt=c", "dt=d"], "c has another write id, but was not renamed"
    assert not end.listed


def test_a_compaction_of_this_write_alone_counts_as_the_write(warehouse: Warehouse) -> None:
    event_id = multi_insert(warehouse)
    delta = warehouse.root / "dt=b" / "delta_0000001_0000001_0000"
    delta.rename(warehouse.root / "dt=b" / "base_0000001_v0000012")
    writes, _ = writes_of(warehouse.outbox(), event_id)
    (file,) = writes["dt=b"]
    assert file.uri.endswith("/base_0000001_v0000012/bucket_00000_0")
    assert file.subdir == "base_0000001", "the target has no suffix"


def test_partitions_that_analyze_touches_are_not_listed(warehouse: Warehouse) -> None:
    warehouse.allocate(71, 1)
    warehouse.touch(1, "a", "b", kind="ALTER_PARTITIONS")
    unlogged = warehouse.unlogged()
    writes, _ = writes_of(warehouse.outbox(unlogged), warehouse.commit(71, 1))
    assert writes == {}
    assert (unlogged.listed, unlogged.unlisted) == (0, 0)


def test_a_transaction_that_aborts_is_forgotten(warehouse: Warehouse) -> None:
    warehouse.allocate(71, 1)
    warehouse.touch(1, "a")
    unlogged = warehouse.unlogged()
    box = warehouse.outbox(unlogged)
    box.read(0)
    assert unlogged.first_event_id == 1
    after = warehouse.add("ABORT_TXN", {"txnid": 71})
    box.read(after - 1)
    assert unlogged.first_event_id is None


def test_other_databases_are_not_listed(warehouse: Warehouse) -> None:
    event_id = multi_insert(warehouse)
    elsewhere = UnloggedPartitions(["hr"], warehouse.files, AllowedRoots.of([f"file:{warehouse.root}"]))
    writes, _ = writes_of(warehouse.outbox(elsewhere), event_id)
    assert list(writes) == ["dt=a"]


def test_a_partition_outside_the_roots_is_left_to_the_replica(warehouse: Warehouse, tmp_path: Path) -> None:
    event_id = multi_insert(warehouse)
    inside = AllowedRoots.of([f"file:{tmp_path}/dt=c"])
    writes, end = writes_of(
        warehouse.outbox(UnloggedPartitions(["sales"], warehouse.files, inside)), event_id
    )
    assert list(writes) == ["dt=a", "dt=c"], "the roots of the others do not matter"
    assert not end.listed


def test_a_relay_that_restarts_lists_what_was_touched_before(warehouse: Warehouse) -> None:
    warehouse.log.add(*(ddl(event_id) for event_id in range(1, 20)))
    event_id = multi_insert(warehouse)
    box = warehouse.outbox()
    middle = event_id - 2
    assert box.look_back(middle) == 1, "unknown: everything that is not too old"
    while box.read(0, limit=middle)[-1].event_id < middle:
        pass
    assert box.look_back(middle) == 20, "the allocation"
    again = warehouse.outbox()
    again.observed_from = box.look_back(middle)
    warehouse.log.clean(up_to=19)
    item = again.read(middle)[-1]
    assert len(item.records) == 4


def test_a_restart_whose_events_have_left_the_log_leaves_listing_to_the_replica(warehouse: Warehouse) -> None:
    event_id = multi_insert(warehouse)
    warehouse.log.clean(up_to=event_id - 1)
    (item,) = warehouse.outbox().read(event_id - 1)
    assert len(item.records) == 2
    assert "listed" not in json.loads(item.records[-1].value)["message"]


def test_a_commit_is_not_marked_if_one_of_its_allocations_was_not_observed(warehouse: Warehouse) -> None:
    event_id = multi_insert(warehouse)
    other = warehouse.logged(4, "a")
    other.table = "q"
    warehouse.log.writes[71].append(other)
    (item,) = [item for item in warehouse.outbox().read(0) if item.event_id == event_id]
    assert "listed" not in json.loads(item.records[-1].value)["message"]


class Unavailable:
    """Every file system fails, or does not answer."""

    def __init__(self, answer: threading.Event | None = None) -> None:
        self.calls = 0
        self.answer = answer

    def of(self, _location: object) -> WriteListing:
        self.calls += 1
        if self.answer is not None:
            self.answer.wait(60)
        raise FilesUnavailable("away")


@pytest.mark.parametrize("silent", [False, True])
def test_a_file_system_that_is_away_neither_stops_nor_delays_the_relay(
    warehouse: Warehouse, *, silent: bool
) -> None:
    answer = threading.Event()
    files = Unavailable(answer if silent else None)
    warehouse.files = files  # type: ignore[assignment]
    event_id = multi_insert(warehouse)
    unlogged = warehouse.unlogged(timeout_s=0.05)
    writes, end = writes_of(warehouse.outbox(unlogged), event_id)
    assert list(writes) == ["dt=a"]
    assert not end.listed
    assert files.calls == 1, "after a failure no other partition is tried for a while"
    assert unlogged.unlisted == 2
    answer.set()
    warehouse.now = PAUSE_S
    warehouse.files = open_file_systems()
    unlogged.close()


def test_a_table_whose_name_is_only_in_the_message_is_observed() -> None:
    """Hive 3.1 logs a space in its place (reference: hive-3.1-source.md §1)."""
    touched = TouchedPartitions()
    message: dict[str, object] = {"dbName": "sales", "tableName": "p", "txnIdList": [7], "writeIdList": [1]}
    observe(event(1, "ALLOC_WRITE_ID_EVENT", message, db="sales", table=" "), touched, ["sales"])
    assert touched.is_open("sales.p")


def test_an_event_that_cannot_be_read_is_ignored(warehouse: Warehouse) -> None:
    warehouse.log.add(
        NotificationEvent(
            eventId=1,
            eventTime=1,
            eventType="ALLOC_WRITE_ID_EVENT",
            dbName="sales",
            tableName="p",
            message="{",
        )
    )
    writes, _ = writes_of(warehouse.outbox(), multi_insert(warehouse))
    assert list(writes) == ["dt=a", "dt=b", "dt=c"]


def test_a_consumer_that_fills_a_gap_leaves_unlogged_partitions_to_replicas(warehouse: Warehouse) -> None:
    last = multi_insert(warehouse)
    writes, committed = writes_of(warehouse.outbox(fills_gaps=True), last)
    assert list(writes) == ["dt=a"]
    assert not committed.listed


def test_a_consumer_does_not_observe_the_whole_log_between_two_gaps(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "_LOOK_BACK_EVENTS", 50)
    monkeypatch.setattr(outbox_module, "_LOOK_BACK_EVENTS_MAX", 100)
    warehouse.log.add(*(ddl(event_id) for event_id in range(1, 1001)))
    box = warehouse.outbox(batch_events=10)
    assert [item.event_id for item in box.read(2, limit=1)] == [3]
    before = warehouse.log.reads
    assert [item.event_id for item in box.read(999, limit=1)] == [1000]
    assert warehouse.log.reads - before == 6, "the 50 events before it"


def test_a_relay_lists_for_the_policies_of_its_source_if_files_may_be_read() -> None:
    def configured(**source: Any) -> Any:
        return config_model().model_validate(
            {
                "kafka": {"bootstrap": "k:1"},
                "sources": {"lake": {"metastore": ["thrift://s:1"], "topic": "t", **source}},
                "targets": {"west": {"metastore": ["thrift://t:1"]}},
                "policies": {"shop": {"source": "lake", "target": "west", "database": "shop"}},
            }
        )

    roots = ["hdfs://s/w"]
    assert build_unlogged_partitions(configured(read_roots=roots), "lake") is not None
    assert build_unlogged_partitions(configured(), "lake") is None
    off = {"list_partitions": False}
    assert build_unlogged_partitions(configured(read_roots=roots, relay=off), "lake") is None
