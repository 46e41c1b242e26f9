"""The offset of a position is found by event id, whatever offsets are missing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from daemon.kafka.offset_search import find_last, find_next, find_offset, is_at
from state.event_log.positions import Position
from tests.builders.kafka.fake_topics import ListedTopic


def value(event_id: int, part: int = 0, parts: int = 1) -> bytes:
    return b'{"eventId":%d,"part":%d,"parts":%d,"x":1}' % (event_id, part, parts)


@st.composite
def topics(draw: st.DrawFn) -> ListedTopic:
    """Generate topics: events, some in parts, with markers and garbage between them, and an expired head."""
    first = draw(st.integers(1, 50))
    topic = ListedTopic()
    for event_id in range(first, first + draw(st.integers(0, 40))):
        parts = draw(st.sampled_from([1, 1, 1, 3]))
        for part in range(parts):
            topic.append(*draw(st.lists(st.sampled_from([None, b"garbage"]), max_size=2)))
            topic.append(value(event_id, part, parts))
    topic.append(*draw(st.lists(st.sampled_from([None, b"garbage"]), max_size=3)))
    topic.truncate(draw(st.integers(0, topic.high)))
    return topic


def located(topic: ListedTopic) -> list[tuple[int, Position]]:
    found, at = [], topic.low
    while (record := topic.first_from(at, topic.high)) is not None:
        found.append((record.offset, record.position))
        at = record.offset + 1
    return found


@given(topics(), st.integers(0, 100), st.integers(0, 2), st.sampled_from([1, 3]))
def test_all_records_before_the_offset_were_applied_and_none_after_it(
    topic: ListedTopic, event_id: int, part: int, parts: int
) -> None:
    position = Position(event_id, min(part, parts - 1), parts)
    offset = find_offset(topic, position)
    assert topic.low <= offset <= topic.high
    assert all((at < offset) == position.covers(found.event_id, found.part) for at, found in located(topic))


@given(topics())
def test_the_last_record_is_the_last_one_that_names_its_event(topic: ListedTopic) -> None:
    found = find_last(topic)
    expected = located(topic)
    assert (found is None) == (not expected)
    if found is not None:
        assert (found.offset, found.position) == expected[-1]


@given(topics(), st.integers(0, 100))
def test_the_next_event_is_found_only_if_the_topic_contains_it(topic: ListedTopic, event_id: int) -> None:
    position = Position(event_id)
    expected = [
        offset for offset, found in located(topic) if (found.event_id, found.part) == (event_id + 1, 0)
    ]
    offset = find_next(topic, position)
    if expected:
        assert offset is not None
        assert offset <= expected[0]
        assert all(
            at < offset or not position.covers(found.event_id, found.part) for at, found in located(topic)
        )
    else:
        assert offset is None


def test_where_two_writers_overlapped_the_search_steps_back_to_the_next_event() -> None:
    late = [value(event_id) for event_id in range(1, 21)]
    early = [value(event_id) for event_id in range(1, 12)]
    interleaved = [item for pair in zip(late[9:], early, strict=True) for item in pair]
    topic = ListedTopic([*late[:9], *interleaved])
    for event_id in range(20):
        offset = find_offset(topic, Position(event_id))
        seen = {found.event_id for at, found in located(topic) if at >= offset}
        assert seen.issuperset(range(event_id + 1, 21))


def test_a_remembered_offset_is_used_only_if_it_still_has_the_record() -> None:
    topic = ListedTopic([value(event_id) for event_id in range(1, 10)])
    assert is_at(topic, Position(4), 3)
    assert not is_at(topic, Position(4), 4)
    assert not is_at(topic, Position(4), 400)
    topic.truncate(5)
    assert not is_at(topic, Position(4), 3)
    topic.recreate(*(value(event_id) for event_id in range(4, 10)))
    assert not is_at(topic, Position(4), 3)
