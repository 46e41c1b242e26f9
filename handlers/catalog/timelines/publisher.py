"""Publishes timelines into table properties, for Lens and other readers of its properties; and migrates their storage form.

Changes of a table are collected for a configured delay and written in one ``alter_table``, with the event id that they reflect.
Protocol:

1. The transaction of a change records the table as unpublished, so a crash loses nothing.
2. Before the write, the event id is stored, so that the event caused by the write is recognised.
3. The properties are written (``property_writer``).
4. The table is no longer unpublished.

A table that the metastore fails to serve, or whose properties cannot be built, is tried again with growing pauses while the others
are published. If the metastore cannot be reached, publishing pauses. Events are applied meanwhile.

A migration changes the storage form of one timeline (LENS-489): one ``alter_table`` with the runs in memory, which does not touch
any other timeline.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import structlog

from handlers.catalog.following.table_info import qualify
from handlers.catalog.timelines.property_writer import write_properties
from handlers.failpoints import failpoint
from state.errors import (
    AmbiguousCall,
    BadInput,
    Conflict,
    LimitExceeded,
    MetastoreUnavailable,
    NotFound,
    Refused,
    ServerFault,
    TidelineError,
)
from state.timelines.storage_forms import find_form
from state.timelines.timeline import build_form_properties, build_table_properties


if TYPE_CHECKING:
    from collections.abc import Callable

    from handlers.catalog.following.ports import Observer
    from handlers.catalog.following.table_states import TableStates
    from handlers.catalog.timelines.timeline_follower import TimelineFollower
    from handlers.metastore.client import Metastore
    from state.store import Store
    from state.timelines.periods import UpdatePeriod


log = structlog.get_logger(__name__)
_RETRIED: Final = frozenset({"conflict", "not-there-yet", "fault"})
PUBLISHING_S: Final = 0.1
"""How long tables are published before the next batch of events; a started write is completed."""
PAUSE_MIN_S: Final = 5.0
PAUSE_MAX_S: Final = 3600.0
PAUSE_SHARE: Final = 10
"""After a failure, publishing of the table pauses at least this many times as long as the failed try took."""


class Publisher:
    """Publishes the timelines of one source; used by the thread of its catalog."""

    def __init__(
        self,
        *,
        metastore: Metastore,
        follower: TimelineFollower,
        delay_s: float,
        observer: Observer,
        database: Callable[[str], str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``database`` returns a database's name on a target; None where the source's own tables are written.

        ``clock`` is that of ``TimelineFollower.unpublished``.
        """
        self.metastore = metastore
        self._follower = follower
        self._delay_s = delay_s
        self._observer = observer
        self._database = database
        self._clock = clock
        self._retries: dict[str, _Retry] = {}
        self._paused_until_s = 0.0
        """Set where the metastore cannot be reached."""

    @property
    def writes_source(self) -> bool:
        """Whether the source's own tables are written."""
        return self._database is None

    def publish_due(self, store: Store, states: TableStates, event_id: int) -> bool:
        """Publish the tables whose first unpublished change is ``delay_s`` old, for a bounded time; return whether more are due."""
        began_s = self._clock()
        if began_s < self._paused_until_s:
            return False
        due = [
            name
            for name, since_s in self._follower.unpublished.items()
            if self._is_due(name, since_s, began_s)
        ]
        for name in due:
            known = states.get(name)
            if states.is_waiting(name) or (known is not None and known.code is not None):
                continue
            self._publish_one(store, states, name, event_id)
            if self._clock() < self._paused_until_s:
                return False
            if self._clock() - began_s >= PUBLISHING_S:
                return True
        return False

    def _is_due(self, name: str, since_s: float, now_s: float) -> bool:
        retry = self._retries.get(name)
        return now_s - since_s >= self._delay_s and (retry is None or now_s >= retry.next_s)

    def _publish_one(self, store: Store, states: TableStates, name: str, event_id: int) -> None:
        began_s = self._clock()
        outcome = "same" if states.get(name) is None else self._publish(store, states, name, event_id)
        self._observer.published(outcome)
        unpublished, now_s = self._follower.unpublished, self._clock()
        if outcome == "fault":
            tries = 1 + (self._retries[name].tries if name in self._retries else 0)
            self._retries[name] = _Retry.after(tries, now_s - began_s, now_s)
            unpublished[name] = unpublished.pop(name)  # behind the others
        elif outcome in _RETRIED:
            unpublished[name] = now_s
        else:
            self._retries.pop(name, None)
            self._follower.mark_published(store, name)  # step 4

    def _publish(self, store: Store, states: TableStates, name: str, event_id: int) -> str:
        timelines, began_s = self._follower.timelines, self._clock()
        if name not in timelines.tables():
            return "same"

        def store_event_id() -> None:  # step 2
            known = states.get(name)
            if known is not None and self.writes_source:
                with store.transaction() as txn:
                    states.put(txn, name, replace(known, published=str(event_id)))
            failpoint("catalog.before-publish")

        try:
            written = write_properties(  # step 3
                self.metastore,
                self.target_name(name),
                lambda properties: build_table_properties(
                    timelines.timelines(name),
                    properties,
                    event_id,
                    timelines.settings(name).time_columns,
                    timelines.settings(name).periods,
                ),
                before_write=store_event_id,
            )
        except TidelineError as error:
            return self._outcome_of(error, name, began_s)
        failpoint("catalog.after-publish")
        return "written" if written else "same"

    def _outcome_of(self, error: TidelineError, name: str, began_s: float) -> str:
        """Return the outcome of a try that failed; raise the error where it does not concern this table or the metastore."""
        match error:
            case LimitExceeded():
                outcome = "too-long"
            case NotFound():
                return "missing" if self.writes_source else "not-there-yet"
            case Conflict():
                return "conflict"
            case Refused():
                outcome = "failed"
            case ServerFault() | AmbiguousCall() | MetastoreUnavailable() | BadInput():
                outcome = "fault"
            case _:
                raise error
        log.warning("timelines are not published", table=name, outcome=outcome, reason=str(error))
        if isinstance(error, MetastoreUnavailable):
            now_s = self._clock()
            self._paused_until_s = now_s + min(60.0, max(PAUSE_MIN_S, now_s - began_s))
        return outcome

    def target_name(self, name: str) -> str:
        """Return the name of the table whose properties are written for ``name``."""
        if self._database is None:
            return name
        db, _, table = name.partition(".")
        return qualify(self._database(db), table)

    def close(self) -> None:
        """Close the connection where it is not the catalog's."""
        if self._database is not None:
            self.metastore.close()


