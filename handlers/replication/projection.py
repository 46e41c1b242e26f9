"""The replication projection: one policy's reader of the topic, with position, write-id mapping and quarantine in a state file.

Effects on the target come first, and each is idempotent. Then position, write-id mapping and quarantine become durable in one
store transaction: every ``RECORD_EVENTS`` events or ``RECORD_S`` seconds, at the end of a batch, between events that must not be repeated
together (``unrecorded_events``), and as soon as a table is quarantined or released. The last is necessary because the next commit may raise
``repl.last.id`` past that event, and a restart would then take the event for applied.

The recorded position is never inside an event: the write parts of a commit are only kept in memory until the commit itself.
After a crash, or if the state file was lost, the target's ``repl.last.id`` may be ahead of the position. Events up to that id
are recorded in the write-id mapping and not applied again.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from handlers.events import DatabaseDropped, WriteIdsAllocated
from handlers.failpoints import failpoint
from handlers.replication.batch.joined_events import EventJoiner, join
from handlers.replication.batch.lanes import Lanes
from handlers.replication.batch.plan import find_superseded_alters, select_lookahead_events
from handlers.replication.batch.unrecorded_events import UnrecordedEvents, is_repeated_alone
from handlers.replication.batch.work_ahead import WorkAhead
from handlers.replication.claim.target_claim import TargetClaim
from handlers.replication.dispatch import OUT_OF_SCOPE, Dispatcher
from handlers.replication.effects import functions
from handlers.replication.entries.kept_entries import format_entries
from handlers.replication.entries.left_tables import drop_left, plan_drops
from handlers.replication.entries.unreplicated_tables import record_existing
from handlers.replication.loading.bootstrap import begin_bootstrap, is_pending
from handlers.replication.loading.bootstrap_run import BootstrapOptions, run_bootstrap
from handlers.replication.loading.follower import LoadFollower
from handlers.replication.loading.gap import (
    CrossedGap,
    list_tables_to_load,
    renew_database,
    require_gap,
)
from handlers.replication.loading.scope import follow_scope
from handlers.replication.operations.pause import Pause
from handlers.replication.operations.promotion import (
    Point,
    Promotion,
    find_promotion,
    plan_promotion,
    promote,
    require_not_promoted,
)
from handlers.replication.operations.retirement import require_active
from handlers.replication.renames import (
    find_alterations,
    is_foreign,
    may_concern,
    needs_checkpoint,
)
from handlers.replication.target_faults import TargetFaults
from handlers.replication.target_progress import TargetProgress
from handlers.replication.transactions.reconciliation import Reconciliation
from state.errors import ConfigError, ServerFault, TidelineError
from state.positions import POSITION_KEY, Position, Step
from state.table_failure import TableFailure


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from handlers.events import Event
    from handlers.replication.batch.joined_events import Joinable
    from handlers.replication.batch.work_ahead import AppliedAhead
    from handlers.replication.context import Context
    from handlers.replication.entries.left_tables import PlannedDrop
    from handlers.replication.renames import Alteration
    from state.store import Store


RECORD_EVENTS: Final = 100
RECORD_S: Final = 5.0
"""The position is recorded within a batch after so many events, or after the first event that ends so long after the last record. A
restart repeats at most these."""

APPLIED_TIME_KEY: Final = b"applied-time"
"""The time of the last applied event at the source, for the operator of a failover."""

UNKNOWN_TXNS_KEY: Final = b"unknown-txns-up-to"
"""Highest source transaction that may be open on the target although the mapping does not know it (the state file was lost)."""

UNCERTAIN_KEY: Final = b"uncertain-up-to"
"""The source's newest event when the policy was opened with a lost or old state: events up to it may be applied on the target."""

UNPROVEN_MAX: Final = 100
"""So many commits wait for their proof within a batch."""


