"""A reader on a real broker delivers every event once and in order, whatever happens to the topic."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, TopicPartition

from daemon.consumer.projection import follow
from daemon.consumer.topic_reader import TopicReader
from daemon.kafka.dead_letter_reader import DeadLetterReader, ReplayOutcome
from dev.stack.servers.kafka import Kafka
from handlers.decoding.records.encoder import encode_lost
from handlers.events import FilesWritten, Undecodable
from state.errors import ConfigError, GapDetected, KafkaUnavailable, NotFound
from state.event_log.positions import Position
from tests.builders.kafka.fake_log import Line, ListedLog, commit, ddl, event, write
from tests.builders.kafka.fake_topics import outbox, records_of
from tests.builders.kafka.relay_and_readers import (
    Collecting,
    Stream,
    drain,
    drain_on,
    run_in_turns,
    wait_until,
)
from tests.integration.kafka.conftest import StreamOf


def add(stream: Stream, first: int, last: int) -> None:
    stream.log.add(*(ddl(event_id) for event_id in range(first, last + 1)))


def filled(stream_of: StreamOf, last: int = 100) -> Stream:
    stream = stream_of()
    add(stream, 1, last)
    stream.relay_all()
    return stream


def ids(events: list[Any]) -> list[int]:
    return [item.event_id for item in events]


class _Following:
    """A projection whose loop runs in a thread."""

    def __init__(self, projection: Collecting, reader: TopicReader) -> None:
        self.projection, self.reader, self.line = projection, reader, Line()
        self.reported: list[str] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.projection.gate.set()
        self.line.stopping.set()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        rests = follow(
            self.projection, self.reader, self.line, lambda status: self.reported.append(status.state)
        )
        run_in_turns(rests, self.line.stopping)


def following(projection: Collecting, reader: TopicReader) -> _Following:
    return _Following(projection, reader)


def test_events_after_the_position_are_read(stream_of: StreamOf) -> None:
    stream = filled(stream_of)
    reader = stream.reader()
    assert ids(drain(reader, Position(0))) == list(range(1, 101))
    assert ids(drain(reader, Position(60))) == list(range(61, 101))
    assert ids(drain(reader, Position(100))) == []
    assert ids(drain(reader, Position(0))) == list(range(1, 101))


def test_the_writes_of_a_commit_precede_it(stream_of: StreamOf) -> None:
    stream = stream_of()
    stream.log.add(commit(1, 71))
    stream.log.writes[71] = [write("orders"), write("items")]
    stream.relay_all()
    events = drain(stream.reader(), Position(0))
    assert [type(item) is FilesWritten for item in events] == [True, True, False]
    assert ids(drain(stream.reader(), Position(1, 0, 3))) == [1, 1], "the rest of the event"


def test_the_whole_topic_delivered_again_changes_nothing(stream_of: StreamOf) -> None:
    stream = filled(stream_of)
    values = [record.value for record in stream.contents()]
    stream.produce([*values, *values])
    reader = stream.reader()
    assert ids(drain(reader, Position(0))) == list(range(1, 101))
    assert reader.status.duplicates == 200


def test_a_topic_whose_head_has_expired_is_filled_from_the_log(stream_of: StreamOf) -> None:
    stream = filled(stream_of)
    stream.truncate(70)
    reader = stream.reader(filler=outbox(stream.log))
    assert ids(drain(reader, Position(20))) == list(range(21, 101))
    assert reader.status.filled == 50


def test_a_completely_expired_topic_is_filled_from_the_log(stream_of: StreamOf) -> None:
    stream = filled(stream_of)
    stream.truncate(100)
    reader = stream.reader(filler=outbox(stream.log))
    assert ids(drain(reader, Position(20))) == list(range(21, 101))


def test_events_that_topic_and_log_have_lost_are_a_gap_with_both_ids(stream_of: StreamOf) -> None:
    stream = filled(stream_of)
    stream.truncate(70)
    stream.log.clean(up_to=50)
    with pytest.raises(GapDetected) as caught:
        drain(stream.reader(filler=outbox(stream.log)), Position(20))
    assert caught.value.context == {"expected": 21, "found": 51}
    with pytest.raises(GapDetected) as caught:
        drain(stream.reader(), Position(20))
    assert caught.value.context == {"topic": stream.name, "expected": 21, "found": 71}


def test_forged_ids_and_forged_losses_stop_neither_relay_nor_readers_nor_their_next_start(
    stream_of: StreamOf,
) -> None:
    stream = filled(stream_of)
    far = 2**62
    forged = [
        *(record.value for record in (encode_lost("src", range(lost, far), 1) for lost in (1, 101))),
        records_of(ListedLog([ddl(far)]), far)[0].value,
    ]
    reader = stream.reader(filler=outbox(stream.log))
    for round_ in range(1, 4):
        stream.produce([*forged, encode_lost("src", range(100 * round_ - 5, 100 * round_ + 1), 1).value])
        add(stream, 100 * round_ + 1, 100 * round_ + 100)
        stream.relay_all()
        assert ids(drain(reader, Position(100 * round_ - 10))) == list(
            range(100 * round_ - 9, 100 * round_ + 101)
        )
        assert ids(drain(stream.reader(filler=outbox(stream.log)), Position(0))) == list(
            range(1, 100 * round_ + 101)
        )
    assert reader.status.foreign > 0
    with DeadLetterReader(stream.broker, stream.name + ".dead") as box:
        assert {letter.error["code"] for letter in box.read_all()} == {"foreign-record"}


def test_a_topic_recreated_under_a_reader_is_searched_again(stream_of: StreamOf) -> None:
    stream = filled(stream_of)
    reader = stream.reader(filler=outbox(stream.log))
    reader.seek(Position(0))
    assert ids(drain_on(reader, until=100)) == list(range(1, 101))
    stream.recreate()
    add(stream, 101, 130)
    stream.produce(record.value for record in records_of(stream.log, 90, 130))
    assert ids(_read_with_retries(reader, until=130)) == list(range(101, 131))
    assert reader.status.filled == 0
    reader.close()


def test_a_topic_truncated_under_a_reader_is_searched_again(stream_of: StreamOf) -> None:
    stream = filled(stream_of, last=5000)
    reader = stream.reader(filler=outbox(stream.log), batch_events=10, queue_records=20)
    reader.seek(Position(0))
    first = reader.read(5).events
    stream.truncate(4900)
    rest = _read_with_retries(reader, until=5000)
    assert ids([*first, *rest]) == list(range(1, 5001))
    reader.close()


def _read_with_retries(reader: TopicReader, until: int) -> list[Any]:
    """Read and retry transient errors, as the supervisor does."""
    events: list[Any] = []

    def reached() -> bool:
        try:
            events.extend(reader.read(0.2).events)
        except KafkaUnavailable:
            reader.close()
            reader.seek(reader.status.position or Position(0))
        return bool(events) and events[-1].event_id >= until

    wait_until(reached, f"event {until} is read")
    return events


def test_a_missing_topic_is_unavailable_and_one_with_several_partitions_is_refused(
    stream_of: StreamOf,
) -> None:
    stream = stream_of()
    with pytest.raises(KafkaUnavailable):
        stream.reader().seek(Position(0))
    stream.topic.ensure()
    from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

    admin = AdminClient({"bootstrap.servers": stream.broker.bootstrap})
    for answer in admin.create_partitions([NewPartitions(stream.name, 2)]).values():
        answer.result(10)
    wait_until(lambda: _refused(stream), "the second partition is seen")


def _refused(stream: Stream) -> bool:
    reader = stream.reader()
    try:
        reader.seek(Position(0))
    except ConfigError:
        return True
    reader.close()
    return False


def test_transaction_markers_are_not_gaps_and_the_reader_reaches_the_end_after_them(
    stream_of: StreamOf,
) -> None:
    stream = filled(stream_of, last=10)
    stream.markers(2)
    add(stream, 11, 20)
    stream.relay_all()
    stream.markers(2)
    reader = stream.reader()
    assert ids(drain(reader, Position(5))) == list(range(6, 21))


def test_an_undecodable_record_becomes_a_dead_letter_and_reading_continues(stream_of: StreamOf) -> None:
    stream = stream_of()
    stream.log.add(ddl(1), event(2, "ADD_PARTITION", "no json", db="sales", table="orders"), ddl(3), ddl(4))
    records = [record.value for record in records_of(stream.log)]
    stream.topic.ensure()
    stream.produce([*records[:2], b"\x00hello", records[2], None, records[3]])
    with DeadLetterReader(stream.broker, stream.name + ".dead") as box:
        assert list(box.read_all()) == []
        for number in (0, 99_999_999_999_999_999_999):
            with pytest.raises(NotFound, match="no such dead letter"):
                box.read(number)
    for _ in range(2):  # a restarted reader writes the same dead letters again
        reader = stream.reader()
        events = drain(reader, Position(0))
        assert ids(events) == [1, 2, 3, 4]
        assert isinstance(events[1], Undecodable)
        assert reader.status.dead_letters == 3
    with DeadLetterReader(stream.broker, stream.name + ".dead") as box:
        letters = list(box.read_all())
        assert [letter.value for letter in letters] == [records[1], b"\x00hello", None]
        assert [letter.error.get("event_id") for letter in letters] == ["2", None, None]
        assert [letter.error["offset"] for letter in letters] == ["1", "2", "4"]
        assert {letter.error["topic"] for letter in letters} == {stream.name}
        assert all(letter.error["code"] == "malformed-event" for letter in letters)
        shown = box.read(letters[1].number)
        assert shown == letters[1]
        with pytest.raises(NotFound):
            box.read(10**6)
        assert [box.replay(letter).outcome for letter in letters] == [ReplayOutcome.UNREADABLE] * 3


APIARY = b'{"protocolVersion":"1.0","eventType":"DROP_TABLE","dbName":"sales","tableName":"t%d"}'


def test_a_format_without_event_ids_is_recognised_and_followed_by_offset(stream_of: StreamOf) -> None:
    stream = stream_of()
    stream.topic.ensure()
    reader = stream.reader()
    reader.seek(Position(0))
    stream.produce(APIARY % number for number in range(3))
    assert ids(drain_on(reader, until=3)) == [1, 2, 3], "recognised although the topic was empty at first"
    reader.close()
    stream.produce(APIARY % number for number in range(3, 6))
    assert ids(drain(stream.reader(), Position(3))) == [4, 5, 6]
    stream.truncate(5)
    with pytest.raises(GapDetected) as caught:
        stream.reader().seek(Position(3))
    assert (caught.value.context["expected"], caught.value.context["found"]) == (4, 6)


def test_a_dead_letter_of_a_format_without_event_ids_is_resent_once_it_is_readable(
    stream_of: StreamOf,
) -> None:
    stream = stream_of()
    stream.topic.ensure()
    stream.produce([APIARY % 1])
    letters = stream.dead_letters()
    ((offset, value),) = _raw(stream)
    from daemon.kafka.broker import TopicRecord
    from state.errors import MalformedEvent

    letters.put(TopicRecord(offset, value), MalformedEvent("an older version could not read it"), None)
    letters.close()
    with DeadLetterReader(stream.broker, stream.name + ".dead") as box:
        (letter,) = box.read_all()
        assert box.replay(letter).outcome is ReplayOutcome.RESENT
    assert [value for _, value in _raw(stream)] == [APIARY % 1] * 2


def _raw(stream: Stream) -> Iterator[tuple[int, bytes]]:
    from daemon.kafka.offset_search import OffsetReader

    with OffsetReader(stream.broker, stream.name) as probe:
        marks = probe.watermarks()
        yield from list(probe.values(marks.low, marks.high))


def test_a_projection_is_driven_from_its_position_until_a_stop_is_requested(stream_of: StreamOf) -> None:
    stream = filled(stream_of)
    projection = Collecting(Position(40))
    with following(projection, stream.reader(commit_s=0)) as loop:
        wait_until(lambda: projection.position == Position(100), "all is applied")
        wait_until(lambda: projection.settled > 0, "an idle projection is asked to settle")
        add(stream, 101, 110)
        stream.relay_all()
        wait_until(lambda: projection.position == Position(110), "what came later is applied")
        wait_until(lambda: _committed(stream) == 110, "the offset is committed for lag tools")
    assert ids(projection.events) == list(range(41, 111))
    assert loop.reported[0] == "starting"
    assert loop.reported[-1] == "stopped"
    assert loop.line.followed == 1


def _committed(stream: Stream) -> int:
    consumer = Consumer({"bootstrap.servers": stream.broker.bootstrap, "group.id": f"{stream.name}-group"})
    (place,) = consumer.committed([TopicPartition(stream.name, 0)], timeout=10)
    consumer.close()
    return place.offset


def test_a_long_apply_pauses_the_topic_with_a_bounded_queue_and_continues_after_it(
    stream_of: StreamOf,
) -> None:
    stream = filled(stream_of, last=30_000)
    projection = Collecting()
    projection.gate.clear()
    reader = stream.reader(batch_events=100, queue_records=500)
    with following(projection, reader):
        wait_until(lambda: reader._fetcher is not None and reader._fetcher._paused, "the topic is paused")
        queued = len(reader._fetcher._queue._records)  # type: ignore[union-attr]
        assert queued < 500 + 501
        projection.gate.set()
        wait_until(lambda: projection.position == Position(30_000), "all is applied")
    assert ids(projection.events) == list(range(1, 30_001))


def test_a_failed_projection_receives_the_same_events_again(stream_of: StreamOf) -> None:
    stream = filled(stream_of)
    projection = Collecting()
    reader = stream.reader(batch_events=30)
    failing = iter([False, True])
    apply = projection.apply

    def apply_once(events: Any) -> Position:
        if next(failing, False):
            raise KafkaUnavailable("as good as any failure")
        return apply(events)

    projection.apply = apply_once  # type: ignore[method-assign]
    line = Line(until=lambda: projection.position == Position(100))
    with pytest.raises(KafkaUnavailable):
        run_in_turns(follow(projection, reader, line, lambda _status: None), line.stopping)
    run_in_turns(follow(projection, reader, line, lambda _status: None), line.stopping)
    assert ids(projection.events) == list(range(1, 101))


def test_a_restart_of_the_broker_loses_no_event(own_broker: Kafka) -> None:
    stream = Stream(own_broker.bootstrap, "restarted")
    add(stream, 1, 50)
    stream.relay_all()
    projection = Collecting()
    with following(projection, stream.reader()):
        wait_until(lambda: projection.position == Position(50), "the first are applied")
        own_broker.kill()
        own_broker.start()
        add(stream, 51, 80)
        stream.relay_all()
        wait_until(lambda: projection.position == Position(80), "the rest is applied")
    assert ids(projection.events) == list(range(1, 81))
