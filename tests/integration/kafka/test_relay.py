"""The relay writes the whole log in order to a real topic, and continues where the topic ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import orjson
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from daemon.process.loops.loop import Job, LoopState
from daemon.relay.loop import RelayLoop
from daemon.relay.publisher import Publisher, RelaySettings
from dev.stack.servers.kafka import Kafka
from handlers.structs.notifications import NotificationEvent
from state.errors import GapDetected, Inconsistent, InvalidRequest, KafkaUnavailable, MetastoreUnavailable
from state.event_log.positions import Position
from tests.builders.daemon.loops import eventually, supervise
from tests.builders.kafka.fake_log import Line, ListedLog, commit, ddl, write
from tests.builders.kafka.fake_topics import outbox, records_of
from tests.builders.kafka.relay_and_readers import Stream, drain, wait_until
from tests.integration.kafka.conftest import StreamOf


def events(first: int, last: int) -> Iterator[NotificationEvent]:
    return (ddl(event_id) for event_id in range(first, last + 1))


def ids(stream: Stream) -> list[int]:
    return [record.position.event_id for record in stream.contents()]


def relayed_to(relay: RelayLoop, event_id: int) -> bool:
    return (relay.status.relayed_event_id or 0) >= event_id


def test_the_whole_log_is_relayed_in_order_and_a_second_relay_adds_nothing(
    stream_of: StreamOf,
) -> None:
    stream = stream_of()
    stream.log.add(*events(1, 300))
    relay = stream.relay_all(batch_events=50)
    assert ids(stream) == list(range(1, 301))
    assert relay.status.records == relay.status.relayed_event_id == relay.status.current_event_id == 300
    assert relay.status.relayed_time_s == 1_700_000_300
    stream.relay_all()
    assert ids(stream) == list(range(1, 301))


def test_later_commits_are_relayed_one_by_one_without_frequent_polling(stream_of: StreamOf) -> None:
    stream = stream_of()
    stream.log.add(*events(1, 3))
    with stream.relaying() as relay:
        wait_until(lambda: relayed_to(relay, 3), "the first events are relayed")
        for event_id in range(4, 9):
            stream.log.add(ddl(event_id))
            wait_until(lambda wanted=event_id: relayed_to(relay, wanted), "the event is relayed")  # type: ignore[misc]
        reads, started = stream.log.reads, time.monotonic()
        wait_until(lambda: time.monotonic() - started > 2, "two idle seconds")
        assert stream.log.reads - reads <= 2 * (time.monotonic() - started) / 0.2
    assert ids(stream) == list(range(1, 9))


def test_commits_are_relayed_with_their_writes(stream_of: StreamOf) -> None:
    stream = stream_of()
    stream.log.add(ddl(1), commit(2, 71), commit(3, 72, write_ids=[]), commit(4, 73))
    stream.log.writes[71] = [write("orders"), write("items")]
    status = stream.relay_all().status
    kinds = [orjson.loads(record.value)["eventType"] for record in stream.contents()]
    assert kinds == ["CREATE_DATABASE", "WRITE", "WRITE", "COMMIT_TXN", "COMMIT_TXN", "COMMIT_TXN"]
    assert (status.commits_with_writes, status.commits_without_writes) == (1, 1)


@pytest.mark.parametrize("written", [1, 2, 3])
def test_a_partly_written_event_is_completed(stream_of: StreamOf, written: int) -> None:
    stream = stream_of()
    stream.log.add(ddl(1), commit(2, 71), ddl(3))
    stream.log.writes[71] = [write("a"), write("b"), write("c")]
    records = records_of(stream.log)
    stream.topic.ensure()
    stream.produce(record.value for record in records[: 1 + written])
    stream.relay_all()
    assert [record.value for record in stream.contents()] == [record.value for record in records]


def test_a_topic_that_retention_has_emptied_is_continued(stream_of: StreamOf) -> None:
    stream = stream_of()
    stream.log.add(*events(1, 20))
    stream.relay_all()
    stream.truncate(20)
    stream.log.add(*events(21, 25))
    stream.log.clean(up_to=15)
    stream.relay_all(start="current")
    assert ids(stream) == [21, 22, 23, 24, 25]


def test_a_deleted_topic_is_created_again_and_continued(stream_of: StreamOf) -> None:
    stream = stream_of()
    stream.log.add(*events(1, 20))
    stream.relay_all()
    stream.delete()
    stream.log.add(*events(21, 25))
    stream.relay_all(start="current")
    assert ids(stream) == [21, 22, 23, 24, 25]


def test_a_gap_in_the_log_stops_the_relay_with_both_ids_and_nothing_after_it_is_written(
    stream_of: StreamOf,
) -> None:
    stream = stream_of()
    stream.log.add(*events(1, 5))
    stream.relay_all()
    stream.log.add(*events(6, 20))
    stream.log.clean(up_to=9)
    relay = stream.relay()
    with pytest.raises(GapDetected) as caught:
        relay.run(Line())
    assert caught.value.context == {"expected": 6, "found": 10}
    assert ids(stream) == [1, 2, 3, 4, 5]


def test_a_relay_that_failed_follows_once_the_operator_has_repaired_its_topic(stream_of: StreamOf) -> None:
    """The daemon is not restarted: the loop is tried again by itself."""
    stream = stream_of()
    stream.log.add(*events(1, 5))
    admin = AdminClient({"bootstrap.servers": stream.broker.bootstrap, "log_level": 0})
    for made in admin.create_topics([NewTopic(stream.name, num_partitions=2)]).values():
        made.result(30)
    relay = stream.relay()
    supervisor, _ = supervise(Job("relay:src", relay.run), failed_s=0.2)
    supervisor.start()
    eventually(lambda: supervisor.statuses()["relay:src"].code == "config")
    assert supervisor.statuses()["relay:src"].state is LoopState.FAILED
    stream.delete()
    eventually(lambda: relayed_to(relay, 5))
    eventually(lambda: supervisor.statuses()["relay:src"].state is LoopState.FOLLOWING)
    assert supervisor.stop(30) == []
    assert ids(stream) == [1, 2, 3, 4, 5]


def test_a_relay_continues_after_a_gap_in_the_same_topic_and_readers_stop_at_it(stream_of: StreamOf) -> None:
    stream = stream_of()
    stream.log.add(*events(1, 5))
    stream.relay_all()
    stream.log.add(*events(6, 20))
    stream.log.clean(up_to=9)
    relay = stream.relay()
    with pytest.raises(GapDetected):
        relay.run(Line())
    crossed = relay.cross_gap()
    assert (crossed.after, crossed.upto) == (5, 9)
    stream.relay_all()
    assert ids(stream) == [1, 2, 3, 4, 5, 9, *range(10, 21)]
    with pytest.raises(InvalidRequest, match="has no gap"):
        stream.relay().cross_gap()
    for position in (0, 5, 8):
        reader = stream.reader(filler=outbox(stream.log))
        with closing(reader), pytest.raises(GapDetected) as caught:
            drain(reader, Position(position))
        assert caught.value.context["expected"] == max(position, 5) + 1
    with closing(stream.reader(filler=outbox(stream.log))) as reader:
        assert [event.event_id for event in drain(reader, Position(9))] == list(range(10, 21))


def test_a_log_that_was_emptied_before_it_was_read_is_a_gap_for_a_relay_that_follows(
    stream_of: StreamOf,
) -> None:
    stream = stream_of()
    stream.log.add(*events(1, 5))
    relay = stream.relay(check_s=0.05)

    def cleaned_before_read() -> bool:
        stream.log.current = 9
        return False

    with pytest.raises(GapDetected) as caught:
        relay.run(Line(until=cleaned_before_read))
    assert caught.value.context["expected"] == 6
    assert caught.value.context["current"] == 9


def test_a_restored_metastore_stops_the_relay(stream_of: StreamOf) -> None:
    stream = stream_of()
    stream.log.add(*events(1, 9))
    relay = stream.relay(check_s=0.05)

    def restored() -> bool:
        if relayed_to(relay, 9):
            stream.log.events = {event.eventId: event for event in ListedLog(events(1, 4)).events.values()}
        return False

    with pytest.raises(Inconsistent):
        relay.run(Line(until=restored))
    with pytest.raises(Inconsistent):
        stream.relay().run(Line())


def test_no_event_is_lost_while_the_metastore_is_unavailable(stream_of: StreamOf) -> None:
    stream = stream_of()
    stream.log.add(*events(1, 100))
    calls = iter(range(1_000_000))
    stream.log.failing = lambda _call: MetastoreUnavailable("away") if next(calls) % 7 == 6 else None
    relay = stream.relay(batch_events=5)
    line = Line(until=lambda: relayed_to(relay, 100))
    failures = 0
    while not line.stopping.is_set():
        try:
            relay.run(line)
        except MetastoreUnavailable:
            failures += 1
    assert failures > 3
    assert ids(stream) == list(range(1, 101))


@pytest.mark.long
def test_after_an_unavailable_broker_the_next_run_continues_after_the_last_record(
    own_broker: Kafka,
) -> None:
    stream = Stream(own_broker.bootstrap, "restarted", timeout_s=3.0)
    stream.log.add(*events(1, 50))
    relay = stream.relay(delivery_timeout_s=2.0)
    own_broker_stopped: list[bool] = []

    def stop_after_fifty() -> bool:
        if relayed_to(relay, 50) and not own_broker_stopped:
            own_broker_stopped.append(True)
            own_broker.stop()
            stream.log.add(*events(51, 90))
        return False

    with pytest.raises(KafkaUnavailable):
        relay.run(Line(until=stop_after_fifty))
    with pytest.raises(KafkaUnavailable):
        relay.run(Line())
    own_broker.start()
    relay.run(Line(until=lambda: relayed_to(relay, 90)))
    assert ids(stream) == list(range(1, 91))


@pytest.mark.long
def test_a_broker_that_restarts_while_events_flow_loses_and_reorders_nothing(own_broker: Kafka) -> None:
    stream = Stream(own_broker.bootstrap, "restarting")
    with stream.relaying(batch_events=10) as relay:
        for round_ in range(3):
            stream.log.add(*events(round_ * 200 + 1, round_ * 200 + 100))
            wait_until(lambda wanted=round_ * 200 + 20: relayed_to(relay, wanted), "some are relayed")  # type: ignore[misc]
            own_broker.kill()
            stream.log.add(*events(round_ * 200 + 101, round_ * 200 + 200))
            own_broker.start()
        wait_until(lambda: relayed_to(relay, 600), "all are relayed")
    assert ids(stream) == list(range(1, 601))


def test_a_closed_publisher_discards_unacknowledged_records(own_broker: Kafka) -> None:
    stream = Stream(own_broker.bootstrap, "closed")
    stream.log.add(*events(1, 10))
    stream.topic.ensure()
    own_broker.stop()
    settings = RelaySettings(source="src", delivery_timeout_s=60)
    publisher = Publisher(stream.broker, stream.topic.settings, settings, after=Position(0))
    publisher.publish(outbox(stream.log).read(0))
    assert publisher.pending == 10
    started = time.monotonic()
    publisher.close()
    assert time.monotonic() - started < 30, "closing does not wait for the delivery timeout"
    assert publisher.acknowledged == Position(0)
    own_broker.start()
    assert ids(stream) == []


def test_ten_thousand_small_events_a_second_are_relayed(stream_of: StreamOf) -> None:
    stream = stream_of()
    count = 60_000
    template = [ddl(event_id, padding=300) for event_id in range(1, count + 1)]
    stream.log.add(*template)
    by_id = template

    def next_events(after: int, limit: int) -> list[object]:
        return list(by_id[after : after + limit])

    stream.log.next_events = next_events  # type: ignore[method-assign,assignment]
    started = time.process_time()
    relay = stream.relay_all()
    rate = count / (time.process_time() - started)
    assert relay.status.records == count
    assert rate >= 10_000, f"{rate:.0f} events per CPU second"
