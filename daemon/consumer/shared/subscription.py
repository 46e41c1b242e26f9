"""Reads events for one projection: through the shared reader while it is near, otherwise on its own.

A subscription behaves like its own reader (``EventReader``). It joins the shared reader if its position lies
in the reader's window. If it is behind, or does not keep up, it joins the run for projections that are
behind. If that run has already passed its position, it waits some time for the next run. It reads with its
own client if it has waited too long, if it does not keep up with that run either, if there is a gap, or if
the shared reader is stuck. In each case it joins the shared reader once it is near. The projection always
gets each event that may concern it once, in order.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import structlog

from daemon.consumer.event_reader import Batch, missing_event_ids
from daemon.consumer.settings import ConsumerSettings, ReaderStatus
from daemon.consumer.shared.reader import SharedReader
from daemon.consumer.shared.reading import SharedReading
from daemon.consumer.shared.window import Member
from daemon.consumer.topic_reader import TopicReader
from handlers.events import Event
from handlers.routing import Interest
from state.errors import TidelineError
from state.event_log.positions import Position


log = structlog.get_logger(__name__)


class Subscription:
    """The reader of one projection (``EventReader``)."""

    def __init__(
        self,
        shared: SharedReader,
        open_reader: Callable[[], TopicReader],
        settings: ConsumerSettings,
        find_interest: Callable[[], Interest],
        wake: Callable[[], None],
    ) -> None:
        """``open_reader`` returns the projection's own reader. Each ``seek`` calls ``find_interest``. While
        the projection reads with others, any thread may call ``wake`` when there are events; ``wake`` must
        not call the reader.
        """
        self._shared = shared
        self._open_reader = open_reader
        self._settings = settings
        self._find_interest = find_interest
        self._wake = wake
        self._interest = Interest()
        self._joined: tuple[SharedReading, Member] | None = None
        self._is_behind = False
        """Whether it has joined the run for projections that are behind."""
        self._waits_until_s: float | None = None
        """Monotonic time until which it waits for the next run of projections that are behind."""
        self._alone: TopicReader | None = None
        self._position = Position(0)
        self._passed: tuple[Event, ...] = ()
        """The events of the last batch, applied when the next one is read."""
        self._shared_counts = ReaderStatus("")
        self._counted = ReaderStatus("")
        """The status of the shared reader when its counts were last added."""
        self.status = ReaderStatus("")
        self._shown: object = None
        """The values from which the status was made."""

    @property
    def is_joined(self) -> bool:
        """Whether the projection reads through the shared reader."""
        return self._joined is not None

    @property
    def wakes(self) -> bool:
        """Whether it wakes the projection: while it reads with others or waits to do so."""
        return self.is_joined or self._waits_until_s is not None

    def find_passed(self) -> tuple[Position, int] | None:
        """Return the position, with its time, up to which nothing is left to apply; None if unknown.
        Thread-safe.
        """
        joined = self._joined
        return None if joined is None else joined[0].find_passed(joined[1])

    def seek(self, position: Position) -> None:
        """Continue after ``position``; raise ConfigError, GapDetected, Transient."""
        self._leave()
        self._position, self._interest = position, self._find_interest()
        if not self._join(starts=True):
            self._find_others_behind()
        self._update_status(caught_up=False)

    def read(self, timeout_s: float) -> Batch:
        """Return the next events. Only the projection's own client waits, up to ``timeout_s`` for the first.
        Raises ConfigError, GapDetected, Transient.
        """
        self._forget_passed()
        self._join_again()
        batch = self._read_joined()
        if batch is None and self.wakes:
            batch = Batch((), self._position, caught_up=False)
        elif batch is None:
            assert self._alone is not None, "seek first"
            batch = self._alone.read(timeout_s)
        self._position, self._passed = batch.position, batch.events
        self._update_status(caught_up=batch.caught_up)
        return batch

    def acknowledge(self, position: Position) -> None:
        """Record that all events up to ``position`` are applied. The shared reader commits its own offset."""
        if self._alone is not None and not self.is_joined:
            self._alone.acknowledge(position)

    def close(self) -> None:
        """Leave the shared reader, and release the projection's own client."""
        self._forget_passed()
        self._leave()
        self._stop_waiting()
        if self._alone is not None:
            self._alone.close()

    def _join(self, *, starts: bool) -> bool:
        """Join the shared reader if it is near; return whether the projection has joined."""
        return self._enter(
            self._shared.join(self._interest, self._position, self._wake, starts=starts), is_behind=False
        )

    def _join_behind(self) -> bool:
        """Join the second run; return False if that has passed the position."""
        return self._enter(
            self._shared.join_behind(self, self._interest, self._position, self._wake), is_behind=True
        )

    def _enter(self, joined: tuple[SharedReading, Member] | None, *, is_behind: bool) -> bool:
        if joined is None:
            return False
        self._leave()
        self._stop_waiting()
        self._joined, self._is_behind = joined, is_behind
        self._counted = joined[0].status
        if self._alone is not None:
            self._alone.close()
        return True

    def _read_joined(self) -> Batch | None:
        """Return the next events of the shared reader; None if the projection has left it."""
        if self._joined is None:
            return None
        reading, member = self._joined
        if reading.is_stuck():
            log.warning("the shared reader is stuck; reading separately", topic=reading.status.topic)
            self._leave()
            self._read_alone()
            return None
        taken, time_s = reading.take(member, self._settings.batch_events, self._settings.batch_bytes)
        self._position = member.position
        if self._settings.needs_event_ids and not reading.has_event_ids:
            raise missing_event_ids(reading.status.topic)
        if member.has_left and not taken:
            self._leave()
            if self._is_behind:  # at a gap, for example, which its own client reports
                self._read_alone()
            else:
                self._find_others_behind()
            return None
        events = tuple(shared.event for shared in taken)
        caught_up = reading.status.caught_up and not member.backlog
        passage = taken[-1].passage if taken else None
        return Batch(events, member.position, caught_up, time_s, passage=passage)

    def _join_again(self) -> None:
        """Join the shared reader again if it is near; continue as before if the shared reader cannot read."""
        if self._waits_until_s is not None:
            is_late = time.monotonic() > self._waits_until_s
            if not self._join(starts=True) and not self._join_behind() and is_late:
                self._read_alone()
        elif self._joined is None or self._is_behind:
            with suppress(TidelineError):
                self._join(starts=self.status.caught_up)

    def _find_others_behind(self) -> None:
        """Join the run for projections that are behind, or wait for the next one."""
        self._waits_until_s = time.monotonic() + self._shared.wait_s
        self._join_behind()

    def _stop_waiting(self) -> None:
        if self._waits_until_s is not None:
            self._waits_until_s = None
            self._shared.stop_waiting(self)

    def _read_alone(self) -> None:
        self._stop_waiting()
        if self._alone is None:
            self._alone = self._open_reader()
        self._alone.seek(self._position)

    def _leave(self) -> None:
        if self._joined is not None:
            reading, member = self._joined
            self._shared.leave(reading, member)
            self._position = max(self._position, member.position)
            self._joined = None

    def _forget_passed(self) -> None:
        """Free the decoded objects of applied events, because the window keeps the events longer."""
        passed, self._passed = self._passed, ()
        for event in passed:
            event.forget_values()

    def _update_status(self, *, caught_up: bool) -> None:
        shown = (self._joined and self._joined[0].status, self._position, caught_up)
        if self._joined is not None and shown == self._shown:
            return  # as at most looks of a policy that nothing concerns
        self._shown = shown
        status = ReaderStatus("") if self._alone is None else self._alone.status
        if self._joined is not None:
            shared = self._joined[0].status
            self._shared_counts = self._shared_counts.add_counts(shared, self._counted)
            self._counted = shared
            status = ReaderStatus(shared.topic, offset=shared.offset).add_counts(status, ReaderStatus(""))
        counts = status.add_counts(self._shared_counts, ReaderStatus(""))
        self.status = replace(counts, position=self._position, caught_up=caught_up)
