"""Positions, compared with a naive reader of a stream that keeps a list of what was applied."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import StateCorrupt
from state.event_log.positions import Position, Step


PARTS = st.integers(1, 4)
POSITIONS = st.builds(
    lambda event_id, parts, part: Position(event_id, part % parts, parts),
    st.integers(0, 2**63 - 1),
    st.integers(1, 2**32 - 1),
    st.integers(0, 2**32 - 1),
)

Record = tuple[int, int, int]
"""(event id, part, parts)"""


def stream(parts_of_events: list[int], first: int) -> list[Record]:
    return [(first + at, part, parts) for at, parts in enumerate(parts_of_events) for part in range(parts)]


def with_repeats(records: list[Record], repeats: list[tuple[int, int]]) -> list[Record]:
    """Return a stream that sometimes goes back, as after a restart or after a relay that produced twice."""
    delivered, rest = [], sorted(repeats)
    for at, record in enumerate(records):
        delivered.append(record)
        while rest and rest[0][0] == at:
            delivered += records[max(0, at - rest.pop(0)[1]) : at + 1]
    return delivered


@given(
    st.lists(PARTS, min_size=1, max_size=8),
    st.integers(1, 50),
    st.lists(st.tuples(st.integers(0, 31), st.integers(0, 31)), max_size=5),
)
def test_a_stream_with_repeats_is_applied_once_and_in_order(
    parts_of_events: list[int], first: int, repeats: list[tuple[int, int]]
) -> None:
    records = stream(parts_of_events, first)
    position = Position.before(first)
    applied: list[Record] = []
    for record in with_repeats(records, repeats):
        step = position.step(*record[:2])
        assert step is (Step.DUPLICATE if record in applied else Step.NEXT)
        if step is Step.NEXT:
            assert position.expected() == record[:2]
            applied.append(record)
            position = Position(*record)
    assert applied == records


@given(st.lists(PARTS, min_size=1, max_size=8), st.integers(1, 50), st.data())
def test_a_missing_record_is_detected_at_the_next_one(
    parts_of_events: list[int], first: int, data: st.DataObject
) -> None:
    records = stream([*parts_of_events, 1], first)
    missing = data.draw(st.integers(0, len(records) - 2))
    position = Position.before(first)
    for record in records[:missing]:
        position = Position(*record)
    assert position.step(*records[missing + 1][:2]) is Step.GAP
    assert position.expected() == records[missing][:2]


@given(st.lists(PARTS, min_size=1, max_size=8), st.integers(1, 50))
def test_an_event_counts_as_applied_with_its_last_part(parts_of_events: list[int], first: int) -> None:
    for event_id, part, parts in stream(parts_of_events, first):
        position = Position(event_id, part, parts)
        assert position.complete == (part == parts - 1)
        assert position.applied_event_id == (event_id if part == parts - 1 else event_id - 1)


@given(POSITIONS, POSITIONS)
def test_positions_are_ordered_by_event_and_then_by_part(one: Position, other: Position) -> None:
    assert (one < other) == ((one.event_id, one.part) < (other.event_id, other.part))


@given(POSITIONS)
def test_a_position_is_read_back_from_its_stored_form(position: Position) -> None:
    assert Position.from_bytes(position.to_bytes()) == position


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"12",
        Position(3).to_bytes()[:-1],
        Position(3).to_bytes() + b"\x00",
        b"\x02" + Position(3).to_bytes()[1:],
        b"\x01" + bytes(16),
    ],
)
def test_an_invalid_stored_position_is_refused(value: bytes) -> None:
    with pytest.raises(StateCorrupt):
        Position.from_bytes(value)


def test_positions_are_formatted_for_users() -> None:
    assert str(Position(12)) == "12"
    assert str(Position(12, 0, 3)) == "12.0/3"


@pytest.mark.parametrize(("event_id", "part", "parts"), [(-1, 0, 1), (1, 1, 1), (1, -1, 1), (1, 0, 0)])
def test_values_that_no_event_can_have_are_refused(event_id: int, part: int, parts: int) -> None:
    with pytest.raises(AssertionError):
        Position(event_id, part, parts)


def test_a_position_made_from_an_event_id_alone_covers_every_part_of_the_event() -> None:
    position = Position(7)
    assert [position.step(7, part) for part in range(3)] == [Step.DUPLICATE] * 3
    assert position.step(8, 0) is Step.NEXT
    assert position.step(8, 1) is Step.GAP
