"""The source's newest event id, and whether an answer from a copy of the source is new enough for a request.

The source reports its newest event id on request. A copy that contains this event contains everything
committed before the query. So a copy at event V may answer a request if V is at least the result of a query
that was sent late enough:

========== ===================================== ==========================================================
mode       the query must be sent                the answer contains every change committed before
========== ===================================== ==========================================================
exact      after the request arrived             the request arrived
bounded    at most ``age_max_s`` before that     ``age_max_s`` before that
eventual   never                                 the copy's own position, however old that is
========== ===================================== ==========================================================

While a query is under way, requests that arrive wait for the next one, and one query then serves all of them.
So the metastore receives at most one such call at a time, however many clients there are.

A query has two steps, begin and finish, so that a request proceeds while the metastore answers the query. The
first request that needs the result receives it for all, so a slow request that began a query delays no other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from state.errors import Inconsistent, MetastoreUnavailable, TidelineError


@dataclass(frozen=True, slots=True)
class Observation:
    """The newest event id of the source, and the time just before the query for it."""

    event_id: int
    sent_s: float


@dataclass(frozen=True, slots=True)
class Freshness:
    """How long before the request the newest event id may be queried: 0 s for exact, None for eventual."""

    age_max_s: float | None = 0.0

    @property
    def observes(self) -> bool:
        """Whether the endpoint queries the source for its newest event id."""
        return self.age_max_s is not None

    def accepts(self, observation: Observation | None, arrived_s: float) -> bool:
        """Whether a request that arrived at ``arrived_s`` may rely on this observation instead of a new
        query.
        """
        if self.age_max_s is None:
            return True
        return observation is not None and observation.sent_s > arrived_s - self.age_max_s


@dataclass(frozen=True, slots=True)
class Patience:
    """Decides whether a request waits for the copy to catch up.

    A request that waited until its time-out shows that the copy is further behind than the longest wait, or
    does not advance at all. Until the copy reaches the event that this request needed, no other request
    waits: the endpoint would only forward each later.
    """

    unreached_id: int | None = None

    def may_wait(self, position: int) -> bool:
        """Whether a request may wait for a copy at this position."""
        return self.unreached_id is None or position >= self.unreached_id

    def after_timeout(self, event_id: int) -> Patience:
        """Return the patience after a request has waited for this event until its timeout."""
        furthest_id = event_id if self.unreached_id is None else max(self.unreached_id, event_id)
        return replace(self, unreached_id=furthest_id)


class EventQuery(Protocol):
    """A query for the newest event id. ``send`` and ``receive`` alternate, one call at a time, from any
    thread.
    """

    def send(self) -> None:
        """Send the query."""

    def receive(self) -> int:
        """Return the event id that was the newest at some moment since ``send`` was called."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A query whose result may not have arrived yet."""

    newest: NewestEvent
    number: int
    """The number of the necessary query."""
    recent: Observation | None = None
    """An observation that is new enough already."""

    def result(self) -> Observation:
        """Return the observation.

        Raises the error of the query, and Inconsistent if the source's newest event is older than before,
        because then the metastore was restored from a backup.
        """
        return self.recent or self.newest.finish(self.number)


class NewestEvent:
    """Queries the newest event id of the source on behalf of many threads."""

    def __init__(self, query: EventQuery, clock: Callable[[], float] = time.monotonic) -> None:
        self._query = query
        self._clock = clock
        self._changed = threading.Condition()
        self._is_busy = False
        """Whether a thread is sending or receiving."""
        self._begun = 0
        self._ended = 0
        self._sent_s = 0.0
        self._last: Observation | None = None
        self._failure: TidelineError | None = None

    @property
    def known_id(self) -> int:
        """The highest event id observed so far; -1 before the first query."""
        last = self._last
        return -1 if last is None else last.event_id

    def begin(self, freshness: Freshness, arrived_s: float) -> Pending:
        """Return an observation on which a request that arrived at ``arrived_s`` may rely. Sends a query if
        that is needed and none is under way.
        """
        with self._changed:
            last = self._last
            if last is not None and freshness.accepts(last, arrived_s):
                return Pending(self, self._ended, last)
            needed = self._begun + 1
            if self._begun > self._ended:
                return Pending(self, needed)  # the query under way began too early
            self._begun, self._is_busy = needed, True
        self._send()
        return Pending(self, needed)

    def finish(self, number: int) -> Observation:
        """Return the result of a query or of a later one. Sends and receives unless another thread does."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended >= number or not self._is_busy)
                if self._ended >= number:
                    return self._result()
                self._is_busy = True
                is_next = self._begun == self._ended
                self._begun += is_next
            if is_next:
                self._send()
            else:
                self._receive()

    def _send(self) -> None:
        failure: TidelineError | None = _unexpected()
        sent_s = self._clock()
        try:
            self._query.send()
            failure = None
        except TidelineError as error:
            failure = error
        finally:
            if failure is not None:
                self._end(None, failure)
        with self._changed:
            self._sent_s, self._is_busy = sent_s, False
            self._changed.notify_all()

    def _receive(self) -> None:
        failure: TidelineError = _unexpected()
        observation: Observation | None = None
        try:
            observation = Observation(self._query.receive(), self._sent_s)
        except TidelineError as error:
            failure = error
        finally:
            self._end(observation, failure)

    def _end(self, observation: Observation | None, failure: TidelineError) -> None:
        with self._changed:
            self._ended, self._is_busy = self._begun, False
            self._failure = failure if observation is None else self._check(observation)
            if self._failure is None:
                self._last = observation
            self._changed.notify_all()

    def _check(self, observation: Observation) -> TidelineError | None:
        if self._last is None or observation.event_id >= self._last.event_id:
            return None
        return Inconsistent(
            "the source's newest event id has decreased",
            found=observation.event_id,
            before=self._last.event_id,
            hint="If the metastore was restored from a backup, restart the endpoint once the catalog "
            "follows it again.",
        )

    def _result(self) -> Observation:
        if self._failure is not None:
            raise self._failure
        assert self._last is not None, "a query without failure has a result"
        return self._last


def _unexpected() -> TidelineError:
    return MetastoreUnavailable("the query for the newest event ended unexpectedly")
