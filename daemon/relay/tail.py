"""Tails the notification log: reads and publishes at once, with growing pauses if there is no work.

The metastore has no call that waits for the next event, so an idle relay polls: at first every 10 ms, because
commits often come in groups, then at most five times a second. This costs very little and limits the delay of
a single commit to 0.2 s. A nudge ends the pause, because a client waits for an event that the metastore
already has.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

import structlog

from daemon.process.loops.heartbeat import Heartbeat
from daemon.relay.publisher import Publisher, RelaySettings
from daemon.relay.start_position import Start, StoredPosition
from daemon.sources.listing.listed_writes import ListedWrites
from daemon.sources.outbox import Outbox
from daemon.sources.outgoing_events import OutgoingEvent
from daemon.status.model import SourceStatus
from state.errors import FilesUnavailable, GapDetected, TidelineError


log = structlog.get_logger(__name__)


STOP_NOTICED_S: Final = 0.2
"""The longest time after which a pause notices a stop request."""


class Pace:
    """The pause after an empty answer. It doubles from ``min_s`` to ``max_s``; work resets it.

    Polling is not a retry (``daemon.process.loops.retry_policy.RestartPolicy``): an empty answer is a
    success, so pauses have no jitter, stay far below a second, and polling never gives up. A failure of the
    metastore ends the loop instead, and the supervisor decides on the restart.
    """

    def __init__(self, min_s: float, max_s: float) -> None:
        assert 0 < min_s <= max_s, (min_s, max_s)
        self._min_s, self._max_s = min_s, max_s
        self._next_s = min_s

    def busy(self) -> None:
        """Reset the pause to ``min_s``, after work."""
        self._next_s = self._min_s

    def pause_s(self) -> float:
        """Return the next pause."""
        pause_s, self._next_s = self._next_s, min(self._max_s, self._next_s * 2)
        return pause_s


class Tail:
    """Follows the log after ``start`` and publishes its events with one publisher."""

    def __init__(  # noqa: PLR0913, PLR0917 - it connects six parts and owns none of them
        self,
        outbox: Outbox,
        publisher: Publisher,
        stored: StoredPosition,
        settings: RelaySettings,
        start: Start,
        report: Callable[[SourceStatus], None],
        status: SourceStatus,
        nudge: threading.Event,
        serve: Callable[[], None] = lambda: None,
    ) -> None:
        """Another thread sets ``nudge`` to make the relay read the log at once.

        ``serve`` is called about once per ``settings.check_s``.
        """
        self._nudge = nudge
        self._outbox = outbox
        self._publisher = publisher
        self._stored = stored
        self._settings = settings
        self._report_status = report
        self._serve = serve
        self._before = status
        self._acknowledged = start.position
        self._status = replace(
            status, relayed_event_id=start.position.applied_event_id, relayed_time_s=start.time_s
        )
        self._start = start
        self._read_to = start.position.applied_event_id
        self._newest, self._newest_read_s = status.current_event_id, status.read_s
        self._look_back = outbox.look_back(self._read_to)
        self._looks_back: deque[tuple[int, int]] = deque()
        """For each batch, its last event and the first event to observe again if the relay restarts within
        it."""
        self._times: deque[tuple[int, int]] = deque()
        self._pace = Pace(settings.section.poll_min_s, settings.section.poll_max_s)
        self._saved, self._saved_at_s = start.position.applied_event_id, time.monotonic()
        self._checked_at_s = 0.0

    def follow(self, heartbeat: Heartbeat) -> None:
        """Relay until a stop request, then wait for acknowledgements.

        If an error ends it, raises the error.
        """
        try:
            self._relay_until_stopped(heartbeat)
        except TidelineError:
            # Keep the events read before the failure. Otherwise the relay would not advance if the metastore
            # often fails.
            with suppress(TidelineError):
                self._publisher.settle()
            self._report(heartbeat)
            raise
        self._publisher.settle()
        self._report(heartbeat)
        self._save()

    def _relay_until_stopped(self, heartbeat: Heartbeat) -> None:
        if self._start.completion is not None:
            self._publish([self._start.completion])
        while not heartbeat.stopping.is_set():
            self._check_when_due()
            if self._take():
                self._pace.busy()
            else:
                self._wait(heartbeat)
            self._report(heartbeat)

    def _take(self) -> bool:
        """Read one batch and publish it; return False if there was none."""
        batch = self._outbox.read(self._read_to)
        if not batch:
            self._note_newest(max(self._newest or 0, self._read_to))
            return False
        self._publish(batch)
        return True

    def _publish(self, batch: list[OutgoingEvent]) -> None:
        self._publisher.publish(batch)
        self._read_to = batch[-1].event_id
        self._newest = max(self._newest or 0, self._read_to)
        self._times.append((self._read_to, batch[-1].time_s))
        self._looks_back.append((self._read_to, self._look_back))
        self._look_back = self._outbox.look_back(self._read_to)
        self._count(batch)

    def _count(self, batch: list[OutgoingEvent]) -> None:
        wrote = [item.wrote for item in batch if item.wrote is not None]
        self._status = replace(
            self._status,
            commits_with_writes=self._status.commits_with_writes + sum(wrote),
            commits_without_writes=self._status.commits_without_writes + len(wrote) - sum(wrote),
            unread=self._status.unread + sum(item.unread for item in batch),
        )
        if (unlogged := self._outbox.unlogged) is not None:
            self._status = replace(
                self._status,
                listed=unlogged.listed,
                unlisted=unlogged.unlisted,
                scanned=unlogged.tables_to_scan,
            )

    def _wait(self, heartbeat: Heartbeat) -> None:
        """Pause."""
        pause_s = self._pace.pause_s()
        if self._publisher.pending:
            self._publisher.poll(pause_s)
        else:
            self._pause(heartbeat, pause_s)

    def _pause(self, heartbeat: Heartbeat, pause_s: float) -> None:
        """Wait until the pause is over, a nudge or a stop request. Divides a long pause, to notice a stop
        request.
        """
        end_s = time.monotonic() + pause_s
        while not heartbeat.stopping.is_set() and (left_s := end_s - time.monotonic()) > 0:
            if self._nudge.wait(min(left_s, STOP_NOTICED_S)):
                self._nudge.clear()
                self._pace.busy()
                return

    def _check_when_due(self) -> None:
        """Read the newest id from time to time, and check that the log was neither restored nor cleaned.

        A relay that is behind needs the newest id, too; otherwise it would look caught up after each batch.
        """
        if time.monotonic() - self._checked_at_s >= self._settings.check_s:
            self._check()
            self._serve()
            self._checked_at_s = time.monotonic()

    def _note_newest(self, event_id: int) -> None:
        self._newest, self._newest_read_s = event_id, time.time()

    def _check(self) -> None:
        current = self._outbox.require_not_behind(self._read_to)
        self._note_newest(current)
        if current > self._read_to and not self._take():
            raise GapDetected(
                "events were removed from the notification log before they were relayed",
                expected=self._read_to + 1,
                found=None,
                current=current,
            )

    def _report(self, heartbeat: Heartbeat) -> None:
        """Report the new status, and store the position from time to time."""
        publisher, before = self._publisher, self._before
        progressed = publisher.acknowledged != self._acknowledged
        self._acknowledged = publisher.acknowledged
        while self._times and self._times[0][0] <= publisher.acknowledged.applied_event_id:
            self._status = replace(self._status, relayed_time_s=self._times.popleft()[1])
        self._status = replace(
            self._status,
            relayed_event_id=publisher.acknowledged.applied_event_id,
            lists_writes=isinstance(self._outbox.unlogged, ListedWrites),
            current_event_id=self._newest,
            read_s=self._newest_read_s,
            records=before.records + publisher.records,
            size_bytes=before.size_bytes + publisher.size_bytes,
        )
        self._report_status(self._status)
        (heartbeat.progress if progressed else heartbeat.beat)()
        if time.monotonic() - self._saved_at_s >= self._settings.store_s:
            self._save()

    def _save(self) -> None:
        position = self._publisher.acknowledged
        while self._looks_back and self._looks_back[0][0] <= position.applied_event_id:
            self._looks_back.popleft()
        if position.applied_event_id != self._saved:
            try:
                unlogged = self._outbox.unlogged
                self._stored.save(
                    position,
                    self._looks_back[0][1] if self._looks_back else self._look_back,
                    unlogged.found_by_scan if unlogged is not None else (),
                )
                self._saved = position.applied_event_id
            except FilesUnavailable as error:
                # The topic itself shows the position, and this copy matters only if the topic becomes empty,
                # so the relay continues.
                log.warning("the relay's position could not be stored", code=error.code, problem=str(error))
        self._saved_at_s = time.monotonic()
