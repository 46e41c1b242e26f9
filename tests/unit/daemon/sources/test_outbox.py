"""The outbox returns every event once, in order, with the writes of commits, and reports gaps."""

from __future__ import annotations

import orjson
import pytest

from daemon.sources.outgoing_events import OutgoingEvent
from state.errors import GapDetected, Inconsistent, MetastoreUnavailable, Unsupported
from tests.builders.kafka.fake_log import ListedLog, commit, ddl, event, write
from tests.builders.kafka.fake_topics import outbox, records_of


def kinds(item: OutgoingEvent) -> list[str]:
    return [orjson.loads(record.value)["eventType"] for record in item.records]


def tables(item: OutgoingEvent) -> list[str | None]:
    return [orjson.loads(record.value)["tableName"] for record in item.records]


def test_events_come_in_order_and_not_more_than_a_batch() -> None:
    log = ListedLog(ddl(event_id) for event_id in range(1, 8))
    box = outbox(log, batch_events=3)
    assert [item.event_id for item in box.read(0)] == [1, 2, 3]
    assert [item.event_id for item in box.read(6)] == [7]
    assert box.read(7) == []


def test_missing_ids_in_the_log_are_a_gap_with_both_ids() -> None:
    log = ListedLog([ddl(1), ddl(2), ddl(5)])
    with pytest.raises(GapDetected) as caught:
        outbox(log).read(0)
    assert caught.value.context == {"expected": 3, "found": 5}


def test_a_log_that_was_cleaned_past_the_reader_is_a_gap() -> None:
    log = ListedLog(ddl(event_id) for event_id in range(1, 10))
    log.clean(up_to=6)
    with pytest.raises(GapDetected) as caught:
        outbox(log).read(3)
    assert caught.value.context == {"expected": 4, "found": 7}


class RepeatingLog(ListedLog):
    def next_events(self, after: int, limit: int) -> list:  # type: ignore[type-arg]
        events = super().next_events(after, limit)
        return [events[0], *events]


def test_a_repeated_id_means_that_the_log_is_not_of_one_metastore() -> None:
    with pytest.raises(Inconsistent) as caught:
        outbox(RepeatingLog([ddl(1), ddl(2)])).read(0)
    assert not isinstance(caught.value, GapDetected)
    assert caught.value.context == {"expected": 2, "found": 1}


def test_the_writes_of_a_commit_precede_it_as_parts_of_the_same_event() -> None:
    log = ListedLog([commit(1, 71)])
    log.writes[71] = [write("orders"), write("items")]
    (item,) = outbox(log).read(0)
    assert kinds(item) == ["WRITE", "WRITE", "COMMIT_TXN"]
    places = [orjson.loads(record.value) for record in item.records]
    assert [(place["eventId"], place["part"], place["parts"]) for place in places] == [
        (1, 0, 3),
        (1, 1, 3),
        (1, 2, 3),
    ]
    assert item.wrote is True


def test_writes_are_sorted_whatever_the_order_of_the_metastore() -> None:
    log = ListedLog([commit(1, 71)])
    log.writes[71] = [write("b"), write("a"), write("c")]
    (first,) = outbox(log).read(0)
    log.writes[71].reverse()
    (again,) = outbox(log).read(0)
    assert tables(first) == ["a", "b", "c", None]
    assert first == again


def test_writes_are_not_fetched_for_a_commit_that_reports_none() -> None:
    log = ListedLog([commit(1, 71, write_ids=[]), ddl(2)])
    items = outbox(log).read(0)
    assert log.asked_for_writes == []
    assert orjson.loads(items[0].records[0].value)["message"]["enriched"] is True
    assert items[0].wrote is None


def test_writes_are_fetched_for_a_commit_that_does_not_report_whether_it_wrote() -> None:
    log = ListedLog([commit(1, 71, write_ids=None)])
    log.writes[71] = [write("orders")]
    (item,) = outbox(log).read(0)
    assert kinds(item) == ["WRITE", "COMMIT_TXN"]


