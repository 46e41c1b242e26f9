"""The survey: finds the tables to follow, at the first start and after a change of the rules.

It reads all tables of the source, some hundred at a time, in the thread of calls. Each batch has its own
transaction, while the catalog applies events and loads tables:

- an accepted table that is unknown needs a load;
- a known table that the rules no longer accept disappears, and for others the followers interpret the changed
  rules;
- a table that is unreadable, or that an event has changed since it was read, needs a load, which decides
  whether to follow it.

At the end, known tables that the survey has not seen need a load, which forgets those that do not exist. So
the order of batches and events makes no difference. The survey stores the rules at the end; an interrupted
survey begins again.

While the metastore does not answer, the survey waits with growing pauses.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from operator import methodcaller
from typing import Any, Final, TypeVar

from handlers.catalog.following.background import BackgroundCalls, is_answered
from handlers.catalog.following.loads.listings import FAILED
from handlers.catalog.following.missed_events import MissedEvents
from handlers.catalog.following.ports import Follower, FollowerChange, Observer, open_changes
from handlers.catalog.following.table_info import (
    AlteredTable,
    ForgottenTable,
    TableInfo,
    describe_table,
    qualify,
)
from handlers.catalog.following.table_states import TableStates
from handlers.events import TableAltered
from handlers.metastore.client import Metastore
from state.pieces import in_pieces
from state.store import Store, Transaction


T = TypeVar("T")
TABLES_BATCH: Final = 200
PAUSE_MIN_S: Final = 5.0
PAUSE_MAX_S: Final = 600.0
ALL_TABLES: Final = "*"
"""The observer's name for all tables if the survey itself cannot read."""
Steps = Generator[Future[Any] | None, None, None]
"""Yields an answer to wait for, or None while the survey pauses."""


class Survey:
    """One survey; used by the catalog's thread."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of a survey
        self,
        calls: BackgroundCalls,
        store: Store,
        states: TableStates,
        followers: Sequence[Follower],
        observer: Observer,
        missed: MissedEvents,
        clock: Callable[[], float],
        finish: Callable[[Transaction], None],
    ) -> None:
        """The last transaction calls ``finish``."""
        self._calls = calls
        self._store = store
        self._states = states
        self._followers = followers
        self._observer = observer
        self._missed = missed
        self._clock = clock
        self._finish = finish
        self._steps: Steps | None = self._survey()
        self._awaited: Future[Any] | None = None

    @property
    def is_done(self) -> bool:
        """Whether the survey has seen all tables."""
        return self._steps is None

    @property
    def awaits_answer(self) -> bool:
        """Whether it waits for an answer of the metastore, or pauses because the metastore does not serve
        its calls.
        """
        return self._steps is not None and (self._awaited is None or not self._awaited.done())

    def advance(self, wait_s: float) -> bool:
        """Continue until one batch is stored, or until an answer takes longer than ``wait_s``; return
        whether there is more to do soon.
        """
        if self._steps is None or (self._awaited is not None and not is_answered(self._awaited, wait_s)):
            return self._steps is not None
        try:
            self._awaited = next(self._steps)
        except StopIteration:
            self._steps = None
        return self._awaited is not None

    def _survey(self) -> Steps:
        unseen = {*self._states.list_followed(), *self._states.waiting()}
        for db in (yield from self._ask(lambda source: source.database_names())):
            names: list[str] = yield from self._ask(methodcaller("table_names", db))
            for batch in in_pieces(names, TABLES_BATCH):
                yield from self._survey_batch(db, batch)
                unseen.difference_update(qualify(db, name) for name in batch)
        with open_changes(self._store, self._followers) as (txn, _):
            for name in sorted(unseen):
                if self._states.get(name) is not None and not self._states.is_waiting(name):
                    self._states.request_load(txn, name, "changed")
            self._finish(txn)

    def _survey_batch(self, db: str, batch: Sequence[str]) -> Steps:
        names = [qualify(db, name) for name in batch]
        changes_of = {name: self._missed.begin(name, TableAltered) for name in names}
        try:
            answer = self._calls.submit(lambda source: source.get_tables(db, batch))
            yield answer
            tables = _tables(answer)
            with open_changes(self._store, self._followers) as (txn, changes):
                for name in names:
                    if tables is None or changes_of[name].events:
                        self._request_load(txn, name)
                for table in tables or ():
                    if not self._states.is_waiting(table.name) or self._states.is_quarantined(table.name):
                        self._decide(txn, table, changes)
        finally:
            for reading in changes_of.values():
                self._missed.end(reading)

    def _decide(self, txn: Transaction, table: TableInfo, changes: Sequence[FollowerChange]) -> None:
        is_known = self._states.get(table.name) is not None
        if any(follower.accepts(table) for follower in self._followers):
            if is_known:
                for change in changes:
                    if not change.apply(AlteredTable(table)):
                        self._states.request_load(txn, table.name, "changed")
            else:
                self._states.request_load(txn, table.name, "snapshot")
        elif is_known:
            self._states.forget(txn, table.name)
            for change in changes:
                change.apply(ForgottenTable(table.name))

    def _request_load(self, txn: Transaction, name: str) -> None:
        if not self._states.is_waiting(name):
            known = self._states.get(name)
            self._states.request_load(txn, name, "snapshot" if known is None else "changed")

    def _ask(self, function: Callable[[Metastore], T]) -> Generator[Future[Any] | None, None, T]:
        """Repeat a call until the metastore serves it, because the survey cannot continue without the
        answer.
        """
        pause_s = PAUSE_MIN_S
        while True:
            answer = self._calls.submit(function)
            yield answer
            error = answer.exception()
            if not isinstance(error, FAILED):
                return answer.result()
            self._observer.load_failed(ALL_TABLES, error, pause_s)
            until_s = self._clock() + pause_s
            while self._clock() < until_s <= self._clock() + PAUSE_MAX_S:
                yield None
            pause_s = min(PAUSE_MAX_S, 2 * pause_s)


def _tables(answer: Future[Any]) -> list[TableInfo] | None:
    """Return the tables of an answer; None if there is none, for any reason:
    the load of each table then decides.
    """
    if answer.exception() is not None:
        return None
    return [describe_table(table) for table in answer.result()]
