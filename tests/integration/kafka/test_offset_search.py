"""Positions are found in real topics: large, truncated, with markers and foreign records."""

from __future__ import annotations

import pytest

from daemon.kafka.offset_search import LocatedRecord, OffsetReader, find_last, find_offset
from state.errors import KafkaUnavailable, NotFound
from state.event_log.positions import Position
from tests.builders.kafka.relay_and_readers import Stream
from tests.integration.kafka.conftest import StreamOf


def value(event_id: int) -> bytes:
    return b'{"eventId":%d,"part":0,"parts":1,"eventTime":1,"eventType":"X","padding":"%s"}' % (
        event_id,
        b"x" * 100,
    )


def found(stream: Stream, event_id: int) -> int:
    with OffsetReader(stream.broker, stream.name) as probe:
        return find_offset(probe, Position(event_id))


def test_an_offset_among_a_hundred_thousand_records_is_found_in_few_reads(
    stream_of: StreamOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of()
    stream.topic.ensure()
    stream.produce(value(event_id) for event_id in range(501, 100_501))
    reads, first_from = list[int](), OffsetReader.first_from

    def count(self: OffsetReader, offset: int, end: int) -> LocatedRecord | None:
        reads.append(offset)
        return first_from(self, offset, end)

    monkeypatch.setattr(OffsetReader, "first_from", count)
    for event_id, offset in (
        (0, 0),
        (500, 0),
        (501, 1),
        (50_000, 49_500),
        (100_499, 99_999),
        (100_500, 100_000),
    ):
        assert found(stream, event_id) == offset
    assert found(stream, 10**9) == 100_000
    assert len(reads) <= 7 * 25, "about the logarithm of the number of records for each"
    stream.truncate(60_000)
    assert found(stream, 1000) == 60_000
    assert found(stream, 70_000) == 69_500


def test_markers_and_foreign_records_are_skipped(stream_of: StreamOf) -> None:
    stream = stream_of()
    stream.topic.ensure()
    stream.produce([value(1), b"hello", None, b"\xff", value(2)])
    stream.markers(3)
    stream.produce([value(3), b"hello"])
    stream.markers(2)
    with OffsetReader(stream.broker, stream.name) as probe:
        marks = probe.watermarks()
        last = find_last(probe)
        assert last is not None
        assert last.position == Position(3)
        assert marks.high > 7 + 5, "each marker and each aborted record has taken an offset"
        for event_id in (0, 1, 2):
            next_one = probe.first_from(find_offset(probe, Position(event_id)), marks.high)
            assert next_one is not None
            assert next_one.position == Position(event_id + 1)
        assert probe.first_from(find_offset(probe, Position(3)), marks.high) is None


def test_an_empty_topic_has_no_last_record(stream_of: StreamOf) -> None:
    stream = stream_of()
    stream.topic.ensure()
    with OffsetReader(stream.broker, stream.name) as probe:
        assert find_last(probe) is None
        assert find_offset(probe, Position(7)) == 0


def test_a_topic_of_markers_alone_has_no_last_record(stream_of: StreamOf) -> None:
    stream = stream_of()
    stream.topic.ensure()
    stream.markers(3)
    with OffsetReader(stream.broker, stream.name) as probe:
        assert find_last(probe) is None


def test_a_missing_topic_and_a_missing_broker_are_different_errors(stream_of: StreamOf) -> None:
    stream = stream_of()
    with OffsetReader(stream.broker, stream.name) as probe, pytest.raises(NotFound):
        probe.watermarks()
    away = type(stream)("127.0.0.1:9", "nowhere", timeout_s=0.5)
    with OffsetReader(away.broker, away.name) as probe, pytest.raises(KafkaUnavailable):
        probe.watermarks()
