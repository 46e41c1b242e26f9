"""A relay whose log was cleaned beyond its position continues in the same topic, with a record of the lost
events."""

from __future__ import annotations

from typing import Any, cast

import pytest

from daemon.relay.gap import cross_gap, find_gap
from daemon.relay.publisher import Publisher
from daemon.relay.start_position import StoredPosition, resume
from daemon.sources.outgoing_events import OutgoingEvent
from handlers.decoding.decoder import decode
from handlers.events import EventsLost
from state.errors import Inconsistent, InvalidRequest
from state.event_log.positions import Position
from state.store.memory import MemoryStore
from tests.builders.kafka.fake_log import ListedLog, commit, ddl, write
from tests.builders.kafka.fake_topics import ListedTopic, outbox, records_of


class ListedPublisher:
    """Appends to a topic what a real publisher would send."""

    def __init__(self, topic: ListedTopic, after: Position) -> None:
        self._topic, self._after = topic, after

    def publish(self, batch: list[OutgoingEvent]) -> None:
        """Append the records after the end of the topic."""
        for item in batch:
            for part, record in enumerate(item.records):
                if Position(item.event_id, part, len(item.records)) > self._after:
                    self._topic.append(record)

    def settle(self) -> None:
        """All records are acknowledged."""

    def close(self) -> None:
        """Release nothing."""


def cross(topic: ListedTopic, log: ListedLog, stored: StoredPosition | None = None) -> dict[str, Any]:
    kept = stored or StoredPosition(MemoryStore(), "topic")
    reader = outbox(log)
    gap = find_gap(topic, reader, kept, "src")
    done = cross_gap(gap, reader, kept, lambda after: cast("Publisher", ListedPublisher(topic, after)), "src")
    assert kept.load() == Position(done.upto)
    assert kept.load_look_back() is None, "transactions of before may be open"
    assert resume(topic, reader, kept, "current").position == Position(
        done.upto, gap_part(topic), gap_part(topic) + 1
    )
    return {"after": done.after, "upto": done.upto}


def gap_part(topic: ListedTopic) -> int:
    event = decode(topic.values[topic.high - 1], ())
    assert isinstance(event, EventsLost)
    return event.part


def log_of(last: int) -> ListedLog:
    return ListedLog(ddl(event_id) for event_id in range(1, last + 1))


def test_the_lost_events_are_those_before_the_oldest_one_in_the_log() -> None:
    log = log_of(9)
    topic = ListedTopic(records_of(log, 1, 3))
    log.clean(up_to=6)
    assert cross(topic, log) == {"after": 3, "upto": 6}


def test_all_events_are_lost_if_the_log_is_empty() -> None:
    log = log_of(9)
    topic = ListedTopic(records_of(log, 1, 3))
    log.clean(up_to=9)
    assert cross(topic, log) == {"after": 3, "upto": 9}


def test_an_empty_topic_is_continued_after_the_stored_position() -> None:
    log, stored = log_of(9), StoredPosition(MemoryStore(), "topic")
    stored.save(Position(4))
    log.clean(up_to=8)
    assert cross(ListedTopic(), log, stored) == {"after": 4, "upto": 8}


@pytest.mark.parametrize("cleaned", [2, 3])
def test_an_event_whose_rest_is_lost_is_part_of_the_gap(cleaned: int) -> None:
    log = ListedLog([ddl(1), commit(2, 71), ddl(3), ddl(4)])
    log.writes[71] = [write("a"), write("b")]
    topic = ListedTopic(records_of(log)[:3])
    log.clean(up_to=cleaned)
    assert cross(topic, log) == {"after": 1, "upto": cleaned}
    assert gap_part(topic) == (2 if cleaned == 2 else 0)


@pytest.mark.parametrize("relayed", [6, 9])
def test_a_relay_without_a_gap_is_refused_and_nothing_is_written(relayed: int) -> None:
    log = log_of(9)
    topic = ListedTopic(records_of(log, 1, relayed))
    log.clean(up_to=relayed)
    with pytest.raises(InvalidRequest, match="has no gap"):
        cross(topic, log)
    assert topic.high == relayed


def test_a_new_relay_has_no_gap() -> None:
    with pytest.raises(InvalidRequest, match="has no gap"):
        cross(ListedTopic(), log_of(3))


def test_a_metastore_that_is_behind_the_topic_is_not_a_gap() -> None:
    topic = ListedTopic(records_of(log_of(9)))
    with pytest.raises(Inconsistent):
        cross(topic, log_of(4))
