"""Selects the table to load next, continues its load, and handles failures. One table's load is in ``steps``.

A table whose listing the metastore fails to serve (an internal error, or no answer in time) waits, and the
others load. Tries of such tables take at most a tenth of the time. If several tables in a row fail, or the
metastore does not answer at all, all loads pause for a while (``pauses``). Events are applied meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from handlers.catalog.following.background import BackgroundCalls, is_answered
from handlers.catalog.following.column_checks import COLUMNS, ColumnChecks
from handlers.catalog.following.loads.listings import FAILED
from handlers.catalog.following.loads.pauses import PAUSE_S, Clock, LoadPauses
from handlers.catalog.following.loads.steps import LoadSteps, Steps
from handlers.catalog.following.missed_events import MissedEvents
from handlers.catalog.following.ports import Follower, Observer
from handlers.catalog.following.table_states import TableStates
from handlers.catalog.turns import Turns
from state.errors import TidelineError
from state.store import Store


class Loader:
    """Reads tables of one source into the followers; used by one thread."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of a loader
        self,
        calls: BackgroundCalls,
        store: Store,
        states: TableStates,
        followers: Sequence[Follower],
        observer: Observer,
        missed: MissedEvents,
        checks: ColumnChecks,
        clock: Clock,
        turns: Turns,
        applied: Callable[[], int],
    ) -> None:
        """``applied`` returns the id of the newest applied event.

        ``clock`` returns the Unix time. By ``turns``, computations in the thread of calls give way to the
        thread that applies events.
        """
        self._pauses = LoadPauses(clock)
        self._calls = calls
        self._store = store
        self._states = states
        self._observer = observer
        self._checks = checks
        self._applied = applied
        self._loads = LoadSteps(
            calls,
            store,
            states,
            followers,
            observer,
            missed,
            checks,
            self._pauses,
            turns,
            applied,
        )
        self._steps: Steps | None = None
        """The current load."""
        self._awaited: Future[Any] | None = None
        """The answer that it waits for."""

    @property
    def awaits_answer(self) -> bool:
        """Whether the current load waits for the metastore."""
        return self._awaited is not None and not self._awaited.done()

    def abandon(self) -> None:
        """Abandon the current load after a failure; its table still waits."""
        if self._steps is not None:
            self._steps.close()
        self._steps = self._awaited = None
        self._checks.end_all()

    def load_next(self, wait_s: float) -> bool:
        """Continue with a waiting table, or with a piece of it; return False if no table is due.

        Waits for the metastore's answer for at most ``wait_s``. Postpones a load that the metastore fails to
        serve. Raises Transient if the store fails.
        """
        if self._steps is None:
            self._steps = self._begin_next()
            if self._steps is None:
                return False
        self._advance(wait_s)
        return True

    def load(self, name: str, reason: str) -> bool:
        """Load a table or a piece of it, and wait until that is done; return True if the table is
        complete, and raise the error of a failed load.
        """
        while self._steps is not None:
            self._advance(PAUSE_S)
        steps = self._loads.load(name, reason)
        try:
            while True:
                awaited = next(steps)
                if awaited is not None:
                    is_answered(awaited, float("inf"))
        except StopIteration as ended:
            return bool(ended.value)

    def _begin_next(self) -> Steps | None:
        if not self._pauses.allow_loads():
            return None
        began_s = self._pauses.clock()
        self._checks.end_obsolete(self._states)
        waiting = self._states.next_load(
            began_s,
            failed=self._pauses.allow_retries(),
            is_ready=lambda name: self._checks.is_ready(name, self._applied()),
        )
        return None if waiting is None else self._try(*waiting, began_s)

    def _advance(self, wait_s: float) -> None:
        """Continue the current load until it waits for an answer that does not arrive within ``wait_s``."""
        assert self._steps is not None
        try:
            while self._awaited is None or is_answered(self._awaited, wait_s):
                self._awaited = next(self._steps)
                if self._awaited is None:
                    return
        except StopIteration:
            self._steps = self._awaited = None
        except BaseException:
            self._steps = self._awaited = None
            raise

    def _try(self, name: str, reason: str, began_s: float) -> Steps:
        """Load a table or a piece of it; postpone it if the metastore fails to serve it."""
        try:
            load = self._loads.check_columns if reason == COLUMNS else self._loads.load
            finished = yield from load(name, reason)
        except FAILED as error:
            took_s = self._pauses.measure_s(began_s)
            trivial = self._calls.submit(lambda source: source.current_event_id())
            yield trivial
            self._handle_failure(name, error, trivial, took_s)
            return False
        self._pauses.note_success()
        if not finished:
            self._states.rotate(name)
        return finished

    def _handle_failure(self, name: str, error: TidelineError, trivial: Future[int], took_s: float) -> None:
        """Postpone the table,
        or pause all loads if the metastore does not answer a trivial call either.
        """
        try:
            trivial.result()
        except FAILED as outage:
            self._observer.load_failed(name, outage, self._pauses.pause_loads(took_s))
        else:
            if self._states.is_waiting(name):
                self._postpone(name, error, took_s)
            self._pauses.note_failure(took_s)

    def _postpone(self, name: str, error: TidelineError, took_s: float) -> None:
        now_s = self._pauses.clock()
        with self._store.transaction() as txn:
            postponed = self._states.postpone_load(txn, name, error, took_s, now_s)
        self._observer.load_failed(name, error, postponed.next_s - now_s)
        self._pauses.pause_retries(took_s)
