"""The catalog projection: follows one source's topic and metastore for all followers.

The position, the table states and the followers' state commit in one store transaction for each batch. Tables
load between batches, for a bounded time, so that neither a long topic nor a large catalog delays the other. A
failed ``apply`` or load leaves the store unchanged; ``open`` reads everything from it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from handlers.catalog.following.background import STEP_WAIT_S, BackgroundCalls, CallsAtOnce, is_answered
from handlers.catalog.following.column_checks import ColumnChecks
from handlers.catalog.following.event_batch import EventBatch
from handlers.catalog.following.loads.loader import Loader
from handlers.catalog.following.loads.pauses import Clock
from handlers.catalog.following.missed_events import MissedEvents
from handlers.catalog.following.ports import Follower, NullObserver, Observer, open_changes
from handlers.catalog.following.survey import Survey
from handlers.catalog.following.table_states import TableStates
from handlers.catalog.timelines.publisher import TimelinePublisher
from handlers.catalog.turns import Turns
from handlers.events import Event
from handlers.failpoints import failpoint
from handlers.failures import TableFailure
from handlers.metastore.client import Metastore
from state.errors import NotFound, Transient
from state.event_log.positions import POSITION_KEY, Position, Step
from state.store import Store, Transaction


LOADING_S: Final = 0.04
"""Time for loads before the next batch of events; a load without pieces never stops in between."""
ANSWER_WAIT_S: Final = 0.5
"""Longest wait for an answer of the metastore between two signs of life, if there is nothing else to do."""
_RULES: Final = b"ct/rules"


class CatalogProjection:
    """Follows one source; used by one thread, except ``quarantined`` and ``position``."""

    def __init__(  # noqa: PLR0913 - the parts of a projection, all by name
        self,
        *,
        source_name: str,
        source: Metastore,
        store: Store,
        followers: Sequence[Follower],
        observer: Observer | None = None,
        publisher: TimelinePublisher | None = None,
        clock: Clock = time.time,
        beat: Callable[[], None] = lambda: None,
        calls: BackgroundCalls | None = None,
    ) -> None:
        """``clock`` returns the Unix time, for new tries of failed loads.

        Calls ``beat`` after each applied event and each loaded table or piece. ``calls`` makes the metastore
        calls in another thread, so that a slow metastore delays no event; without it they run in the caller's
        thread.
        """
        self._beat = beat
        self._publisher = publisher
        self.turns = Turns()
        """Shares the processor with the readers of the followers."""
        self._source_name = source_name
        self._source = source
        self._store = store
        self._followers = followers
        self._observer = observer or NullObserver()
        self.states = TableStates(clock)
        self._reloads: set[str] = set()
        """Tables for which ``continue_reload`` is being called."""
        self.calls = calls or CallsAtOnce(source)
        self._missed = MissedEvents()
        self._clock = clock
        self._checks = ColumnChecks(self._missed)
        self._loader = Loader(
            self.calls,
            store,
            self.states,
            followers,
            self._observer,
            self._missed,
            self._checks,
            clock,
            self.turns,
            lambda: self.position.applied_event_id,
        )
        self._survey: Survey | None = None
        self._tidied_s = 0.0
        """Duration of the last removal; loads leave it this time."""
        self.position = Position(0)

    @property
    def name(self) -> str:
        """``catalog:SOURCE``."""
        return f"catalog:{self._source_name}"

    @property
    def source(self) -> str:
        """The name of the source."""
        return self._source_name

    def open(self) -> Position:
        """Read the state, or start at the source's newest event; begin a survey of all tables if the rules
        changed.
        """
        self._loader.abandon()
        if self._publisher is not None:
            self._publisher.abandon()
        self._survey = None
        self._reread()
        stored = self._store.get(POSITION_KEY)
        self.position = Position.from_bytes(stored) if stored is not None else self._begin()
        if self._store.get(_RULES) != self._rules():
            self._begin_survey()
        return self.position

    def read_state(self) -> bool:
        """Read the state without contacting the source; return False if there is none yet."""
        self._reread()
        stored = self._store.get(POSITION_KEY)
        if stored is not None:
            self.position = Position.from_bytes(stored)
        return stored is not None

    def _reread(self) -> None:
        self._store.recover()
        self.states.open(self._store)
        for follower in self._followers:
            follower.open(self._store)

    def _begin(self) -> Position:
        position = self._read_newest()
        with self._store.transaction() as txn:
            txn.put(POSITION_KEY, position.to_bytes())
        return position

    def _read_newest(self) -> Position:
        """Return the source's newest event, with signs of life until it answers; raise Transient."""
        answer = self.calls.submit(lambda source: source.current_event_id())
        while not is_answered(answer, ANSWER_WAIT_S):
            self._beat()
        return Position(answer.result())

    def _rules(self) -> bytes:
        return "\n".join(follower.rules_text for follower in self._followers).encode()

    def _begin_survey(self) -> None:
        """Survey all tables, between batches; it stores the rules at the end, so an interrupted survey begins
        again.
        """

        def finish(txn: Transaction) -> None:
            txn.put(_RULES, self._rules())
            failpoint("catalog.surveyed")

        with self._store.transaction() as txn:
            txn.delete(_RULES)
        self._survey = Survey(
            self.calls,
            self._store,
            self.states,
            self._followers,
            self._observer,
            self._missed,
            self._clock,
            finish,
        )
        while self._survey.advance(0) and not self._survey.awaits_answer:
            self._beat()

    def cross_gap(self) -> tuple[Position, Position]:
        """Continue after the source's newest event, and load all tables again, because of lost events.

        Returns the positions before and after. Until a table is loaded, answers about it say so. If it raises
        Transient, nothing has changed.
        """
        before, newest = self.position, self._read_newest()
        self._loader.abandon()
        self._reread()
        with self._store.transaction() as txn:
            for name in sorted({*self.states.list_followed(), *self.states.quarantined()}):
                self.states.request_load(txn, name, "unsure")
            txn.put(POSITION_KEY, newest.to_bytes())
        self.position = newest
        self._begin_survey()  # finds the tables created meanwhile
        return before, newest

    def apply(self, events: Sequence[Event]) -> Position:
        """Apply ``events`` in one transaction, skipping those before the position;
        then load tables for a bounded time.
        """
        while self._missed.is_full:
            self._load(ANSWER_WAIT_S)
            self._beat()
        position = self.position
        with self.turns.work(), open_changes(self._store, self._followers) as (txn, changes):
            batch = EventBatch(
                txn,
                self.states,
                list(zip(self._followers, changes, strict=True)),
                self._observer,
                self._missed,
                self._checks,
            )
            for event in events:
                if position.step(event.event_id, event.part) is not Step.DUPLICATE:
                    batch.apply(event)
                    position = Position(event.event_id, event.part, event.parts)
                    self.turns.breathe()
                    self._beat()
            txn.put(POSITION_KEY, position.to_bytes())
            failpoint("catalog.before-commit")
        failpoint("catalog.after-commit")
        self.position = position
        self._settle(wait_s=0)
        return position

    def settle(self) -> bool:
        """Continue to load waiting tables, to remove forgotten content, and to publish, for less than a tenth
        of a second together.

        Returns whether there is more to do at once.
        """
        return self._settle(STEP_WAIT_S)

    def _settle(self, wait_s: float) -> bool:
        """Do the work of ``settle``; wait at most ``wait_s`` for an answer of the metastore."""
        more = self._load_for(max(0.0, LOADING_S - self._tidied_s), wait_s)
        began_s = time.monotonic()
        for follower in self._followers:
            more |= follower.tidy(self._store)
        self._tidied_s = time.monotonic() - began_s
        if self._publisher is not None:
            more |= self._publisher.publish_due(
                self._store, self.states, self.position.applied_event_id, wait_s
            )
        return more

    def load_all(self) -> None:
        """Load all due tables, and remove forgotten content, without a time limit."""
        while self._load(ANSWER_WAIT_S):
            self._beat()
        for follower in self._followers:
            while follower.tidy(self._store):
                self._beat()

    def continue_reload(self, name: str) -> bool:
        """Load a table from its partitions between batches; return whether the load is complete.

        The load also ends the quarantine. Call this again until the load is complete; meanwhile the table is
        the next one to be loaded. Raises NotFound if the table does not exist or is not followed, and
        Transient if the load failed; it is then tried again between batches.
        """
        if name not in self._reloads:
            self._reloads.add(name)
            self.request_load(name)
        postponed = self.states.postponed().get(name)
        if postponed is None and self.states.is_waiting(name):
            self.states.hurry(name)
            return False
        self._reloads.discard(name)
        if postponed is not None:
            raise Transient(
                "the table cannot be loaded now",
                table=name,
                reason=postponed.reason,
                hint="Tideline tries again; 'tideline status' shows when the load has succeeded.",
            )
        self._require_followed(name)
        return True

    def _require_followed(self, name: str) -> None:
        if self.states.get(name) is None:
            raise NotFound(
                "the table is not followed",
                table=name,
                hint="Check the catalog's rules in the configuration.",
            )

    def request_load(self, name: str) -> None:
        """Request a load of a table from its partitions, between batches, which also ends its quarantine."""
        with self._store.transaction() as txn:
            self.states.request_load(txn, name, "asked")

    @property
    def is_surveyed(self) -> bool:
        """Whether the survey that the rules require has ended."""
        return self._survey is None or self._survey.is_done

    def quarantined(self) -> Sequence[str]:
        """Return the quarantined tables; thread-safe."""
        return tuple(sorted(self.states.quarantined()))

    def failures(self) -> Sequence[TableFailure]:
        """Return the reason for each quarantined table; safe to call from another thread."""
        return self.states.failures()

    def close(self) -> None:
        """Release the connections and the store."""
        if self._publisher is not None:
            self._publisher.close()
        self._loader.abandon()
        self.calls.close()
        self._source.close()
        for follower in self._followers:
            follower.close()
        self._store.close()

    def _load_for(self, seconds: float, wait_s: float) -> bool:
        """Load for a bounded time, and begin no step that would probably take longer; return whether there
        is more to load at once.
        """
        step_began_s = time.monotonic()
        end_s = step_began_s + seconds
        while self._load(wait_s):
            self._beat()
            now_s = time.monotonic()
            took_s, step_began_s = now_s - step_began_s, now_s
            if self._awaits_answers() or now_s + took_s >= end_s:
                return True
        return False

    def _load(self, wait_s: float) -> bool:
        """Continue with the survey, then with a load; return False if there is nothing to do now."""
        surveys = self._survey is not None and self._survey.advance(wait_s)
        return self._loader.load_next(wait_s) or surveys

    def _awaits_answers(self) -> bool:
        """Whether all work waits for an answer of the metastore."""
        survey = self._survey
        return self._loader.awaits_answer or (survey is not None and survey.awaits_answer)
