"""Replay of one batch of events: applies each at its turn, alone or with later ones, or ahead of it.

For each event, two decisions are independent: the way to apply it (``choose_way``), and the points around it
that record the position (``record_points``). Effects on the target come first, and each is idempotent; then
the position passes the event (``position.progress``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Final

from handlers.events import DatabaseDropped, Event, WriteIdsAllocated
from handlers.failpoints import failpoint
from handlers.replication.batch.lanes import Lanes
from handlers.replication.batch.merged_events import EventJoiner, Joinable, find_superseded_alters, join
from handlers.replication.batch.record_points import RecordPoints
from handlers.replication.batch.work_ahead import AppliedAhead, WorkAhead
from handlers.replication.context import Context
from handlers.replication.dispatch import OUT_OF_SCOPE, Dispatcher
from handlers.replication.effects.loaded_tables import NOTHING_TO_DO
from handlers.replication.effects.remembered_events import remember
from handlers.replication.loading.follower import LoadFollower
from handlers.replication.observer import BatchOverlap
from handlers.replication.policy.renames import find_alterations, is_foreign, may_concern
from handlers.replication.position.progress import RecordedPosition, TargetProgress
from handlers.replication.transactions.coming_events import select_lookahead_events
from state.errors import ServerFault
from state.event_log.positions import Step


FAULTS_MIN: Final = 5
FAULTS_S: Final = 120.0
"""Consecutive internal errors of the target at one event, and the seconds over which they must extend, before
they count as a failure of the event's table.
"""


@dataclass(frozen=True, slots=True)
class OnTarget:
    """The way for an event that an earlier run has applied: only the state must record it."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The way for an event without an effect left: a later event supersedes it, or an earlier one includes
    its change.
    """


@dataclass(frozen=True, slots=True)
class Joined:
    """Apply the event together with later ones; alone if the target refuses that."""

    events: Sequence[Joinable]


@dataclass(frozen=True, slots=True)
class Alone:
    """Apply nothing but the event."""


Way = OnTarget | Merged | AppliedAhead | Joined | Alone


def choose_way(
    event: Event, *, on_target: int, is_merged: bool, ahead: AppliedAhead | None, joinable: Sequence[Joinable]
) -> Way:
    """Return how to apply ``event``: in a lane, by replay now, or not at all, because it or another event
    already has the effect.
    """
    if event.event_id <= on_target:
        return OnTarget()
    if is_merged:
        return Merged()
    if ahead is not None:
        return ahead
    return Joined(joinable) if joinable else Alone()


class BatchReplay:
    """Applies the batches of one policy. Used by the projection's thread."""

    def __init__(
        self,
        context: Context,
        dispatcher: Dispatcher,
        *,
        recorded: RecordedPosition,
        target_progress: TargetProgress,
        loads: LoadFollower,
        clock: Callable[[], float],
        beat: Callable[[], None],
    ) -> None:
        """Calls ``beat`` after each event."""
        self._context = context
        self._dispatcher = dispatcher
        self._transactions = dispatcher.transactions
        self._recorded = recorded
        self._target_progress = target_progress
        self._records = RecordPoints(context, recorded, target_progress)
        self._loads = loads
        self._faults = TargetFaults()
        self._clock = clock
        self._beat = beat
        self._joiner = EventJoiner(context)
        self._upcoming = 0
        """The present event, or the last one."""
        self._ahead = WorkAhead(
            context,
            self._joiner,
            Lanes(context, context.lanes) if context.lanes else None,
            must_raise_before=target_progress.must_precede,
        )
        recorded.subscribe(lambda event_id: self._ahead.start_after(event_id, upcoming=self._upcoming))

    def apply(self, events: Sequence[Event]) -> bool:
        """Apply ``events`` in order and make the new position durable, even if an error ends the batch early;
        return whether the batch could have an effect.

        If it could not, replay sends nothing to the target, and the position becomes durable later
        (``position.progress``). Skips events up to the position. Copies nothing early for events that the
        target already has, because their tables may have been renamed since.
        """
        policy, recorded = self._context.policy, self._recorded
        may_take_effect = any(
            recorded.current.step(event.event_id, event.part) is not Step.DUPLICATE
            and self._dispatcher.may_take_effect(event)
            for event in events
        )
        if may_take_effect:
            self._context.target_position.check(may_be_missing=self._drops_database(events))
        new = [event for event in events if event.event_id > recorded.reached and may_concern(event, policy)]
        overlapping = new if self._context.overlaps else ()
        superseded, early = find_superseded_alters(new), select_lookahead_events(overlapping)
        files = self._transactions.files
        recorded.begin_batch()
        try:
            self._begin(overlapping, superseded)
            files.start_early_copies(early)
            for event in events:
                if recorded.current.step(event.event_id, event.part) is not Step.DUPLICATE:
                    self.advance(event, superseded)
                    self._beat()
                    if isinstance(event, WriteIdsAllocated) and policy.covers(event.db, event.table):
                        files.start_early_copies(later for later in early if later.event_id > event.event_id)
            self._transactions.proofs.prove()
        finally:
            self._ahead.end()
            self._transactions.lookahead.end()
            if new:
                counts = self._ahead.take_counts(), self._transactions.lookahead.take_counts()
                self._context.observer.batch_replayed(BatchOverlap(len(new), *counts))
            if may_take_effect or recorded.is_due():
                recorded.record()
        if self._target_progress.is_due():
            self._target_progress.raise_position()
        return may_take_effect

    def _drops_database(self, events: Sequence[Event]) -> bool:
        """Whether the first event drops the database, which a killed run may have dropped already."""
        first = next(iter(events), None)
        return isinstance(first, DatabaseDropped) and self._context.policy.covers_db(first.db)

    def _begin(self, new: Sequence[Event], superseded: Container[int]) -> None:
        """Decide which of the new events to apply together, or ahead of their turn."""
        marks = self._transactions.marks
        uncertain_up_to = max(marks.uncertain_event_id, self._recorded.on_target)
        self._joiner.begin(new, uncertain_up_to=uncertain_up_to)
        self._transactions.lookahead.begin(new, uncertain_up_to=uncertain_up_to)
        if new and new[0].event_id > marks.uncertain_event_id:
            self._ahead.begin(new, superseded, unknown_txn_id=marks.unknown_txn_id)

    def advance(self, event: Event, superseded: Container[int] = ()) -> None:
        """Apply the next event, and record the position before and after it if a repetition requires that.

        ``superseded`` are the ids of the events of the batch that later ones supersede.
        """
        self._loads.prepare(event)
        self._upcoming = event.event_id
        ahead = self._ahead.take(event)
        way = choose_way(
            event,
            on_target=self._recorded.on_target,
            is_merged=event.event_id in superseded or self._joiner.is_done(event),
            ahead=ahead,
            joinable=() if ahead else self._joiner.select(event),
        )
        concerns_policy = not isinstance(way, OnTarget) and may_concern(event, self._context.policy)
        applied = way.events if isinstance(way, AppliedAhead | Joined) else (event,)
        altered = frozenset().union(*map(find_alterations, applied if concerns_policy else ()))
        if concerns_policy and isinstance(way, Joined | Alone):
            self._records.record_before(event, altered)
        reason = self._apply(event, way)
        self._load_tables()
        if concerns_policy and reason != OUT_OF_SCOPE:
            self._records.note(event, altered)
        event.forget_values()
        self._recorded.pass_event(event, took_effect=reason not in {OUT_OF_SCOPE, NOTHING_TO_DO})
        self._records.record_after()

    def _apply(self, event: Event, way: Way) -> str | None:
        """Apply the event and report it; return why it did not take effect, or None."""
        started = time.perf_counter()
        failpoint("replay.decoded")
        match way:
            case OnTarget():
                remember(event, self._context)
                reason: str | None = "on-target"
            case Merged():
                reason = "merged"
            case AppliedAhead(events, done):
                self._dispatcher.adopt(events, done.table)
                self._joiner.confirm(events)
                reason, started = None, time.perf_counter() - done.seconds
            case Joined(events) if self._apply_joined(events):
                reason = None
            case Joined() | Alone():
                reason = self._apply_or_give_up(event)
        if self._context.policy.covers_db(event.db) and not is_foreign(event):
            self._context.external.note(event)
        self._target_progress.note(event, took_effect=reason is None)
        if reason is None:
            self._context.observer.event_applied(event.kind, time.perf_counter() - started)
        else:
            self._context.observer.event_skipped(event.kind, reason)
        return reason

    def _apply_joined(self, events: Sequence[Joinable]) -> bool:
        """Apply events together; return False if the target refuses that: each event then waits for its
        turn.
        """
        if self._dispatcher.apply_joined(join(events)):
            self._joiner.confirm(events)
            return True
        self._joiner.refuse(events)
        return False

    def _apply_or_give_up(self, event: Event) -> str | None:
        """Apply ``event``; fail it if the target fails repeatedly, and only at this event.

        A metastore whose database fails returns the same error as one that cannot process a single request.
        To distinguish them, replay repeats the event and then tries a write that every policy needs.
        """
        try:
            return self._dispatcher.apply(event)
        except ServerFault as fault:
            if not self._faults.record(event.event_id, self._clock()):
                raise
            self._context.target_position.check_writable()
            return self._dispatcher.give_up(event, fault)

    def _load_tables(self) -> None:
        """Load tables that an unknown transaction wrote into,
        or that an unreadable event may have changed.
        """
        names = self._transactions.take_tables_to_load()
        if names:
            source_db = self._context.policy.source_db
            tables = [table for table in names if self._context.in_scope(source_db, table)]
            self._loads.request(tables, "repair")

    def close(self) -> None:
        """Release the threads and connections other than replay's own."""
        self._ahead.close()
        self._transactions.lookahead.close()


@dataclass(slots=True)
class TargetFaults:
    """Consecutive internal errors of the target at one event, counted across restarts of the projection."""

    event_id: int = -1
    count: int = 0
    since_s: float = 0.0

    def record(self, event_id: int, now_s: float) -> bool:
        """Count an error at ``event_id``; return whether the event has failed often enough to quarantine its
        table.
        """
        if event_id != self.event_id:
            self.event_id, self.count, self.since_s = event_id, 0, now_s
        self.count += 1
        return self.count >= FAULTS_MIN and now_s - self.since_s >= FAULTS_S
