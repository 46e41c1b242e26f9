"""Reads tables from the index of another process, if the index is certain to be new enough.

Reading a table has four steps:

1. open a snapshot of the index; forward calls about tables that it does not follow, which needs no query;
2. send the query for the source's newest event id (``newest_event``), or earlier, if an answer is likely;
3. make the answer from the snapshot while the metastore answers the query. If the snapshot contains that
   event, the answer is valid. A snapshot known to be too old gives no answer;
4. otherwise wait for the follower, for a limited time, then check the table again and make the answer from a
   new snapshot.

The query for the event id follows the arrival of the request. Every change committed before that has an id
that is not above it, because the metastore allocates ids in the order of commits. So an answer contains every
change committed before its request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, TypeVar

import structlog

from daemon.endpoint.answers.table_access import Forward, Reason, TableView
from daemon.endpoint.freshness.newest_event import Freshness, NewestEvent, Patience, Pending
from daemon.endpoint.verification.differing_tables import DifferingTables
from handlers.catalog.index.partition_snapshot import IndexFile
from state.errors import TidelineError


log = structlog.get_logger(__name__)

T = TypeVar("T")
FIRST_PAUSE_S: Final = 0.001
"""Pause between two readings of the position; a reading takes about 0.05 ms."""
LONGEST_PAUSE_S: Final = 0.01


class IndexRequest:
    """One request (``table_access.TableRequest``)."""

    def __init__(self, access: IndexAccess, arrived_s: float) -> None:
        self._access = access
        self.arrived_s = arrived_s
        self._pending: Pending | None = None

    def begin_query(self) -> Pending:
        """Return the query for the newest event; begin it now unless it has begun before."""
        self._pending = self._pending or self._access.begin_query(self.arrived_s)
        return self._pending

    def read(self, db: str, table: str, make: Callable[[TableView], T]) -> tuple[T, TableView] | Forward:
        """Return the result of ``make`` for a table of the catalog ``hive``, or the reason to forward the
        call.
        """
        return self._access.read(self, f"{db}.{table}".lower(), make)


class IndexAccess:
    """Reads tables of the index (``table_access.TableAccess``). Thread-safe."""

    def __init__(  # noqa: PLR0913 - the parts of one decision, all by name
        self,
        *,
        file: IndexFile,
        newest: NewestEvent,
        watch: PositionWatch,
        differing: DifferingTables,
        freshness: Freshness,
        wait_s: float,
        behind: Callable[[int], None] = lambda _event_id: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Calls ``behind`` with the event id for which a request begins to wait; ``behind`` must return at
        once.
        """
        self._file = file
        self._newest = newest
        self._watch = watch
        self._differing = differing
        self._freshness = freshness
        self._wait_s = wait_s
        self._behind = behind
        self._clock = clock
        self._patience = Patience()
        self._lock = threading.Lock()

    def arrive(self, *, is_likely: bool = False) -> IndexRequest:
        """Begin a request. If an answer is likely, send the query before the request is decoded."""
        request = IndexRequest(self, self._clock())
        if is_likely and self._freshness.observes:
            request.begin_query()
        return request

    def begin_query(self, arrived_s: float) -> Pending:
        """Send the query for the newest event id, unless the request may rely on an earlier one."""
        return self._newest.begin(self._freshness, arrived_s)

    def read(
        self, request: IndexRequest, name: str, make: Callable[[TableView], T]
    ) -> tuple[T, TableView] | Forward:
        """Return the result of ``make`` for a table, or the reason to forward the call; used by
        ``IndexRequest``.
        """
        with ExitStack() as stack:  # ends the snapshot before any wait: forwarding needs none
            # 1.
            view = _guard(lambda: self._open(stack, name))
            if isinstance(view, Forward):
                return view
            if not self._freshness.observes:
                return make(view), view
            # 2.
            pending = request.begin_query()
            # 3.
            made = None if view.event_id < self._newest.known_id else (make(view), view)
        newest = _guard(pending.result)
        if isinstance(newest, Forward):
            return newest
        if newest.sent_s > request.arrived_s and newest.event_id < view.event_id:
            return Forward(Reason.UNAVAILABLE)  # the index is ahead of its source, which comes from a backup
        if made is not None and view.event_id >= newest.event_id:
            return made
        # 4.
        return self._read_later(name, view.event_id, newest.event_id, make)

    def _read_later(
        self, name: str, position: int, event_id: int, make: Callable[[TableView], T]
    ) -> tuple[T, TableView] | Forward:
        """Wait until the follower, last seen at ``position``, has applied an event, then read the table."""
        waited = _guard(lambda: self._wait(event_id, position))
        if waited is not True:
            return waited or Forward(Reason.NOT_FRESH)
        with ExitStack() as stack:
            view = _guard(lambda: self._open(stack, name))
            if isinstance(view, Forward):
                return view
            return Forward(Reason.NOT_FRESH) if view.event_id < event_id else (make(view), view)

    def _wait(self, event_id: int, position: int) -> bool:
        with self._lock:
            if not self._patience.may_wait(position):
                return False
        self._behind(event_id)
        if self._watch.wait(event_id, self._wait_s):
            return True
        with self._lock:
            self._patience = self._patience.after_timeout(event_id)
        return False

    def _open(self, stack: ExitStack, name: str) -> TableView | Forward:
        """Open a snapshot, and return its view of the table if the index follows the table."""
        snapshot = stack.enter_context(self._file.snapshot())
        record, state = snapshot.record(name), snapshot.table_state(name)
        if record is None or state is None or state.known is None:
            return Forward(Reason.UNKNOWN_TABLE)
        event_id = snapshot.event_id()
        if event_id is None or state.name != "following" or event_id < state.known.until:
            # A listing may contain effects of later events, up to 'until'. Before that, the index has content
            # that the metastore never had.
            return Forward(Reason.NOT_FOLLOWING)
        if self._differing.contains(name, snapshot.index.table(name).number):
            return Forward(Reason.DIFFERS)
        return TableView(name, snapshot, record, event_id)


