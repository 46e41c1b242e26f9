"""One run of a shared reader: a thread that reads from one position until it fails or has no members.

It reads and decodes each record once, and passes the events to the members of its window
(``window``). Reading pauses while every member has enough to do.

A failure of the run is not a failure of its members. At a gap, reading continues after it, and all members
leave: each reads on its own and finds out whether the gap concerns its position. After any other failure the
run has ended, and its members get the error, as from their own reader.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from enum import Enum
from typing import Final

import structlog

from daemon.consumer.settings import ReaderStatus, SharingSettings
from daemon.consumer.shared.window import EventWindow, Member, SharedEvent
from daemon.consumer.topic_reader import TopicReader
from handlers.routing import Interest
from state.errors import GapDetected, KafkaUnavailable, TidelineError
from state.event_log.positions import Position


log = structlog.get_logger(__name__)

_READ_S: Final = 0.5
_CLOSE_S: Final = 5.0
_DESERTED_S: Final = 10.0
"""A run ends if it has had no members for this time."""


class Refusal(Enum):
    """The reason why a projection cannot join."""

    BEHIND = "behind"
    """The window begins after its position."""
    AHEAD = "ahead"
    """Its position is far after the window."""
    ENDED = "ended"
    """The run has ended, or does not start."""


class SharedReading:
    """One run of a source's shared reader. Thread-safe."""

    def __init__(
        self,
        open_reader: Callable[[], TopicReader],
        position: Position,
        settings: SharingSettings,
        *,
        look_back: int,
        name: str,
        moved: Callable[[], None],
        commits: bool,
    ) -> None:
        """Read after ``position``, or from ``look_back`` events before it. Calls ``moved`` after each batch.
        ``commits`` says whether to commit the offset, for monitoring tools.
        """
        self._open_reader = open_reader
        self.position = position
        """The last event that was read."""
        self._settings = settings
        self._look_back = look_back
        self._moved = moved
        self._commits = commits
        self._changed = threading.Condition()
        """Guards the window. Notified when the run has started or ended, and when a member has joined, left
        or taken events."""
        self._window: EventWindow | None = None
        self._wakes: dict[Member, Callable[[], None]] = {}
        """Wakes each member's projection."""
        self._is_closing = False
        self._deserted_s: float | None = None
        """Monotonic time since which there has been no projection."""
        self._beat_s = time.monotonic()
        self.error: TidelineError | None = None
        """The failure that ended the run."""
        self.ended_s: float | None = None
        """Monotonic time since which the run has ended; None while it runs."""
        self.has_event_ids = True
        self.status = ReaderStatus("")
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def join(self, interest: Interest, position: Position, wake: Callable[[], None]) -> Member | Refusal:
        """Add a projection that reads after ``position``, after waiting until the run has started. Raises the
        failure that ended the run. Calls ``wake``, with a lock held, when the member can take events or has
        left.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._window is not None or self.ended_s is not None, self._settings.start_s
            )
            self._raise_failure()
            window = self._window
            if window is None or self.ended_s is not None or self._is_closing:
                return Refusal.ENDED
            if not window.contains(position):
                return Refusal.BEHIND
            if window.is_far_ahead(position):
                return Refusal.AHEAD
            member = window.join(interest, position)
            self._wakes[member] = wake
            self._changed.notify_all()
            return member

    def take(self, member: Member, events_max: int, bytes_max: int) -> tuple[list[SharedEvent], int | None]:
        """Return the next events of a member, and the time of the last event that the run has read.

        If there are none, the member may have left (``Member.has_left``). Raises the failure of the run.
        """
        with self._changed:
            window = self._window
            if window is None or member not in self._wakes:
                self._raise_failure()
                return [], None
            if member.has_left:
                self._raise_failure()
            taken = window.take(member, events_max, bytes_max)
            if taken:
                self._changed.notify_all()
            return taken, taken[-1].event.time_s if member.backlog else window.end_s

    def find_passed(self, member: Member) -> tuple[Position, int] | None:
        """Return the position, with its time, up to which a member has applied all; None if events wait."""
        with self._changed:
            return None if self._window is None else self._window.find_passed(member)

    def leave(self, member: Member) -> bool:
        """Remove a member; return whether it was the last one."""
        with self._changed:
            if self._window is not None:
                self._window.leave(member)
            self._wakes.pop(member, None)
            self._changed.notify_all()
            return not self._wakes

    def contains(self, position: Position) -> bool:
        """Whether a projection at ``position`` could join now."""
        with self._changed:
            return self._window is not None and self._window.contains(position)

    def wake_all(self) -> None:
        """Wake all projections that read with this run."""
        with self._changed:
            for wake in self._wakes.values():
                wake()

    def recent(self) -> list[SharedEvent]:
        """Return the events in the window, the oldest first."""
        with self._changed:
            return [] if self._window is None else self._window.events()

    def is_stuck(self) -> bool:
        """Whether the thread has not read for too long."""
        return time.monotonic() - self._beat_s > self._settings.stuck_s

    def close(self) -> None:
        """Stop reading, and wait a short time for the thread."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join(_CLOSE_S)

    def _main(self) -> None:
        error: TidelineError | None = None
        try:
            with closing(self._open_reader()) as reader:
                while not self._is_closing:
                    self._read_until_gap(reader)
        except TidelineError as failure:
            error = failure
        except Exception as failure:
            log.exception("the shared reader ended unexpectedly")
            error = KafkaUnavailable("the shared reader ended unexpectedly", reason=repr(failure))
        with self._changed:
            self.error, self.ended_s = error, time.monotonic()
            self._dismiss()
            self._changed.notify_all()

    def _read_until_gap(self, reader: TopicReader) -> None:
        """Read until a stop request or a gap; the next call continues after the gap."""
        try:
            position = self.position
            if self._look_back:
                position, self._look_back = reader.look_back(position, self._look_back), 0
            reader.seek(position)
            with self._changed:
                self._window = EventWindow(position, self._settings)
                self.has_event_ids, self.status = reader.has_event_ids, reader.status
                self._changed.notify_all()
            while not self._is_closing:
                self._turn(reader)
        except GapDetected as gap:
            found = gap.context.get("found")
            if not isinstance(found, int) or found <= self.position.event_id:
                raise
            log.warning("the shared reader continues after a gap", problem=str(gap), after=found)
            self.position = Position(found)
            with self._changed:
                self._dismiss()
                self._window = None

    def _turn(self, reader: TopicReader) -> None:
        """Read once, unless every projection has enough to do."""
        self._beat_s = time.monotonic()
        with self._changed:
            if self._window is not None and self._window.is_full():
                self._is_closing |= self._is_deserted()
                self._changed.wait(_READ_S)
                return
            self._deserted_s = None
        batch = reader.read(_READ_S)
        self.position = batch.position
        with self._changed:
            self.has_event_ids, self.status = reader.has_event_ids, reader.status
            if self._window is not None and batch.events:
                for member in self._window.append(batch.events, batch.sizes_bytes, batch.passage):
                    self._wakes[member]()
        if batch.events:
            self._moved()
        if self._commits:
            reader.acknowledge(batch.position)

    def _raise_failure(self) -> None:
        """Raise the failure that ended the run, except a gap, which may not concern the projection's
        position. The caller holds the lock.
        """
        if self.error is not None and not isinstance(self.error, GapDetected):
            raise self.error

    def _is_deserted(self) -> bool:
        """Whether the run has had no members for some time. The caller holds the lock."""
        now_s = time.monotonic()
        self._deserted_s = None if self._wakes else self._deserted_s or now_s
        return self._deserted_s is not None and now_s - self._deserted_s >= _DESERTED_S

    def _dismiss(self) -> None:
        """Remove all members. The caller holds the lock."""
        if self._window is not None:
            for member in list(self._window.members):
                self._window.leave(member)
                self._wakes.pop(member)()
