"""Each member of a window receives the events that concern it, in order and once; memory is bounded."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from daemon.consumer.settings import SharingSettings
from daemon.consumer.shared.window import EventWindow, Member
from handlers.events import DatabaseCreated, Event
from handlers.routing import Interest
from state.event_log.positions import Position


DBS = ("a", "b", "c")


def an_event(event_id: int, db: str | None = None) -> Event:
    return DatabaseCreated(event_id=event_id, time_s=event_id, kind="CREATE_DATABASE", db=db)


def a_window(start: int = 0, **limits: int) -> EventWindow:
    return EventWindow(Position(start), SharingSettings(**limits))


def append(window: EventWindow, *events: Event, size_bytes: int = 1) -> list[Member]:
    return list(window.append(events, [size_bytes] * len(events)))


def of(*dbs: str) -> Interest:
    return Interest(frozenset(dbs))


def take(window: EventWindow, member: Member, limit: int = 100) -> list[int]:
    return [shared.event.event_id for shared in window.take(member, limit, 1 << 30)]


def test_an_event_wakes_only_those_whom_it_concerns_and_all_pass_it() -> None:
    window = a_window()
    one, other, everything = (window.join(each, Position(0)) for each in (of("a"), of("b"), Interest()))
    assert append(window, an_event(1, "a")) == [everything, one]
    assert [take(window, each) for each in (one, other, everything)] == [[1], [], [1]]
    assert [each.position for each in (one, other, everything)] == [Position(1)] * 3


def test_a_member_is_at_its_last_event_until_it_has_taken_all_of_them() -> None:
    window = a_window()
    member = window.join(of("a"), Position(0))
    append(window, an_event(1, "a"), an_event(2, "a"), an_event(3, "b"))
    assert take(window, member, 1) == [1]
    assert member.position == Position(1)
    assert take(window, member, 1) == [2]
    assert member.position == Position(3)


def test_a_member_has_passed_the_events_of_others_unless_it_has_something_to_do() -> None:
    window = a_window()
    member = window.join(of("a"), Position(0))
    assert window.find_passed(member) is None, "no event was read"
    append(window, an_event(1, "b"))
    assert window.find_passed(member) == (Position(1), 1)
    append(window, an_event(2, "a"), an_event(3, "b"))
    assert window.find_passed(member) is None, "an event waits"
    assert take(window, member) == [2]
    assert window.find_passed(member) is None, "it applies the event"
    assert take(window, member) == []
    assert window.find_passed(member) == (Position(3), 3)
    window.leave(member)
    assert window.find_passed(member) is None


def test_who_joins_receives_what_the_window_has_after_its_position() -> None:
    window = a_window()
    append(window, *(an_event(event_id, "a") for event_id in range(1, 6)))
    assert take(window, window.join(of("a"), Position(3))) == [4, 5]


def test_who_joins_ahead_of_the_window_receives_nothing_again() -> None:
    window = a_window()
    append(window, an_event(1, "a"))
    member = window.join(of("a"), Position(3))
    append(window, *(an_event(event_id, "a") for event_id in range(2, 6)))
    assert take(window, member) == [4, 5]


def test_a_position_before_the_window_cannot_join() -> None:
    window = a_window(window_events=2)
    append(window, *(an_event(event_id, "a") for event_id in range(1, 6)))
    assert [window.contains(Position(event_id)) for event_id in range(2, 6)] == [False, True, True, True]


def test_the_window_is_bounded_by_length_too() -> None:
    window = a_window(window_bytes=20)
    append(window, *(an_event(event_id, "a") for event_id in range(1, 6)), size_bytes=10)
    assert window.start == Position(3)


def test_a_member_that_does_not_keep_up_leaves_and_knows_where_to_continue() -> None:
    window = a_window(backlog_events=3)
    slow, other = window.join(of("a"), Position(0)), window.join(of("b"), Position(0))
    append(window, an_event(1, "a"))
    assert take(window, slow) == [1]
    left = append(window, *(an_event(event_id, "a") for event_id in range(2, 5)), an_event(5, "b"))
    assert slow in left
    assert (slow.has_left, slow.position, take(window, slow)) == (True, Position(1), [])
    assert take(window, other) == [5]


def test_the_member_with_the_largest_backlog_leaves_when_all_together_are_too_long() -> None:
    window = a_window(backlogs_bytes=40)
    large, small = window.join(of("a"), Position(0)), window.join(of("b"), Position(0))
    append(window, an_event(1, "a"), an_event(2, "a"), an_event(3, "a"), an_event(4, "b"), size_bytes=10)
    assert not large.has_left
    append(window, an_event(5, "b"), size_bytes=10)
    assert (large.has_left, small.has_left) == (True, False)


def test_reading_on_helps_nobody_only_if_every_member_has_enough() -> None:
    window = a_window(backlog_events=4)
    assert window.is_full()
    window.join(of("a"), Position(0))
    other = window.join(of("b"), Position(0))
    append(window, an_event(1, "a"), an_event(2, "a"), an_event(3, "b"))
    assert not window.is_full()
    window.leave(other)
    assert window.is_full()


@dataclass
class Reader:
    """A projection that reads with others where it can, and otherwise the log itself."""

    db: str
    position: Position = field(default_factory=lambda: Position(0))
    received: list[int] = field(default_factory=list)
    member: Member | None = None

    def read_alone(self, log: list[Event]) -> None:
        events = log[self.position.event_id :]
        self.received += [event.event_id for event in events if event.db == self.db]
        self.position = Position(len(log))

    def join(self, window: EventWindow, log: list[Event]) -> None:
        if not window.contains(self.position):
            self.read_alone(log)
        self.member = window.join(of(self.db), self.position)

    def take(self, window: EventWindow, limit: int) -> None:
        if self.member is not None:
            self.received += take(window, self.member, limit)
            if self.member.has_left:
                self.leave(window)

    def leave(self, window: EventWindow) -> None:
        if self.member is not None:
            window.leave(self.member)
            self.position, self.member = self.member.position, None


STEPS = st.tuples(st.sampled_from(["append", "take", "leave", "join"]), st.integers(0, 99))


@given(st.lists(STEPS, max_size=80), st.integers(1, 6), st.integers(2, 6))
def test_whoever_joins_and_leaves_receives_every_event_of_its_database_once(
    steps: list[tuple[str, int]], window_events: int, backlog_events: int
) -> None:
    window = a_window(window_events=window_events, backlog_events=backlog_events)
    log: list[Event] = []
    readers = [Reader(db) for db in DBS]
    for step, number in steps:
        reader = readers[number % 3]
        if step == "append":
            log.append(an_event(len(log) + 1, DBS[number // 3 % 3]))
            append(window, log[-1])
        elif step == "join" and reader.member is None:
            reader.join(window, log)
        elif step == "leave":
            reader.leave(window)
        else:
            reader.take(window, 1 + number % 4)
    for reader in readers:
        reader.leave(window)
        reader.read_alone(log)
        assert reader.received == [event.event_id for event in log if event.db == reader.db]
