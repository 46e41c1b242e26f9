"""The shared reader of a source: reads the topic once for all projections that are near its end, and once for
those that are behind.

A projection reads through a ``Subscription``. The first one that starts determines where the shared reader
begins. The reader begins slightly earlier, because the others stopped near this position. A projection that
is far ahead moves the start forward.

Those that are behind it read together in a second run. It begins at the position of the first of them, and
reads as fast as it can, so it may already have passed those that start later. These wait until all members of
the run are near the end; the next run begins at the earliest position among them. A second run helps after a
target was unreachable, because then all its policies are behind. If each read on its own, hundreds of clients
would read and decode the same events.
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
    """Of one source; for any thread."""

    def __init__(
        self,
        source: str,
        open_reader: Callable[[], TopicReader],
        settings: SharingSettings | None = None,
        *,
        has_several: bool = True,
        moved: Callable[[], None],
    ) -> None:
        """``has_several`` says whether several projections may read together; calls ``moved`` when events
        were read.
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
        """The run for those that are behind the first one."""
        self._waiting: dict[object, tuple[Position, Callable[[], None]]] = {}
        """The projections that the second run has passed, each with the function that wakes it."""

    def join(
        self, interest: Interest, position: Position, wake: Callable[[], None], *, starts: bool
    ) -> tuple[SharedReading, Member] | None:
        """Let a projection read together with others after ``position``; return None if it is not near them.

        ``wake`` is called when it can take events or has to leave, under a lock: it must not call the reader.

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
        """Let ``who`` read after ``position`` together with others that are behind; return None if they have
        passed it.

        It is then woken when the next run can begin. The run is started if there is none. Raises the failure
        that keeps it from reading.
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
        """Forget one that waits for the next run of those that are behind, if it does."""
        with self._lock:
            self._waiting.pop(who, None)

    def recent(self) -> list[SharedEvent]:
        """Return the last events of the source that are kept, the oldest first; none if nothing reads."""
        with self._lock:
            reading = self._reading
        return [] if reading is None else reading.recent()

    def leave(self, reading: SharedReading, member: Member) -> None:
        """Let a projection leave; with the last one, reading ends.

        Only the first run waits for one that had to leave, which will join it again.
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
        """Read after ``position`` from now on; those who still read before it continue on their own."""
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
        """Wake those that were behind once the events after their run are in the window of the first one."""
        with self._lock:
            first, behind = self._reading, self._behind
        if first is not None and behind is not None and first.contains(behind.position):
            behind.wake_all()