class ReplicationProjection:
    """Follows one source for one policy. Used by one thread, except for ``quarantined``."""

    def __init__(
        self,
        *,
        source_name: str,
        context: Context,
        store: Store,
        bootstraps_itself: bool = False,
        bootstrap: BootstrapOptions | None = None,
        clock: Callable[[], float] = time.monotonic,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        """Follow for ``context.policy``; with ``bootstraps_itself``, ``open`` begins the bootstrap of a new policy.

        ``open`` continues an unfinished bootstrap in any case, with the options ``bootstrap``.

        ``beat`` is called after each applied event.
        """
        self._beat = beat
        self._unrecorded_events = 0
        self._unrecorded = UnrecordedEvents()
        self._upcoming = 0
        """The event that is applied now, or was applied last."""
        self._recorded_s = clock()
        self._source_name = source_name
        self._bootstraps_itself = bootstraps_itself
        self._bootstrap = bootstrap or BootstrapOptions()
        self._context = context
        self._store = store
        self._dispatcher = Dispatcher(context)
        self._joiner = EventJoiner(context)
        transactions = self._dispatcher.transactions
        transactions.record_before = self._record_before_end
        transactions.unproven_max = UNPROVEN_MAX
        self._target_progress = TargetProgress(
            context, prove=transactions.prove, record=self._record, clock=clock
        )
        self._ahead = WorkAhead(
            context,
            self._joiner,
            Lanes(context, context.lanes) if context.lanes else None,
            must_raise_before=self._target_progress.must_precede,
        )
        context.target_position.kept = lambda: format_entries(
            context.quarantine.entries(), context.loads.waiting(), context.left.entries()
        )
        self._claim = TargetClaim(context, store, source_name)
        self._reconciliation = Reconciliation(context, self._dispatcher.transactions, clock)
        self._position = Position(0)
        self._applied_time_s: int | None = None
        self._target_event_id = -1
        self._is_sound = False
        """Whether the last call to apply events or to settle succeeded."""
        self._faults = TargetFaults()
        self._clock = clock
        self.loads = LoadFollower(
            context,
            self._dispatcher.transactions.files,
            self._record,
            lambda: self._position.applied_event_id,
            beat,
        )
        """The loads of single tables; to be used between two batches."""
        self.pause = Pause(store)

    @property
    def name(self) -> str:
        """``replication:POLICY``."""
        return f"replication:{self._context.policy.name}"

    @property
    def source(self) -> str:
        """The name of the followed source."""
        return self._source_name

    def open(self) -> Position:
        """Load the state, claim the target, read its position, and return the position to continue from.

        Raises ConfigError if the policy was never bootstrapped, TargetDiverged or Fenced if the target is not as the state says
        (``target_claim``), and what ``bootstrap`` raises if the policy bootstraps itself.
        """
        context = self._context
        self._store.recover()
        require_active(self._store, context.policy)
        require_not_promoted(self._store, context.policy)
        context.table_cache.clear()
        self._dispatcher.transactions.files.cancel_all()
        self._dispatcher.transactions.lookahead.clear()
        context.load_state(self._store)
        self.loads.restart()
        stored = self._store.get(POSITION_KEY)
        if stored is None and context.target_position.read() is None:
            self._start_new_policy()
            stored = self._position.to_bytes()
        target = self._claim.open(state_lost=stored is None)
        self._target_event_id = -1 if target.last_id is None else target.last_id
        if stored is not None:
            self._position = Position.from_bytes(stored)
        else:
            self._start_without_state(self._target_event_id)
        if is_pending(self._store):
            run_bootstrap(context, self._store, self._bootstrap, self._beat)
            self._target_event_id = self._position.event_id
        self._survey_source()
        if target.outdated or stored is None or self._target_event_id > self._position.event_id:
            self._distrust_state()
        self._load_marks()
        follow_scope(context, self._store, self.loads)
        return self._position

    def _distrust_state(self) -> None:
        """Note up to which event an earlier process may have replayed more than the state and the target's position say.

        The target's position is never ahead of a state that is not older than it.
        """
        newest = self._context.source.current_event_id()
        with self._store.transaction() as txn:
            txn.put(UNCERTAIN_KEY, str(newest).encode())

    def _load_marks(self) -> None:
        """Tell the replay of transactions what the state does not know."""
        transactions = self._dispatcher.transactions
        transactions.unknown_up_to = self._load_number(UNKNOWN_TXNS_KEY)
        transactions.uncertain_up_to = self._load_number(UNCERTAIN_KEY)
        self._context.copied_ahead.unknown_up_to = transactions.uncertain_up_to
        reached = max(self._position.event_id, self._target_event_id)
        transactions.files.repeated_up_to = max(transactions.uncertain_up_to, reached + 1)

    def _load_number(self, key: bytes) -> int:
        stored = self._store.get(key)
        return -1 if stored is None else int(stored)

    def _survey_source(self) -> None:
        """Create the functions of before the first event, and list the tables without replication, once.

        A policy of an older version, or without its state file, has neither.
        """
        if self._store.get(functions.LOADED_KEY) is None:
            functions.load(self._position.event_id, self._context)
            record_existing(self._position.event_id, self._context)
            with self._store.transaction() as txn:
                self._context.unreplicated.flush(txn)
                txn.put(functions.LOADED_KEY, b"1")

    def _start_new_policy(self) -> None:
        context = self._context
        if not self._bootstraps_itself:
            raise ConfigError(
                "the policy was never bootstrapped",
                key=f"policies.{context.policy.name}",
                hint=f"Run 'tideline bootstrap {context.policy.name}' once, or set its 'bootstrap' to 'auto'.",
            )
        done = begin_bootstrap(
            source=context.source, target=context.target, policy=context.policy, store=self._store
        )
        self._position = Position(done.event_id)
        context.loads.load(self._store)

    def _start_without_state(self, on_target: int) -> None:
        """Continue from the target's own position. Transactions that are open there are not in the write-id mapping."""
        newest = self._context.source.newest_txn_id()
        self._position = Position(on_target)
        with self._store.transaction() as txn:
            txn.put(UNKNOWN_TXNS_KEY, str(newest).encode())
            txn.put(POSITION_KEY, self._position.to_bytes())

    def apply(self, events: Sequence[Event]) -> Position:
        """Apply ``events`` in order and make the new position durable, also if an error ends the batch early.

        Events up to the position are skipped. Nothing is copied early for events that the target already has, because their
        tables may have been renamed since.
        """
        policy = self._context.policy
        self._is_sound = False
        self._context.target_position.check(may_be_missing=self._drops_database(events))
        applied = max(self._target_event_id, self._position.applied_event_id)
        new = [event for event in events if event.event_id > applied and may_concern(event, policy)]
        merged, ahead = find_superseded_alters(new), select_lookahead_events(new)
        transactions = self._dispatcher.transactions
        files = transactions.files
        uncertain_up_to = max(transactions.uncertain_up_to, self._target_event_id)
        self._joiner.begin(new, uncertain_up_to=uncertain_up_to)
        transactions.lookahead.begin(new, uncertain_up_to=uncertain_up_to)
        self._recorded_s = self._clock()
        try:
            if new and new[0].event_id > transactions.uncertain_up_to:
                self._ahead.begin(new, merged, unknown_up_to=transactions.unknown_up_to)
            files.start_early_copies(ahead)
            for event in events:
                if self._position.step(event.event_id, event.part) is not Step.DUPLICATE:
                    self._advance(event, merged=event.event_id in merged or self._joiner.is_done(event))
                    self._beat()
                    if isinstance(event, WriteIdsAllocated) and policy.covers(event.db, event.table):
                        files.start_early_copies(later for later in ahead if later.event_id > event.event_id)
            self._dispatcher.transactions.prove()
        finally:
            self._ahead.end()
            self._record()
        if self._target_progress.is_due():
            self._target_progress.raise_to(self._position.applied_event_id)
        self._reconcile()
        self._is_sound = True
        return self._position

    def _reconcile(self) -> None:
        """Abort transactions that ended at the source without an event."""
        if self._reconciliation.run(self._position.applied_event_id):
            self._record()

    def _drops_database(self, events: Sequence[Event]) -> bool:
        """Whether the first event drops the database, so that a run which was killed after the drop left none."""
        first = next(iter(events), None)
        return isinstance(first, DatabaseDropped) and self._context.policy.covers_db(first.db)

    def _advance(self, event: Event, *, merged: bool) -> None:
        """Apply the next event; record the position between two events that must not be repeated together (``unrecorded_events``)."""
        self.loads.prepare(event)
        concerns = event.event_id > self._target_event_id and may_concern(event, self._context.policy)
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
        self._position = Position(event.event_id, event.part, event.parts)
        self._applied_time_s = event.time_s
        self._unrecorded_events += 1
        if (
            (concerns and is_repeated_alone(event))
            or self._context.quarantine.unsaved
            or self._context.loads.unsaved
            or self._is_record_due()
        ):
            self._record()

    def _record_between(self, event: Event, altered: AbstractSet[Alteration]) -> None:
        """Record the position before an event that must not be repeated together with those since the last record."""
        if needs_checkpoint(event) and self._target_progress.must_precede(event):
            self._target_progress.raise_to(self._position.applied_event_id)
        elif self._unrecorded.must_precede(event, altered):
            self._record()

    def _load_unverified(self) -> None:
        """Load the tables that an unknown transaction wrote into, or that an unreadable event may have changed."""
        unverified = self._dispatcher.transactions.unverified
        if unverified:
            tables = [
                table
                for table in sorted(unverified)
                if self._context.in_scope(self._context.policy.source_db, table)
            ]
            unverified.clear()
            self.loads.request(tables, "repair")

    def _is_record_due(self) -> bool:
        return self._unrecorded_events >= RECORD_EVENTS or self._clock() - self._recorded_s >= RECORD_S

    def _apply_one(
        self, event: Event, joined: Sequence[Joinable], ahead: AppliedAhead | None, *, merged: bool
    ) -> str | None:
        """Apply the event; return None if it took effect, otherwise the reason why it did not."""
        started = time.perf_counter()
        failpoint("replay.decoded")
        if event.event_id <= self._target_event_id:
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

    def _record(self) -> None:
        """Write position, write-id mapping and quarantine together; an event counts once all its parts are applied."""
        done = Position(self._position.applied_event_id)
        failpoint("replay.before-position")
        with self._store.transaction() as txn:
            self._context.flush_state(txn)
            self._claim.record(txn)
            txn.put(POSITION_KEY, done.to_bytes())
            if self._applied_time_s is not None:
                txn.put(APPLIED_TIME_KEY, str(self._applied_time_s).encode())
        self._unrecorded_events, self._recorded_s = 0, self._clock()
        self._unrecorded.clear()
        self._ahead.start_after(done.event_id, upcoming=self._upcoming)
        failpoint("replay.after-position")

    def _record_before_end(self, event_id: int) -> None:
        """Record that all events before the given one are applied, on the target too if that is due."""
        applied = self._position.applied_event_id
        assert applied < event_id, (applied, event_id)
        if self._target_progress.is_due():
            self._target_progress.raise_to(applied)
        else:
            self._record()

    def settle(self) -> None:
        """Raise the target's ``repl.last.id`` to the position; called when there is nothing to apply (``target_progress``)."""
        self._is_sound = False
        if self._target_progress.is_due_at_rest():
            self._target_progress.raise_to(self._position.applied_event_id)
        self._reconcile()
        self._is_sound = True

    def cross_gap(self) -> CrossedGap:
        """Skip the events of a gap, and make all tables wait for a load instead (``loading.gap``); must not be called while following.

        Raises InvalidRequest if the next event can be read from the source's log.
        """
        context, after = self._context, self._position.applied_event_id
        require_gap(context, after)
        upto = context.source.current_event_id()  # step 1
        renew_database(context)  # step 2
        tables = list_tables_to_load(context)
        functions.load(upto, context)
        self._position = Position(upto)
        self.loads.request(tables, "gap")  # step 3
        context.target_position.advance(upto)
        return CrossedGap(after, upto, tables)

    def plan_prune(self, tables: Sequence[str]) -> Sequence[PlannedDrop]:
        """Return what ``prune`` would drop; all tables that left the policy if none is named."""
        return plan_drops(tables, self._context)

    def prune(self, tables: Sequence[str]) -> Sequence[str]:
        """Drop tables on the target that left the policy (``left_tables``); must be called between two batches."""
        return drop_left(tables, self._context, self._record)

    def find_promotion(self) -> Promotion | None:
        """Return the promotion of the policy if it was begun or done."""
        return find_promotion(self._store)

    def require_not_promoted(self) -> None:
        """Raise ConfigError if the policy was promoted."""
        require_not_promoted(self._store, self._context.policy)

    def plan_promotion(self) -> Promotion:
        """Return what ``promote`` would do."""
        self._load_unless_claimed()
        return plan_promotion(self._context, self._store, self._find_point())

    def promote(self, *, forced: bool) -> Promotion:
        """End replication and hand the database over (``promotion``); must be called between two batches, and while no load runs.

        The projection need not be open, because the source may be gone. It is not followed afterwards.
        """
        self._load_unless_claimed()
        if find_promotion(self._store) is None:
            if not forced:
                self._dispatcher.transactions.prove()
            self._dispatcher.transactions.files.discard_all()
        return promote(self._context, self._store, self._find_point(), forced=forced)

    def _find_point(self) -> Point:
        time_s = self._store.get(APPLIED_TIME_KEY)
        known = self._applied_time_s if time_s is None else int(time_s)
        return Point(max(self._position.applied_event_id, self._target_event_id), known)

    def _load_unless_claimed(self) -> None:
        """Read the state if this process has not opened the policy; raise Fenced if another instance holds the target."""
        context = self._context
        stored = self._store.get(POSITION_KEY)
        if stored is None:
            raise ConfigError(
                "the policy was never bootstrapped with this state", key=f"policies.{context.policy.name}"
            )
        if context.target_position.stamp:
            return
        self._store.recover()
        context.load_state(self._store)
        self._position = Position.from_bytes(stored)
        if find_promotion(self._store) is None:
            self._target_event_id = self._claim.require_own()

    def forget_claim(self) -> None:
        """Let the next ``open`` examine and claim the target as after a restart, on an operator's request; must not be called while following.

        Otherwise a process that another one fenced never writes again. No load may run.
        """
        self._dispatcher.transactions.files.cancel_all()
        self._is_sound = False
        self._context.target_position.stamp = {}

    def quarantined(self) -> Sequence[str]:
        """Return the quarantined tables as ``db.table``, sorted by name; safe to call from another thread."""
        db = self._context.policy.source_db
        return tuple(f"{db}.{entry.table}" for entry in self._context.quarantine.entries())

    def failures(self) -> Sequence[TableFailure]:
        """Return why each quarantined table is quarantined; safe to call from another thread."""
        db = self._context.policy.source_db
        return tuple(
            TableFailure(
                f"{db}.{entry.table}", entry.event_id, entry.time_s or None, entry.code, entry.reason
            )
            for entry in self._context.quarantine.entries()
        )

    def close(self) -> None:
        """Raise the target's position if the policy did not fail or hand the database over, then release connections, copies and the store."""
        if self._is_sound and find_promotion(self._store) is None:
            with suppress(TidelineError):
                self.settle()
        self._dispatcher.transactions.files.cancel_all()
        self._ahead.close()
        self._context.source.close()
        self._context.target_position.close()
        self._context.target.close()
        self._context.copies.close()
        self._store.close()