def test_a_commit_with_write_ids_but_without_writes_is_counted() -> None:
    (item,) = outbox(ListedLog([commit(1, 71)])).read(0)
    assert item.wrote is False


def test_writes_of_many_commits_are_fetched_in_parallel_and_keep_their_order() -> None:
    log = ListedLog(commit(event_id, 100 + event_id) for event_id in range(1, 41))
    for event_id in range(1, 41):
        log.writes[100 + event_id] = [write(f"t{event_id}")]
    box = outbox(log, write_connections=3)
    items = box.read(0)
    assert [tables(item)[0] for item in items] == [f"t{event_id}" for event_id in range(1, 41)]
    assert 2 <= log.connections <= 4, "one for the log and at most three for the writes"
    box.close()
    assert log.closed == log.connections


def test_a_failure_of_a_parallel_fetch_is_raised_and_the_outbox_can_continue() -> None:
    log = ListedLog(commit(event_id, 100 + event_id) for event_id in range(1, 5))
    box = outbox(log)
    log.failing = lambda call: MetastoreUnavailable("away") if call == "write_events" else None
    with pytest.raises(MetastoreUnavailable):
        box.read(0)
    log.failing = lambda _call: None
    assert len(box.read(0)) == 4
    box.close()


def test_a_metastore_without_the_call_is_relayed_without_writes() -> None:
    log = ListedLog([commit(1, 71), commit(2, 72)])
    log.failing = lambda call: Unsupported("no such call") if call == "write_events" else None
    items = outbox(log).read(0)
    messages = [orjson.loads(item.records[0].value)["message"] for item in items]
    assert all("enriched" not in message for message in messages)


def test_a_commit_whose_message_cannot_be_read_is_relayed_with_its_problem() -> None:
    log = ListedLog([event(1, "COMMIT_TXN", "no json"), event(2, "COMMIT_TXN", {"txnid": "seven"})])
    items = outbox(log).read(0)
    assert orjson.loads(items[0].records[0].value)["problem"]
    assert [item.event_id for item in items] == [1, 2]
    assert log.asked_for_writes == []


def test_batches_of_large_events_become_small_and_grow_again() -> None:
    log = ListedLog(ddl(event_id, padding=2000 if event_id < 100 else 0) for event_id in range(1, 400))
    box = outbox(log, batch_events=80, batch_bytes=60_000)
    large = [len(box.read(0)) for _ in range(3)]
    small = [len(box.read(200)) for _ in range(3)]
    assert large == [80, 40, 20]
    assert small == [40, 80, 80]


def test_a_consumer_can_read_a_complete_range() -> None:
    log = ListedLog(ddl(event_id) for event_id in range(1, 30))
    box = outbox(log, batch_events=4)
    values = [orjson.loads(record.value)["eventId"] for record in box.records(5, 21)]
    assert values == list(range(5, 22))


def test_a_range_that_has_left_the_log_is_a_gap() -> None:
    log = ListedLog(ddl(event_id) for event_id in range(1, 6))
    log.clean(up_to=5)
    with pytest.raises(GapDetected) as caught:
        list(outbox(log).records(2, 4))
    assert caught.value.context == {"expected": 2, "last": 4, "found": None}


def test_a_metastore_that_is_behind_the_relay_is_refused() -> None:
    box = outbox(ListedLog([ddl(1), ddl(2)]))
    assert box.require_not_behind(2) == 2
    with pytest.raises(Inconsistent) as caught:
        box.require_not_behind(3)
    assert caught.value.context["current"] == 2
    assert caught.value.context["relayed"] == 3


def test_the_oldest_event_of_an_empty_log_is_none() -> None:
    assert outbox(ListedLog()).first_event_id() is None
    assert outbox(ListedLog([ddl(4)])).first_event_id() == 4


def test_the_same_events_give_the_same_records() -> None:
    log = ListedLog([ddl(1), commit(2, 71), ddl(3)])
    log.writes[71] = [write("orders", files=[f"hdfs://s/w/f{n}#1#cm#" for n in range(200)])]
    assert records_of(log) == records_of(log)
    assert len(records_of(log, 2, 2)) > 2, "the write is cut into parts"
