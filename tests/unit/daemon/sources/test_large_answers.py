"""One large or unanswerable transaction or event neither stops the relay nor needs unlimited memory."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise

import orjson
import pytest

from daemon.sources.outbox import Outbox
from daemon.sources.write_events import ATTEMPTS_MIN, PATIENCE_S, CommitWrites, WriteEventReader, parse_commit
from handlers.decoding.decoder import decode
from handlers.decoding.records.commit_parts import MEMORY_BYTES, CommitParts
from handlers.decoding.records.record_writer import RecordWriter
from handlers.events import Event, FilesWritten, TxnCommitted, Undecodable
from handlers.metastore.client import Metastore
from handlers.structs.notifications import WriteEventInfo
from state.errors import InvalidRequest, MetastoreUnavailable, ServerFault, TidelineError
from tests.builders.kafka.fake_log import ListedLog, commit, ddl, event, write
from tests.builders.kafka.fake_topics import outbox
from tests.builders.metastore.fake_metastore import FakeMetastore, hangs_up_midway, returns


def decoded(box: Outbox, after: int = 0) -> list[Event]:
    return [decode(record.value, record.headers) for item in box.read(after) for record in item.records]


def many(count: int, size: int = 4_000) -> Iterator[WriteEventInfo]:
    """Write events of ``count`` partitions, in reverse order, each with an object of ``size`` characters."""
    for number in reversed(range(count)):
        yield WriteEventInfo(
            writeId=1,
            database="sales",
            table="orders",
            files=f"hdfs://s/w/p={number:06}/f###delta_1_1",
            partition=f"p={number:06}",
            partitionObj="x" * size,
        )


def test_an_answer_that_is_too_large_is_requested_again_for_fewer_events() -> None:
    log = ListedLog(ddl(event_id, padding=1_000) for event_id in range(1, 101))
    log.answer_bytes_max = 10_000
    box = outbox(log, batch_events=64)
    read: list[int] = []
    while len(read) < 100:
        read += [item.event_id for item in box.read(len(read))]
    assert read == list(range(1, 101))


def test_after_a_failure_the_next_request_is_for_fewer_events() -> None:
    log = ListedLog(ddl(event_id) for event_id in range(1, 101))
    box = outbox(log, batch_events=64)
    log.failing = lambda call: MetastoreUnavailable("time-out") if call == "next_events" else None
    for _ in range(3):
        with pytest.raises(MetastoreUnavailable):
            box.read(0)
    log.failing = lambda _call: None
    assert [len(box.read(after)) for after in (0, 8, 24)] == [8, 16, 32]


def test_write_events_that_would_fill_the_volume_are_left_out_of_their_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    space = os.statvfs_result((4096, 4096, 1_000_000, 0, 60_000, 0, 0, 0, 0, 255))
    full = os.statvfs_result((4096, 4096, 1_000_000, 0, 50_000, 0, 0, 0, 0, 255))
    for volume, is_whole in ((space, True), (full, False)):
        monkeypatch.setattr("handlers.decoding.records.commit_parts.os.statvfs", lambda _, v=volume: v)
        log = ListedLog([ddl(1), commit(2, 71), ddl(3)])
        log.writes[71] = list(many(600))
        events = decoded(outbox(log))
        assert [each.event_id for each in events if not isinstance(each, FilesWritten)] == [1, 2, 3]
        assert (len(events) > 3) == is_whole
        (committed,) = (each for each in events if isinstance(each, TxnCommitted))
        assert committed.enriched == is_whole


def test_a_refusal_to_serve_the_log_may_pass() -> None:
    log = ListedLog([ddl(1)])
    log.failing = lambda _call: InvalidRequest("not allowed") if _call != "connect" else None
    box = outbox(log)
    with pytest.raises(MetastoreUnavailable):
        box.read(0)
    with pytest.raises(MetastoreUnavailable):
        box.current_event_id()


@pytest.mark.parametrize("table", ["a", "b", "c", None])
def test_an_event_that_is_too_large_by_itself_names_its_database_and_table_and_the_reason(
    table: str | None,
) -> None:
    others = [
        event(number, "ALTER_TABLE", {}, db="sales", table=name) for number, name in enumerate("abc", 1)
    ]
    large = event(4, "ADD_PARTITION", {"padding": "x" * 10_000}, db="sales", table=table)
    log = ListedLog([*others, large, ddl(5)])
    log.answer_bytes_max = 5_000
    box = outbox(log)
    (item,) = box.read(3)
    assert item.unread
    found = decode(item.records[0].value, item.records[0].headers)
    assert isinstance(found, Undecodable)
    assert (found.event_id, found.kind, found.db, found.table) == (4, "UNREADABLE", "sales", table)
    assert "limit-exceeded" in str(found.error)
    assert [item.event_id for item in box.read(4)] == [5]


def test_the_write_events_of_a_large_transaction_are_read_by_database() -> None:
    log = ListedLog([event(1, "COMMIT_TXN", {"txnid": 71, "writeIds": [1, 1], "databases": ["b", "a"]})])
    log.writes[71] = [
        WriteEventInfo(writeId=1, database=db, table="t", files="hdfs://s/w/f#1#cm#" + "x" * 100)
        for db in "ab"
    ]
    log.answer_bytes_max = 200
    events = decoded(outbox(log))
    assert [found.db for found in events if isinstance(found, FilesWritten)] == ["a", "b"]
    assert isinstance(events[-1], TxnCommitted)
    assert events[-1].enriched


def test_a_commit_whose_write_events_are_too_large_is_relayed_without_them_and_says_so() -> None:
    log = ListedLog([commit(1, 71), commit(2, 72)])
    log.writes = {71: [write("t", files=["hdfs://s/w/" + "x" * 1_000])], 72: [write("u")]}
    log.answer_bytes_max = 500
    first, second = outbox(log).read(0)
    (bare,) = [decode(record.value, record.headers) for record in first.records]
    assert isinstance(bare, TxnCommitted)
    assert not bare.enriched, "policies read the write events for themselves"
    assert "limit-exceeded" in orjson.loads(first.records[0].value)["message"]["writeEventsProblem"]
    assert first.unread
    assert (len(second.records), second.wrote) == (2, True)


@pytest.mark.parametrize("error", [ServerFault("out of memory"), MetastoreUnavailable("time-out")])
def test_a_transaction_at_which_the_metastore_fails_again_and_again_is_relayed_without_write_events(
    error: TidelineError,
) -> None:
    log, now = ListedLog([commit(1, 71)]), [0.0]
    log.failing = lambda call: error if call == "write_events" else None
    reader = WriteEventReader(log.connect, 0, clock=lambda: now[0])
    found = parse_commit(log.events[1])
    assert found is not None
    writes = CommitWrites(found, CommitParts(RecordWriter("s", log.events[1], record_bytes_max=4096)))
    for _ in range(ATTEMPTS_MIN * 2):
        with pytest.raises(type(error)):
            reader.fetch([writes], log)  # many attempts in a short time do not count
    now[0] = PATIENCE_S
    reader.fetch([writes], log)
    assert writes.problem is error


def test_a_write_event_that_cannot_be_written_reports_its_own_table_only() -> None:
    log = ListedLog([commit(1, 71)])
    log.writes[71] = [write("a"), write("b\ud800", files=["hdfs://s/w/\ud800"]), write("c")]
    events = decoded(outbox(log))
    assert [type(each) for each in events] == [FilesWritten, Undecodable, FilesWritten, TxnCommitted]
    assert (events[1].kind, events[1].db) == ("WRITE", "sales")


def test_a_large_transaction_is_relayed_in_order_and_in_bounded_memory() -> None:
    """20 MB of write events arrive; what stays in memory is one entry for each."""
    (notification,) = ListedLog([commit(1, 71)]).next_events(0, 1)
    tracemalloc.start()
    parts = CommitParts(RecordWriter("s", notification, record_bytes_max=1 << 19))
    for each in many(5_000):
        parts.receive(each)
    records = parts.records()
    events = (decode(record.value, record.headers) for record in records)
    names = [found.partition_name if isinstance(found, FilesWritten) else "commit" for found in events]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert names == [*(f"p={number:06}" for number in range(5_000)), "commit"]
    assert sum(len(record.value) for record in records) > 20_000_000
    assert peak < 5_000_000 + MEMORY_BYTES
    assert len(records[2:4]) == 2
    assert records[-1] == records[5_000]


def test_a_batch_ends_after_a_large_transaction() -> None:
    log = ListedLog(commit(event_id, event_id) for event_id in range(1, 101))
    log.writes[5] = list(many(600))
    box = outbox(log, batch_bytes=1_000_000)
    ends = [0]
    while ends[-1] < 100:
        ends.append(box.read(ends[-1])[-1].event_id)
    assert ends[1] < 100
    assert all(first < second for first, second in pairwise(ends))


def test_elements_of_a_list_are_received_one_by_one_and_again_after_a_broken_answer() -> None:
    class Received:
        def __init__(self) -> None:
            self.elements: list[WriteEventInfo] = []
            self.starts = 0

        def restart(self) -> None:
            self.elements.clear()
            self.starts += 1

        def receive(self, element: WriteEventInfo) -> None:
            self.elements.append(element)

    received = Received()
    expected = list(many(50))
    with FakeMetastore() as server, closing(Metastore(server.uri)) as client:
        server.will("get_all_write_event_info", hangs_up_midway, returns(expected), returns([]))
        client.receive_write_events(71, received)
        assert received.elements == expected
        assert received.starts == 2
        client.receive_write_events(72, received, db="sales")
        assert received.elements == []