@dataclass(frozen=True, slots=True)
class _Retry:
    """A table that could not be published: the number of tries, and the time of the next one."""

    tries: int
    next_s: float

    @staticmethod
    def after(tries: int, took_s: float, now_s: float) -> _Retry:
        doubled_s = PAUSE_MIN_S * 2 ** min(tries - 1, 20)
        return _Retry(tries, now_s + min(PAUSE_MAX_S, max(doubled_s, PAUSE_SHARE * took_s)))


@dataclass(frozen=True, slots=True)
class MigrationResult:
    """The result of a migration; repeating a migration changes nothing."""

    table: str
    column: str
    period: str
    before: str
    after: str
    written: bool
    """Whether the table's properties had to change."""


@dataclass(frozen=True, slots=True)
class TimelineName:
    """The name of one timeline of a table."""

    table: str
    period: UpdatePeriod
    column: str


def migrate(
    store: Store, follower: TimelineFollower, metastore: Metastore, target: str, name: TimelineName, form: str
) -> MigrationResult:
    """Write the timeline ``name`` in ``form`` into the properties of ``target``, then store the form.

    Raises ConfigError for an unknown form, NotFound where the timeline does not exist, Conflict where other writers keep
    changing the table. After a crash between the two steps, migrate again.
    """
    chosen = find_form(form)
    timeline = follower.timelines.timeline(name.table, name.period, name.column)
    if timeline is None:
        raise NotFound(
            "the timeline does not exist", table=name.table, column=name.column, period=name.period.lens_name
        )
    written = write_properties(
        metastore, target, lambda properties: build_form_properties(timeline, chosen, properties)
    )
    failpoint("catalog.migrated")
    with store.transaction() as txn:
        change = follower.timelines.change(txn)
        change.set_form(name.table, name.period, timeline.column, chosen.name)
    change.publish()
    return MigrationResult(
        name.table, timeline.column, name.period.lens_name, timeline.form.name, chosen.name, written
    )