def _guard(step: Callable[[], T]) -> T | Forward:
    """Return the result of a step; if the step fails, report the index as unusable."""
    try:
        return step()
    except TidelineError as error:
        log.debug("the index cannot be used", code=error.code, problem=str(error))
        return Forward(Reason.UNAVAILABLE)


class PositionWatch:
    """Lets many threads wait until the follower has committed an event.

    The follower is another process, and SQLite has no notifications. One of the waiting threads therefore
    reads the position again and again, and wakes the others. No thread reads while none waits.
    """

    def __init__(
        self,
        read: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._read = read
        self._clock = clock
        self._pause = pause
        self._changed = threading.Condition()
        self._position = -1
        self._is_watched = False

    def wait(self, event_id: int, timeout_s: float) -> bool:
        """Wait until the position has reached ``event_id``.

        Returns False after the time-out. Raises the errors of reading.
        """
        end_s = self._clock() + timeout_s
        with self._changed:
            while self._position < event_id:
                left_s = end_s - self._clock()
                if left_s <= 0:
                    return False
                if self._is_watched:
                    self._changed.wait(left_s)
                else:
                    self._watch(end_s)
        return True

    def _watch(self, end_s: float) -> None:
        """Read until the position changes or the time is over. The caller holds the lock, which this releases
        while it reads.
        """
        before, self._is_watched = self._position, True
        self._changed.release()
        position = before
        try:
            position = self._read_until_changed(before, end_s)
        finally:
            self._changed.acquire()
            self._position, self._is_watched = position, False
            self._changed.notify_all()

    def _read_until_changed(self, before: int, end_s: float) -> int:
        pause_s = FIRST_PAUSE_S
        while (position := self._read()) == before and self._clock() < end_s:
            self._pause(pause_s)
            pause_s = min(LONGEST_PAUSE_S, pause_s * 1.2)
        return position
