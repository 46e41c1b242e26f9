"""Reads the topic of a source once for all projections near its end, and once for all that are behind.

A projection reads through a ``Subscription``. The first one that starts determines where the shared reader
begins. The reader begins slightly earlier, because the others stopped near this position. If a projection
that joins is far ahead, the shared reader continues at its position.

Projections that are behind read together in a second run. It begins at the position of the first of them and
reads as fast as it can, so it may already have passed projections that start later. These wait until all
members of the run are near the end; the next run begins at the earliest position among those that wait. A
second run helps after a target was unreachable, because then all its policies are behind. If each read on its
own, hundreds of clients would read and decode the same events.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from daemon.consumer.settings import SharingSettings
from daemon.consumer.shared.reading import Refusal, SharedReading
from daemon.consumer.shared.window import Member, SharedEvent
from daemon.consumer.topic_reader import TopicReader
from handlers.routing import Interest
from state.event_log.positions import Position


class SharedReader:
    """The shared reader of one source. Thread-safe."""

    def __init__(
        self,
        source: str,
        open_reader: Callable[[], TopicReader],
        settings: SharingSettings | None = None,
        *,
        has_several: bool = True,
        moved: Callable[[], None],
    ) -> None:
        """``has_several`` says whether several projections may read together. Calls ``moved`` after reading
        events.
        """
        self._source = source
        self._open_reader = open_reader
        self._settings = settings or SharingSettings()
        self.wait_s = self._settings.wait_s
        self._look_back = self._settings.window_events // 2 if has_several else 0
        self._moved = moved
        self._lock = threading.Lock()
        self._reading: SharedReading | None = None
        self._behind: SharedReading | None = None
        """The run for projections that are behind ``_reading``."""
        self._waiting: dict[object, tuple[Position, Callable[[], None]]] = {}
        """The projections that the second run has passed, each with the function that wakes it."""

    def join(
        self, interest: Interest, position: Position, wake: Callable[[], None], *, starts: bool
    ) -> tuple[SharedReading, Member] | None:
        """Add a projection that reads after ``position``; return None if it is not near the others.

        ``wake`` is called when the projection can take events or has to leave. A lock is held then, so
        ``wake`` must not call the reader.

        Starts the shared reader if it does not run and ``starts`` is set. Raises the failure that keeps it
        from reading.
        """
        reading = self._find_reading(position, starts=starts)
        if reading is None:
            return None
        member = reading.join(interest, position, wake)
        if member is Refusal.AHEAD:
            reading = self._move_on(reading, position)
            member = reading.join(interest, position, wake)
        return (reading, member) if isinstance(member, Member) else None

    def join_behind(
        self, who: object, interest: Interest, position: Position, wake: Callable[[], None]
    ) -> tuple[SharedReading, Member] | None:
        """Add ``who``, which reads after ``position``, to the second run.

        Returns None if that has passed ``position``. In that case, ``wake`` is called when the next run can
        begin. Starts a run if there is none. Raises the failure that keeps it from reading.
        """
        with self._lock:
            if self._behind is None or self._has_ended(self._behind):
                first = min([position, *(waiting for waiting, _ in self._waiting.values())])
                self._behind = self._start(first, is_behind=True)
            reading = self._behind
        member = reading.join(interest, position, wake)
        with self._lock:
            self._waiting.pop(who, None)
            if isinstance(member, Member):
                return reading, member
            self._waiting[who] = (position, wake)
        return None

    def stop_waiting(self, who: object) -> None:
        """Remove ``who`` from the projections that wait for the next run."""
        with self._lock:
            self._waiting.pop(who, None)

    def recent(self) -> list[SharedEvent]:
        """Return the events of the source in the window, the oldest first; none if no projection reads."""
        with self._lock:
            reading = self._reading
        return [] if reading is None else reading.recent()

    def leave(self, reading: SharedReading, member: Member) -> None:
        """Remove a projection; reading ends with the last one.

        Only the first run continues for a projection that had to leave, because it will join again.
        """
        had_to_leave = member.has_left
        with self._lock:
            is_last = reading.leave(member) and not (had_to_leave and self._reading is reading)
            if is_last and self._reading is reading:
                self._reading = None
            if is_last and self._behind is reading:
                self._behind = None
                for _, wake in self._waiting.values():
                    wake()
        if is_last:
            reading.close()

    def _find_reading(self, position: Position, *, starts: bool) -> SharedReading | None:
        with self._lock:
            if self._reading is not None and self._has_ended(self._reading):
                self._reading = None
            if self._reading is None and starts:
                self._reading = self._start(position)
            return self._reading

    def _has_ended(self, reading: SharedReading) -> bool:
        """Whether the run has ended and another one may begin; after a failure, only after some time."""
        if reading.ended_s is None:
            return False
        return reading.error is None or time.monotonic() - reading.ended_s >= self._settings.failed_s

    def _move_on(self, reading: SharedReading, position: Position) -> SharedReading:
        """Read after ``position`` from now on; members that still read before it continue on their own."""
        with self._lock:
            if self._reading is not reading:
                return self._reading or self._start(position)
            self._reading = moved = self._start(position)
        reading.close()
        return moved

    def _start(self, position: Position, *, is_behind: bool = False) -> SharedReading:
        reading = SharedReading(
            self._open_reader,
            position,
            self._settings,
            look_back=self._look_back,
            name=f"events-{self._source}{'-behind' if is_behind else ''}",
            moved=self._pass_on if is_behind else self._moved,
            commits=not is_behind,
        )
        reading.start()
        return reading

    def _pass_on(self) -> None:
        """Wake the members of the second run once the window of the first run contains their position."""
        with self._lock:
            first, behind = self._reading, self._behind
        if first is not None and behind is not None and first.contains(behind.position):
            behind.wake_all()
