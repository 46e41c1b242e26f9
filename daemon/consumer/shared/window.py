"""The memory of a shared reader: the last events of a source, and the events that wait for each member.

A projection joins if its position lies in the window. From then on, each event that concerns the projection
goes into its backlog (``Member``). All other events only move the end of the window, so they cost the
projection nothing.

Window and backlogs have limits. A member whose backlog becomes too long leaves: it loses the backlog, and
continues on its own from the last event that it took.

Not thread-safe; ``reading`` holds a lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from daemon.consumer.event_reader import Passage
from daemon.consumer.settings import SharingSettings
from handlers.events import Event
from handlers.routing import EventRouter, Interest, Route
from state.event_log.positions import Position


@dataclass(frozen=True, slots=True)
class SharedEvent:
    """An event, with facts about it that all projections of its source need."""

    event: Event
    size_bytes: int
    """Length of its record."""
    route: Route
    passage: Passage | None = None
    """The passage of the last event that was read in the same batch."""

    @property
    def position(self) -> Position:
        """The position that includes this event and no later one."""
        return Position(self.event.event_id, self.event.part, self.event.parts)

    def is_covered_by(self, position: Position) -> bool:
        """Whether ``position`` includes this event."""
        return position.covers(self.event.event_id, self.event.part)


class Member:
    """One projection's place in the shared reader."""

    def __init__(self, interest: Interest, position: Position) -> None:
        self.interest = interest
        self.backlog: deque[SharedEvent] = deque()
        self.backlog_bytes = 0
        self.position = position
        """The last event that the member took, or that did not concern it."""
        self.is_applying = False
        """Whether it has taken events and is still applying them."""
        self.has_left = False

    def put(self, shared: SharedEvent) -> None:
        """Append an event to the backlog."""
        self.backlog.append(shared)
        self.backlog_bytes += shared.size_bytes

    def take(self, events_max: int, bytes_max: int) -> list[SharedEvent]:
        """Return the next events, up to one of the limits."""
        taken: list[SharedEvent] = []
        size_bytes = 0
        while self.backlog and len(taken) < events_max and size_bytes < bytes_max:
            shared = self.backlog.popleft()
            size_bytes += shared.size_bytes
            taken.append(shared)
        self.backlog_bytes -= size_bytes
        self.is_applying = bool(taken)
        if taken:
            self.position = taken[-1].position
        return taken

    def leave(self) -> None:
        """Drop the backlog."""
        self.backlog.clear()
        self.backlog_bytes = 0
        self.has_left = True


