"""Replay of one batch of events: each is applied at its turn, alone, together with later ones, or ahead of its turn.

Effects on the target come first, and each is idempotent; then the event is passed (``position.progress``). What may not be repeated together is
recorded in between (``unrecorded_events``).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from handlers.events import DatabaseDropped, WriteIdsAllocated
from handlers.failpoints import failpoint
from handlers.replication.batch.joined_events import EventJoiner, join
from handlers.replication.batch.lanes import Lanes
from handlers.replication.batch.superseded_alters import find_superseded_alters
from handlers.replication.batch.target_faults import TargetFaults
from handlers.replication.batch.unrecorded_events import UnrecordedEvents, is_repeated_alone
from handlers.replication.batch.work_ahead import WorkAhead
from handlers.replication.dispatch import OUT_OF_SCOPE
from handlers.replication.observer import BatchOverlap
from handlers.replication.policy.renames import find_alterations, is_foreign, may_concern, needs_checkpoint
from handlers.replication.transactions.files.early_copies import select_lookahead_events
from state.errors import ServerFault
from state.positions import Step


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from handlers.events import Event
    from handlers.replication.batch.joined_events import Joinable
    from handlers.replication.batch.work_ahead import AppliedAhead
    from handlers.replication.context import Context
    from handlers.replication.dispatch import Dispatcher
    from handlers.replication.loading.follower import LoadFollower
    from handlers.replication.policy.renames import Alteration
    from handlers.replication.position.progress import RecordedPosition, TargetProgress


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
        """``beat`` is called after each applied event."""
        self._context = context
        self._dispatcher = dispatcher
        self._recorded = recorded
        self._target_progress = target_progress
        self._loads = loads
        self._clock = clock
        self._beat = beat
        self._joiner = EventJoiner(context)
        self._unrecorded = UnrecordedEvents()
        self._faults = TargetFaults()
        self._upcoming = 0
        """The event that is applied now, or was applied last."""
        self._ahead = WorkAhead(
            context,
            self._joiner,
            Lanes(context, context.lanes) if context.lanes else None,
            must_raise_before=target_progress.must_precede,
        )
        recorded.subscribe(self._follow_record)

    def _follow_record(self, event_id: int) -> None:
        self._unrecorded.clear()
        self._ahead.start_after(event_id, upcoming=self._upcoming)

    def apply(self, events: Sequence[Event]) -> None:
        """Apply ``events`` in order and make the new position durable, even if an error ends the batch early.

        Events up to the position are skipped. Nothing is copied early for events that the target already has, because their
        tables may have been renamed since.
        """
        policy, recorded = self._context.policy, self._recorded
        self._context.target_position.check(may_be_missing=self._drops_database(events))
        new = [event for event in events if event.event_id > recorded.reached and may_concern(event, policy)]
        overlapping = new if self._context.overlaps else ()
        merged, early = find_superseded_alters(new), select_lookahead_events(overlapping)
        files = self._dispatcher.transactions.files
        recorded.begin_batch()
        try:
            self._begin(overlapping, merged)
            files.start_early_copies(early)
            for event in events:
                if recorded.current.step(event.event_id, event.part) is not Step.DUPLICATE:
                    self.advance(event, merged=event.event_id in merged or self._joiner.is_done(event))
                    self._beat()
                    if isinstance(event, WriteIdsAllocated) and policy.covers(event.db, event.table):
                        files.start_early_copies(later for later in early if later.event_id > event.event_id)
            self._dispatcher.transactions.proofs.prove()
        finally:
            self._ahead.end()
            self._dispatcher.transactions.lookahead.end()
            self._report_overlap(len(new))
            recorded.record()
        if self._target_progress.is_due():
            self._target_progress.raise_position()

    def _report_overlap(self, events: int) -> None:
        if events:
            lookahead = self._dispatcher.transactions.lookahead.take_counts()
            self._context.observer.batch_replayed(BatchOverlap(events, self._ahead.take_counts(), lookahead))

    def _drops_database(self, events: Sequence[Event]) -> bool:
        """Whether the first event drops the database, so that a run which was killed after the drop left none."""
        first = next(iter(events), None)
        return isinstance(first, DatabaseDropped) and self._context.policy.covers_db(first.db)

    def _begin(self, new: Sequence[Event], merged: AbstractSet[int]) -> None:
        """Find out which of the new events are applied together, or ahead of their turn."""
        transactions = self._dispatcher.transactions
        marks = transactions.marks
        uncertain_up_to = max(marks.uncertain_event_id, self._recorded.on_target)
        self._joiner.begin(new, uncertain_up_to=uncertain_up_to)
        transactions.lookahead.begin(new, uncertain_up_to=uncertain_up_to)
        if new and new[0].event_id > marks.uncertain_event_id:
            self._ahead.begin(new, merged, unknown_txn_id=marks.unknown_txn_id)

    def advance(self, event: Event, *, merged: bool) -> None:
        """Apply the next event; record the position between two events that must not be repeated together (``unrecorded_events``)."""
        self._loads.prepare(event)
        concerns = event.event_id > self._recorded.on_target and may_concern(event, self._context.policy)
        self._upcoming = event.event_id
        ahead = self._ahead.take(event) if concerns and not merged else None
        applies = concerns and not merged and ahead is None
        joined = self._joiner.select(event) if applies else ()
        together = joined or (event,) if ahead is None else ahead.events
        altered = frozenset().union(*map(find_alterations, together if concerns else ()))
        if applies:
            self._record_between(event, altered)
        reason = self._apply_one(event, joined, ahead, merged=merged)
        if concerns and reason != OUT_OF_SCOPE:
            self._unrecorded.add(event, altered)
        self._load_unverified()
        event.forget_values()
        self._recorded.pass_event(event)
        is_unsaved = self._context.tables.quarantine.unsaved or self._context.tables.loads.unsaved
        if (concerns and is_repeated_alone(event)) or is_unsaved or self._recorded.is_due():
            self._recorded.record()

    def _record_between(self, event: Event, altered: AbstractSet[Alteration]) -> None:
        """Record the position before an event that must not be repeated together with those since the last record."""
        if needs_checkpoint(event) and self._target_progress.must_precede(event):
            self._target_progress.raise_position()
        elif self._unrecorded.must_precede(event, altered):
            self._recorded.record()

    def _load_unverified(self) -> None:
        """Load the tables that an unknown transaction wrote into, or that an unreadable event may have changed."""
        unverified = self._dispatcher.transactions.unverified
        if unverified:
            source_db = self._context.policy.source_db
            tables = [table for table in sorted(unverified) if self._context.in_scope(source_db, table)]
            unverified.clear()
            self._loads.request(tables, "repair")

    def _apply_one(
        self, event: Event, joined: Sequence[Joinable], ahead: AppliedAhead | None, *, merged: bool
    ) -> str | None:
        """Apply the event; return None if it took effect, otherwise the reason why it did not."""
        started = time.perf_counter()
        failpoint("replay.decoded")
        if event.event_id <= self._recorded.on_target:
            self._dispatcher.remember(event)
            reason: str | None = "on-target"
        elif merged:
            reason = "merged"
        elif ahead is not None:
            self._dispatcher.adopt(ahead.events, ahead.done.table)
            self._joiner.confirm(ahead.events)
            reason, started = None, time.perf_counter() - ahead.done.seconds
        elif joined and self._apply_joined(joined):
            reason = None
        else:
            reason = self._apply_or_give_up(event)
        observer = self._context.observer
        if self._context.policy.covers_db(event.db) and not is_foreign(event):
            self._context.external.note(event)
        self._target_progress.note(event, took_effect=reason is None)
        if reason is None:
            observer.event_applied(event.kind, time.perf_counter() - started)
        else:
            observer.event_skipped(event.kind, reason)
        return reason

    def _apply_joined(self, joined: Sequence[Joinable]) -> bool:
        """Apply events together; return whether that succeeded. Otherwise each is applied at its turn."""
        if self._dispatcher.apply_joined(join(joined)):
            self._joiner.confirm(joined)
            return True
        self._joiner.refuse(joined)
        return False

    def _apply_or_give_up(self, event: Event) -> str | None:
        """Apply ``event``; give it up if only this event makes the target fail, again and again.

        A metastore whose own database fails must not cost a table, so a write that every policy needs is tried first.
        """
        try:
            return self._dispatcher.apply(event)
        except ServerFault as fault:
            if not self._faults.record(event.event_id, self._clock()):
                raise
            self._context.target_position.check_writable()
            return self._dispatcher.give_up(event, fault)

    def close(self) -> None:
        """Release the threads and connections beside replay's own."""
        self._ahead.close()
        self._dispatcher.transactions.lookahead.close()
