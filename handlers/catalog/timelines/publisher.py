"""Publishes timelines into table properties, for Lens and other readers of its properties.

The publisher collects changes of a table for a configured delay, and writes them in one ``alter_table``, with
the event id that they reflect. Protocol:

1. The transaction of a change records the table as unpublished, so a crash loses nothing.
2. Before the write, it stores the event id, to recognise the event that the write causes.
3. It reads, compares and writes the properties (``property_writer``), in the publisher's thread of calls.
4. The table is no longer unpublished, unless it changed again since step 2.

The catalog's thread never waits for the metastore: it begins due tasks, applies events, and takes the
outcomes when they are there. The publisher works on a few tables at once, so that it can begin the next one
before the answer to the last.

If the metastore fails to serve a table, or building its properties fails, the publisher tries it again with
growing pauses and continues with the others. If the metastore is unreachable, publishing pauses. Events are
applied meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import structlog

from handlers.catalog.following.background import BackgroundCalls, is_answered
from handlers.catalog.following.ports import Observer
from handlers.catalog.following.table_info import qualify
from handlers.catalog.following.table_states import TableStates
from handlers.catalog.timelines.property_writer import write_properties
from handlers.catalog.timelines.timeline_follower import TimelineFollower
from handlers.failpoints import failpoint
from handlers.metastore.client import Metastore
from state.errors import Conflict, LimitExceeded, MetastoreUnavailable, NotFound, Refused
from state.store import Store
from state.timelines.tables.projection import Timelines
from state.timelines.timeline import build_table_properties


log = structlog.get_logger(__name__)
_RETRIED: Final = frozenset({"conflict", "not-there-yet", "fault"})
PUBLISHING_S: Final = 0.1
"""Time for outcomes and new tables before the next batch of events."""
BEGUN_MAX: Final = 8
"""Tables published at once; their calls run one after another."""
PAUSE_MIN_S: Final = 5.0
PAUSE_MAX_S: Final = 3600.0
PAUSE_SHARE: Final = 10
"""After a failure, publishing of the table pauses at least this many times as long as the failed try took."""


class TimelinePublisher:
    """Publishes the timelines of one source; used by the thread of its catalog."""

    def __init__(
        self,
        *,
        calls: BackgroundCalls,
        follower: TimelineFollower,
        delay_s: float,
        observer: Observer,
        database: Callable[[str], str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``calls`` go to the metastore whose tables are written, in a separate thread because listings take
        long.

        ``database`` returns a database's name on a target; None for the source's own tables. ``clock`` is the
        clock that ``TimelineFollower.unpublished`` uses.
        """
        self.calls = calls
        self._follower = follower
        self._delay_s = delay_s
        self._observer = observer
        self._database = database
        self._clock = clock
        self._begun: dict[str, Future[_Outcome]] = {}
        """The tables being published, in the order of their calls."""
        self._retries: dict[str, _Retry] = {}
        self._paused_until_s = 0.0
        """Set if the metastore is unreachable."""

    @property
    def writes_source(self) -> bool:
        """Whether it writes the source's own tables."""
        return self._database is None

    def publish_due(self, store: Store, states: TableStates, event_id: int, wait_s: float) -> bool:
        """Publish the tables whose first unpublished change is ``delay_s`` old, for a bounded time; return
        whether there is more to do.

        Waits at most ``wait_s`` for an outcome, and tries each table at most once.
        """
        end_s, tried = time.monotonic() + PUBLISHING_S, set[str]()
        while True:
            self._begin_due(store, states, event_id, tried)
            if not self._begun:
                return False
            name, answer = next(iter(self._begun.items()))
            if not is_answered(answer, wait_s):
                return True
            del self._begun[name]
            tried.add(name)
            self._finish(store, name, answer.result())
            if time.monotonic() >= end_s:
                return True

    def abandon(self) -> None:
        """Ignore the outcomes of unfinished tasks after the state was read again: in that state, their
        tables are still unpublished.
        """
        self._begun.clear()

    def _begin_due(self, store: Store, states: TableStates, event_id: int, tried: AbstractSet[str]) -> None:
        now_s = self._clock()
        if now_s < self._paused_until_s or len(self._begun) >= BEGUN_MAX:
            return
        for name, since_s in list(self._follower.unpublished.items()):
            followed = states.get(name)
            if states.is_waiting(name) or (followed is not None and followed.code is not None):
                continue
            if name not in self._begun and name not in tried and self._is_due(name, since_s, now_s):
                self._begin(store, states, name, event_id)
                if len(self._begun) >= BEGUN_MAX:
                    return

    def _is_due(self, name: str, since_s: float, now_s: float) -> bool:
        retry = self._retries.get(name)
        return now_s - since_s >= self._delay_s and (retry is None or now_s >= retry.next_s)

    def _begin(self, store: Store, states: TableStates, name: str, event_id: int) -> None:
        followed, timelines = states.get(name), self._follower.timelines
        if followed is None or name not in timelines.tables():
            self._observer.published("same")
            self._follower.mark_published(store, name)
            return
        if self.writes_source:  # step 2
            with store.transaction() as txn:
                states.put(txn, name, replace(followed, published=str(event_id)))
        del self._follower.unpublished[name]  # a change from now on records it again
        write = partial(_publish, self.target_name(name), _properties(timelines, name, event_id))
        self._begun[name] = self.calls.submit(write)

    def _finish(self, store: Store, name: str, outcome: _Outcome) -> None:
        name_of_outcome, error = outcome.name, outcome.error
        if isinstance(error, NotFound):
            name_of_outcome = "missing" if self.writes_source else "not-there-yet"
        if error is not None and not isinstance(error, NotFound | Conflict):
            log.warning("timelines are not published", table=name, outcome=outcome.name, reason=str(error))
        if outcome.name == "written":
            failpoint("catalog.after-publish")
        self._observer.published(name_of_outcome)
        self._record(store, name, name_of_outcome, outcome.took_s)
        if isinstance(error, MetastoreUnavailable):
            self._paused_until_s = self._clock() + min(60.0, max(PAUSE_MIN_S, outcome.took_s))

    def _record(self, store: Store, name: str, outcome: str, took_s: float) -> None:
        unpublished, now_s = self._follower.unpublished, self._clock()
        if outcome == "fault":
            tries = 1 + (self._retries[name].tries if name in self._retries else 0)
            self._retries[name] = _Retry.after(tries, took_s, now_s)
            unpublished[name] = unpublished.pop(name, now_s - self._delay_s)  # behind the others
        elif outcome in _RETRIED:
            unpublished[name] = now_s
        else:
            self._retries.pop(name, None)
            if name not in unpublished:
                self._follower.mark_published(store, name)  # step 4

    def target_name(self, name: str) -> str:
        """Return the name of the table with the properties for ``name``."""
        if self._database is None:
            return name
        db, _, table = name.partition(".")
        return qualify(self._database(db), table)

    def close(self) -> None:
        """Close the connection after the current call."""
        self._begun.clear()
        self.calls.close()


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome of one try."""

    name: str
    took_s: float
    error: Exception | None = None


def _publish(
    target: str, compute: Callable[[Mapping[str, str]], Mapping[str, str]], metastore: Metastore
) -> _Outcome:
    """Do step 3, in the thread of calls; never raise, because a failure of one table must not stop the
    others.
    """
    began_s = time.monotonic()
    try:
        written = write_properties(
            metastore, target, compute, before_write=lambda: failpoint("catalog.before-publish")
        )
    except Exception as error:  # noqa: BLE001 - a defect that one table causes is tried again as well
        return _Outcome(_name_of(error), time.monotonic() - began_s, error)
    return _Outcome("written" if written else "same", time.monotonic() - began_s)


def _name_of(error: Exception) -> str:
    match error:
        case LimitExceeded():
            return "too-long"
        case NotFound():
            return "missing"
        case Conflict():
            return "conflict"
        case Refused():
            return "failed"
    return "fault"


def _properties(
    timelines: Timelines, name: str, event_id: int
) -> Callable[[Mapping[str, str]], Mapping[str, str]]:
    """Return a thread-safe function that adds a table's present timelines to its properties."""
    current, settings = timelines.timelines(name), timelines.settings(name)
    return lambda properties: build_table_properties(
        current, properties, event_id, settings.time_columns, settings.periods
    )


@dataclass(frozen=True, slots=True)
class _Retry:
    """A table whose publication failed: the number of tries, and the time of the next try."""

    tries: int
    next_s: float

    @staticmethod
    def after(tries: int, took_s: float, now_s: float) -> _Retry:
        doubled_s = PAUSE_MIN_S * 2 ** min(tries - 1, 20)
        return _Retry(tries, now_s + min(PAUSE_MAX_S, max(doubled_s, PAUSE_SHARE * took_s)))
