"""Loads one table from the source into all followers, in steps, with events in between.

Snapshot protocol for one table:

1. Read the newest event id (``as_of``).
2. List the table's partitions.
3. Store them together with ``as_of``; from then on, apply every later event on top.

Every table has its own ``as_of``. So a table can load at any time, loading continues after a crash, and
events apply meanwhile. Steps 1 and 2 call the metastore, in their own thread (``listings``). Events of the
table applied or skipped meanwhile apply again after step 3 (``missed_events``). If one of them changes the
scope of the load, the catalog drops the listing.

If a follower loads in pieces, steps 2 and 3 repeat for each piece, with a transaction each: one listing gives
the names, and each step fetches the partitions of one piece. Other followers receive their listing with the
last piece. Every listing is read after ``as_of``, and every later event reaches the staged content or, after
the last piece, all followers. So the order of pieces and events makes no difference.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from handlers.catalog.following.background import BackgroundCalls
from handlers.catalog.following.column_checks import ColumnChecks, read_samples
from handlers.catalog.following.event_batch import EventBatch
from handlers.catalog.following.loads.listings import ListingRequest
from handlers.catalog.following.loads.pauses import LoadPauses
from handlers.catalog.following.loads.table_loads import TableLoads, read_loads
from handlers.catalog.following.missed_events import MissedEvents, Reading
from handlers.catalog.following.ports import Follower, FollowerChange, NullObserver, Observer, open_changes
from handlers.catalog.following.table_info import AcceptedColumns, ForgottenTable, Listing, describe_table
from handlers.catalog.following.table_state import FROM_PARTITIONS, FollowedTable, TableState
from handlers.catalog.following.table_states import TableStates
from handlers.catalog.turns import Turns
from handlers.events import Event, TableAltered
from handlers.failpoints import failpoint
from state.errors import BadInput, Inconsistent, NotFound, Refused, TidelineError
from state.store import Store, Transaction


PIECE: Final = 500
"""Partitions fetched by one call and staged by one transaction, at most."""
PIECE_MIN: Final = 20
PIECE_S: Final = 0.02
"""How long a piece should take at most; the next one is smaller or larger accordingly."""
LISTINGS_MAX: Final = 4
"""Listings kept in memory: tables loaded in pieces take turns, and each has one."""
Steps = Generator[Future[Any] | None, None, bool]
"""A load: it yields its waits, or None between two transactions, and returns whether the table is
complete."""


class LoadSteps:
    """The loads of one source's tables; used by one thread."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of a load
        self,
        calls: BackgroundCalls,
        store: Store,
        states: TableStates,
        followers: Sequence[Follower],
        observer: Observer,
        missed: MissedEvents,
        checks: ColumnChecks,
        pauses: LoadPauses,
        turns: Turns,
        applied: Callable[[], int],
    ) -> None:
        """``applied`` returns the id of the newest applied event.

        By ``turns``, computations in the thread of calls give way to the thread that applies events.
        """
        self._calls = calls
        self._store = store
        self._states = states
        self._followers = followers
        self._observer = observer
        self._missed = missed
        self._checks = checks
        self._pauses = pauses
        self._turns = turns
        self._applied = applied
        self._began_s = 0.0
        self._listings: dict[str, Sequence[str]] = {}
        """The tables loaded in pieces, with the names of their partitions in order."""
        self._piece = min(PIECE, 200)

    def load(self, name: str, reason: str) -> Steps:
        """Load a table or a piece of it; return True if it is complete.

        Quarantines a table with inconsistent content, or one that the source refuses to return. If it raises
        Transient, nothing has changed.
        """
        before, self._began_s = self._states.state(name), self._pauses.clock()
        reading = self._missed.begin(name)
        try:
            request = self._request(name, reason)
            answer = self._calls.submit(partial(read_loads, self._followers, request, self._turns))
            yield answer
            if reading.is_obsolete or self._has_changed(name, before):
                return False
            finished = yield from self._store_answer(name, reason, answer, reading, before)
        finally:
            self._missed.end(reading)
        if finished:
            self._listings.pop(name, None)
        return finished

    def check_columns(self, name: str, _reason: str) -> Steps:
        """Determine whether appended columns have reached the table's partitions; return True if not, which
        makes a load unnecessary.
        """
        check, before = self._checks.get(name), self._states.state(name)
        if check is not None and check.is_possible and check.found is None:
            check.samples = [one for follower in self._followers for one in follower.sample(name)]
            answer = self._calls.submit(partial(read_samples, name, check.samples))
            yield answer
            if self._has_changed(name, before):
                return False
            if not isinstance(answer.exception(), NotFound | Refused | BadInput | Inconsistent):
                check.found = answer.result()
            if not self._checks.is_ready(name, self._applied()):
                return False
        if check is not None and check.is_possible and check.is_proven():
            self._accept_columns(name, check.reading.events)
            return True
        with self._store.transaction() as txn:
            event_id = before.load.event_id if before is not None and before.load is not None else 0
            self._states.request_load(txn, name, "unsure", event_id)
        self._checks.end(name)
        return False

    def _accept_columns(self, name: str, events: Sequence[Event]) -> None:
        """Continue to follow a table whose partitions have not changed, and apply the events kept
        meanwhile.
        """
        with open_changes(self._store, self._followers) as (txn, changes):
            pairs = list(zip(self._followers, changes, strict=True))
            self._states.finish_load(txn, name)
            batch = EventBatch(txn, self._states, pairs, _MissedObserver(self._observer))
            for event in events:
                if isinstance(event, TableAltered):
                    accepted = AcceptedColumns(describe_table(event.after.value))
                    for change in changes:
                        change.apply(accepted)
                batch.apply(event)
        self._checks.end(name)

    def _request(self, name: str, reason: str) -> ListingRequest:
        progress = self._states.progress(name)
        names = None if progress is None else self._listings.get(name)
        return ListingRequest(
            name,
            reason not in FROM_PARTITIONS,
            progress,
            names,
            min(self._piece, PIECE),
            self._turns.give_way,
        )

    def _has_changed(self, name: str, before: TableState | None) -> bool:
        """Whether an event has changed the scope of the load, for example by a rename: the listing does not
        belong to it.
        """
        after = self._states.state(name)
        wanted = None if before is None else (before.load, before.progress)
        return (None if after is None else (after.load, after.progress)) != wanted

    def _store_answer(
        self,
        name: str,
        reason: str,
        answer: Future[TableLoads],
        reading: Reading,
        before: TableState | None,
    ) -> Steps:
        try:
            finished = yield from self._store_loads(answer.result(), reason, reading, before)
        except NotFound:
            self._forget_missing(name)
            return True
        except (Refused, BadInput, Inconsistent) as error:
            if reading.is_obsolete or self._has_changed(name, before):
                return False
            took_s = self._pauses.measure_s(self._began_s)
            with self._store.transaction() as txn:
                self._states.quarantine(txn, name, error, took_s=took_s)
            self._pauses.pause_retries(took_s)
            self._observer.table_quarantined(name, error)
            return True
        if finished:
            self._observer.table_loaded(reason)
        return finished

    def _store_loads(
        self, loads: TableLoads, reason: str, reading: Reading, before: TableState | None
    ) -> Steps:
        """Write the followers' additions to the table's content, then store the listing; return whether the
        table is complete.
        """
        try:
            if loads.listing.piece is not None:
                self._keep_names(reading.name, loads.listing.piece.names)
            while self._write(loads):
                yield None
            if reading.is_obsolete or self._has_changed(reading.name, before):
                return False
            return self._store_listing(loads, reason, reading.events)
        finally:
            loads.abandon()

    def _write(self, loads: TableLoads) -> bool:
        """Write a part of the loads. Readers give way to it as they do to events; otherwise each statement
        would give them a turn.
        """
        with self._turns.work():
            return loads.write(self._store)

    def _keep_names(self, name: str, names: Sequence[str]) -> None:
        """Keep the partition names of a table loaded in pieces; forget the oldest names if there are those
        of too many tables.
        """
        self._listings.pop(name, None)
        while len(self._listings) >= LISTINGS_MAX:
            self._listings.pop(next(iter(self._listings)))
        self._listings[name] = names

    def _adapt_piece(self, took_s: float) -> None:
        """Change the size of pieces towards ``PIECE_S``, by at most a factor of two."""
        factor = max(0.5, min(2.0, PIECE_S / max(took_s, 1e-6)))
        self._piece = max(min(PIECE, PIECE_MIN), min(PIECE, int(self._piece * factor)))

    def _store_listing(self, loads: TableLoads, reason: str, missed: Sequence[Event]) -> bool:
        """Step 3: store a listing, or stage a piece, in one transaction; then the events missed."""
        name, began_s = loads.listing.table.name, time.perf_counter()
        with self._turns.work(), open_changes(self._store, self._followers) as (txn, changes):
            pairs = list(zip(self._followers, changes, strict=True))
            finished = self._take(txn, loads, pairs, reason)
            batch = EventBatch(txn, self._states, pairs, _MissedObserver(self._observer))
            for event in missed:
                batch.apply(event)
            if finished:
                failpoint("catalog.loaded")
        if not finished and self._states.progress(name) is not None:
            self._adapt_piece(time.perf_counter() - began_s)
        return finished

    def _take(
        self,
        txn: Transaction,
        loads: TableLoads,
        pairs: Sequence[tuple[Follower, FollowerChange]],
        reason: str,
    ) -> bool:
        """Hand the loads to the followers; return whether the table is complete. If the table changed
        meanwhile, its load starts again.
        """
        listing = loads.listing
        if not loads.take(pairs):
            self._states.request_load(txn, listing.table.name, reason)
            return False
        if listing.piece is not None:
            self._states.save_progress(txn, listing.table.name, listing.piece.progress)
            failpoint("catalog.staged")
        if listing.is_last:
            self._record_loaded(txn, listing)
        return listing.is_last

    def _record_loaded(self, txn: Transaction, listing: Listing) -> None:
        table = listing.table
        before = self._states.get(table.name)
        published = before.published if before is not None else None
        followed = FollowedTable(table.columns, listing.as_of, listing.until, published=published)
        self._states.put(txn, table.name, followed)
        self._states.finish_load(txn, table.name)

    def _forget_missing(self, name: str) -> None:
        """Forget a table that does not exist at the source; the event that drops or renames it may still
        be to come.
        """
        with open_changes(self._store, self._followers) as (txn, changes):
            self._states.forget(txn, name)
            for change in changes:
                change.apply(ForgottenTable(name))


class _MissedObserver(NullObserver):
    """An observer for missed events, which are already counted: it reports only a new quarantine."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def table_quarantined(self, table: str, error: TidelineError) -> None:
        """Report the quarantined table."""
        self._observer.table_quarantined(table, error)