class EventWindow:
    """The newest events of a source after ``start``, and the members that receive them."""

    def __init__(self, start: Position, settings: SharingSettings) -> None:
        self._settings = settings
        self._router = EventRouter()
        self._events: deque[SharedEvent] = deque()
        self._bytes = 0
        self._members: list[Member] = []
        self._by_database: dict[str, list[Member]] = {}
        self._of_all: list[Member] = []
        """The members that may need events of any database."""
        self._waiting_bytes = 0
        """The total size of the events in all backlogs."""
        self.start = start
        """The position before the first event."""
        self.end = start
        """The last event read."""
        self.end_s: int | None = None
        """The time of the last event at the source."""

    @property
    def members(self) -> Sequence[Member]:
        """The projections that have joined."""
        return self._members

    def events(self) -> list[SharedEvent]:
        """Return the events in the window, the oldest first."""
        return list(self._events)

    def contains(self, position: Position) -> bool:
        """Whether the window has all events after ``position``; true if ``position`` is after its end."""
        return self.start.expected() <= position.expected()

    def is_far_ahead(self, position: Position) -> bool:
        """Whether ``position`` is so far after the end that waiting for it would take too long."""
        return position.event_id - self.end.event_id > self._settings.ahead_events

    def join(self, interest: Interest, position: Position) -> Member:
        """Add a projection that has applied everything up to ``position``, which the window contains."""
        member = Member(interest, position)
        for shared in self._after(position):
            if shared.route.concerns(interest):
                self._put(shared, member)
        self._members.append(member)
        for members in self._lists(member):
            members.append(member)
        return member

    def leave(self, member: Member) -> None:
        """Remove a projection, which may have left already."""
        if member.has_left:
            return
        self._members.remove(member)
        for members in self._lists(member):
            members.remove(member)
        for database in member.interest.databases or ():
            if not self._by_database[database]:
                del self._by_database[database]
        if not member.backlog:
            member.position = max(member.position, self.end)
        self._waiting_bytes -= member.backlog_bytes
        member.leave()

    def take(self, member: Member, events_max: int, bytes_max: int) -> list[SharedEvent]:
        """Return the next events of a member, up to one of the limits."""
        before_bytes = member.backlog_bytes
        taken = member.take(events_max, bytes_max)
        self._waiting_bytes -= before_bytes - member.backlog_bytes
        if not member.backlog and not member.has_left:
            member.position = max(member.position, self.end)
        return taken

    def find_passed(self, member: Member) -> tuple[Position, int] | None:
        """Return the position, with its time, up to which a member has applied all; None if events wait."""
        if member.backlog or member.is_applying or member.has_left or self.end_s is None:
            return None
        return self.end, self.end_s

    def append(
        self, events: Sequence[Event], sizes_bytes: Sequence[int], passage: Passage | None = None
    ) -> Collection[Member]:
        """Add the next events.

        Returns the members to wake: those with new events, and those that left because their backlog was too
        long.
        """
        concerned: dict[int, Member] = {}
        for event, size_bytes in zip(events, sizes_bytes, strict=True):
            shared = SharedEvent(event, size_bytes, self._router.route(event, self._by_database), passage)
            self._events.append(shared)
            self._bytes += size_bytes
            for member in self._find_concerned(shared):
                self._put(shared, member)
                concerned[id(member)] = member
            self.end, self.end_s = shared.position, event.time_s
            self._forget_first()
        for member in list(self._find_excessive(concerned.values())):
            self.leave(member)
            concerned[id(member)] = member
        return concerned.values()

    def is_full(self) -> bool:
        """Whether every member has such a long backlog that further reading would not help. True without
        members.
        """
        events_max, bytes_max = self._settings.backlog_events // 2, self._settings.backlog_bytes // 2
        return all(
            len(member.backlog) >= events_max or member.backlog_bytes >= bytes_max for member in self._members
        )

    def _find_concerned(self, shared: SharedEvent) -> Iterator[Member]:
        if shared.route.databases is None:
            candidates = self._members
        else:
            candidates = [
                *self._of_all,
                *(m for name in shared.route.databases for m in self._by_database.get(name, ())),
            ]
        for member in dict.fromkeys(candidates):
            if shared.route.concerns(member.interest) and not shared.is_covered_by(member.position):
                yield member

    def _find_excessive(self, members: Collection[Member]) -> Iterator[Member]:
        """Yield the members with too many waiting events."""
        limits = self._settings
        for member in members:
            # Each backlog has a limit, and all backlogs together have one.
            if len(member.backlog) >= limits.backlog_events or member.backlog_bytes >= limits.backlog_bytes:
                yield member
        if self._waiting_bytes > limits.backlogs_bytes:
            yield max(self._members, key=lambda member: member.backlog_bytes)

    def _put(self, shared: SharedEvent, member: Member) -> None:
        member.put(shared)
        self._waiting_bytes += shared.size_bytes

    def _forget_first(self) -> None:
        while len(self._events) > self._settings.window_events or self._bytes > self._settings.window_bytes:
            shared = self._events.popleft()
            self._bytes -= shared.size_bytes
            self.start = shared.position

    def _after(self, position: Position) -> Iterator[SharedEvent]:
        return (shared for shared in self._events if not shared.is_covered_by(position))

    def _lists(self, member: Member) -> Iterator[list[Member]]:
        """Yield the lists that contain a member, except the list of all members."""
        interest = member.interest
        if interest.databases is None or interest.txns_up_to >= 0:
            yield self._of_all
        for database in interest.databases or ():
            yield self._by_database.setdefault(database, [])
