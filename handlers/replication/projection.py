"""The replication projection: one policy's reader of the topic.

It puts the parts together for the daemon's loop and the operator's requests: ``opening`` finds the position
to continue from, ``batch.batch_replay`` applies events, and ``position.progress`` makes the applied events
durable and writes their position to the target. Requests of an operator run between two batches, in the same
thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from handlers.events import Event
from handlers.failures import TableFailure
from handlers.replication.batch.batch_replay import BatchReplay
from handlers.replication.context import Context
from handlers.replication.dispatch import Dispatcher
from handlers.replication.loading.bootstrap import BootstrapRequest, is_pending, store_request
from handlers.replication.loading.bootstrap_run import BootstrapOptions
from handlers.replication.loading.follower import LoadFollower
from handlers.replication.loading.gap import CrossedGap, cross_gap
from handlers.replication.opening import Opening
from handlers.replication.operations.promotion import (
    Point,
    Promotion,
    find_promotion,
    plan_promotion,
    promote,
    promoted_policy,
    read_promotion,
    require_not_promoted,
)
from handlers.replication.operations.pruning import PlannedDrop, drop_left, plan_drops
from handlers.replication.operations.retirement import Retirement, is_retired, require_not_retired, retire
from handlers.replication.position.progress import RecordedPosition, TargetProgress
from handlers.replication.position.target_claim import TargetClaim
from handlers.replication.tables.pause import Pause
from handlers.replication.target.fencing import RETIRED, retired_policy
from handlers.replication.transactions.reconciliation import Reconciliation
from handlers.replication.transactions.target_write_ids import CommitProofs
from handlers.routing import Interest
from state.errors import ConfigError, InvalidRequest, TidelineError
from state.event_log.positions import POSITION_KEY, Position
from state.store import Store


UNPROVEN_MAX: Final = 100
"""Commits that may wait for their proof within a batch."""
CHECK_AT_REST_S: Final = 60.0
"""How often to check the target while nothing takes effect, less often with many policies. A check is one
call.
"""


class ReplicationProjection:
    """Follows one source for one policy. Used by one thread, except for ``quarantined`` and ``failures``."""

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
        """Follow for ``context.policy``;
        with ``bootstraps_itself``, ``open`` begins the bootstrap of a new policy.

        ``open`` continues an unfinished bootstrap in any case, with the options ``bootstrap``.

        Calls ``beat`` after each applied event.
        """
        self._source_name = source_name
        self._context = context
        self._store = store
        self._claim = TargetClaim(context, store, source_name)
        self._recorded = recorded = RecordedPosition(context, store, self._claim, clock)
        proofs = CommitProofs(context, waiting_max=UNPROVEN_MAX)
        self._target_progress = TargetProgress(context, recorded=recorded, prove=proofs.prove, clock=clock)
        dispatcher = Dispatcher(context, proofs, record_before=self._target_progress.record_before)
        self._transactions = dispatcher.transactions
        self.loads = LoadFollower(
            context, self._transactions.files, recorded.record, lambda: recorded.applied, beat
        )
        """The loads of single tables; to be used between two batches."""
        self._opening = Opening(
            context=context,
            store=store,
            claim=self._claim,
            recorded=recorded,
            transactions=self._transactions,
            loads=self.loads,
            options=bootstrap or BootstrapOptions(),
            bootstraps_itself=bootstraps_itself,
            beat=beat,
        )
        self._replay = BatchReplay(
            context,
            dispatcher,
            recorded=recorded,
            target_progress=self._target_progress,
            loads=self.loads,
            clock=clock,
            beat=beat,
        )
        self._reconciliation = Reconciliation(context, self._transactions, clock)
        self._is_sound = False
        """Whether the last call to apply events or to settle succeeded."""
        self._is_retired_on_target = False
        self._promotion_on_target: Promotion | None = None
        self._clock, self._checked_s = clock, clock()
        self.pause = Pause(store)
        context.idle.join()

    @property
    def name(self) -> str:
        """``replication:POLICY``."""
        return f"replication:{self._context.policy.name}"

    @property
    def source(self) -> str:
        """The name of the followed source."""
        return self._source_name

    @property
    def position(self) -> Position:
        """The last part of the last event applied."""
        return self._recorded.current

    def recover(self) -> None:
        """Open the state file again if it has failed, before anything reads it;
        raise FilesUnavailable while the cause lasts.
        """
        self._store.recover()

    def read_state(self) -> Position | None:
        """Read the state as it is stored, without contacting a metastore;
        return the position, None if there is no state yet.

        Status and requests need it while opening the policy fails. Must not be called while following.
        """
        self.recover()
        self._context.tables.load(self._store)
        stored = self._store.get(POSITION_KEY)
        if stored is None:
            return None
        self._recorded.resume(Position.from_bytes(stored), on_target=self._recorded.on_target)
        return self.position

    def find_time_s(self) -> int | None:
        """Return the time of the last applied event at the source (Unix time) if it is known."""
        return self._recorded.find_time_s()

    def require_state(self) -> None:
        """Raise ConfigError if the state has no position."""
        if self._store.get(POSITION_KEY) is None:
            name = self._context.policy.name
            raise ConfigError(
                "the state directory has no position of this policy",
                key=f"policies.{name}",
                hint=f"Check state.dir, and run 'tideline bootstrap {name}' if the policy is new.",
            )

    def needs_bootstrap(self) -> bool:
        """Whether ``open`` would bootstrap the policy; raise the error of a call to the target."""
        return self._opening.needs_bootstrap()

    def awaits_request(self) -> bool:
        """Whether the policy is new, and an operator has to request its bootstrap; raise the error of a call
        to the target.
        """
        return self._opening.awaits_request()

    def find_missing_action(self) -> str | None:
        """Return the action of an operator without which the policy does nothing, as a sentence with its
        command; None if there is none, or if the target does not answer.
        """
        name = self._context.policy.name
        if self.pause.since_s() is not None:
            return f"The policy is paused: run 'tideline resume {name}'."
        with suppress(TidelineError):
            if self.awaits_request():
                return f"The policy waits for its bootstrap: run 'tideline bootstrap {name}'."
        return None

    def request_bootstrap(self, request: BootstrapRequest) -> BootstrapRequest:
        """Make the next ``open`` bootstrap a new policy; raise InvalidRequest if it has a replica, or is
        paused.
        """
        name = self._context.policy.name
        if not is_pending(self._store) and not self._opening.is_new():
            raise InvalidRequest(
                "the policy is already bootstrapped",
                policy=name,
                hint="To start over, see docs/guides/policies.md#bootstrapping-a-policy-again.",
            )
        if self.pause.since_s() is not None:
            raise InvalidRequest(
                "the policy is paused", policy=name, hint=f"Run 'tideline resume {name}' first."
            )
        store_request(request, self._store)
        return request

    def open(self) -> Position:
        """Open the policy, or open it again after an error; return the position to continue from. Raises the
        errors of ``Opening.open``.
        """
        self._opening.open()
        # Not checked at once: the next event may drop the database, and a killed process may have done so
        # already.
        self._checked_s = self._clock()
        return self.position

    def apply(self, events: Sequence[Event]) -> Position:
        """Apply ``events`` in order, and abort transactions that ended without one; return the new position.

        Every effect is durable, even if an error ends the batch early; so is the position, unless it has only
        passed events without effect since the last record (``position.progress``). Skips events up to the
        position.
        """
        self._is_sound = False
        if self._replay.apply(events):
            self._checked_s = self._clock()
        self._check_at_rest()
        self.loads.load_unlogged()
        self._reconcile()
        self._is_sound = True
        return self.position

    def _reconcile(self) -> None:
        """Abort transactions that ended at the source without an event."""
        if self._reconciliation.run(self._recorded.applied):
            self._recorded.record()

    @property
    def interest(self) -> Interest:
        """The events that the policy must receive; known after ``open``."""
        return Interest(frozenset({self._context.policy.source_db}), self._transactions.marks.unknown_txn_id)

    def skip(self, position: Position, time_s: int) -> None:
        """Continue after ``position``; the events up to it that were not passed to ``apply`` are not in
        ``interest``.
        """
        self._recorded.skip(position, time_s)

    def settle(self) -> None:
        """Raise the target's ``repl.last.id`` to the position;
        called when there is nothing to apply (``position.progress``).

        From time to time, this also checks the target, so that a dropped database, or one that another
        instance took over, is reported before the next event.
        """
        self._is_sound = False
        if self._target_progress.is_due_at_rest():
            self._target_progress.raise_position()
        if self._recorded.is_due():
            self._recorded.record()
        self._check_at_rest()
        self._reconcile()
        self._is_sound = True

    def begin_pause(self, reason: str = "") -> int:
        """Pause the policy, and return since when it pauses; must be called between two batches.

        The target gets the pause and the position if it answers: while the policy is paused, nothing else
        writes them.
        """
        since_s = self.pause.begin(reason)
        if self._is_sound:
            with suppress(TidelineError):
                self._target_progress.raise_now()
        return since_s

    def _check_at_rest(self) -> None:
        """Check the target from time to time; the policies of a target take turns."""
        turns, now_s = self._context.idle.checks, self._clock()
        if turns.may_take(now_s, self._checked_s, interval_s=CHECK_AT_REST_S):
            self._context.target_position.check()
            turns.take(now_s)
            self._checked_s = self._clock()

    def cross_gap(self) -> CrossedGap:
        """Skip the events of a gap, and make all tables wait for a load instead (``loading.gap``);
        must not be called while following.

        Raises InvalidRequest if the next event can be read from the source's log.
        """
        return cross_gap(self._context, self._recorded, self.loads)

    def plan_prune(self, tables: Sequence[str]) -> Sequence[PlannedDrop]:
        """Return the plan of ``prune``; without names, for all tables that left the policy."""
        return plan_drops(tables, self._context)

    def prune(self, tables: Sequence[str]) -> Sequence[str]:
        """Drop tables on the target that left the policy (``LeftTables``);
        must be called between two batches.

        Raises Fenced if the policy is not open here, and another instance holds the target.
        """
        if not self._context.target_position.stamp:
            self._claim.require_own()
        return drop_left(tables, self._context, self._recorded.record)

    def find_promotion(self) -> Promotion | None:
        """Return the promotion of the policy if it has begun or ended."""
        return find_promotion(self._store) or self._promotion_on_target

    def plan_promotion(self) -> Promotion:
        """Return the plan of ``promote``."""
        if self._promotion_on_target is not None:
            return self._promotion_on_target
        self._load_unless_claimed()
        return plan_promotion(self._context, self._store, self._find_point())

    def promote(self, *, forced: bool) -> Promotion:
        """End replication and hand the database over (``promotion``);
        must be called between two batches, and while no load runs.

        The projection need not be open, because the source may be gone. It is not followed afterwards.
        """
        if self._promotion_on_target is not None:
            return self._promotion_on_target
        self._load_unless_claimed()
        if find_promotion(self._store) is None:
            if not forced:
                self._transactions.proofs.prove()
            self._transactions.files.discard_all()
        return promote(self._context, self._store, self._find_point(), forced=forced)

    @property
    def has_ended(self) -> bool:
        """Whether an operator has promoted or retired the policy: it is not followed."""
        return self.find_promotion() is not None or is_retired(self._store) or self._is_retired_on_target

    def look_for_end(self) -> None:
        """Check on the target whether the policy ended while another daemon followed it, or before the
        state file was lost; raise the error of the call.
        """
        parameters = self._context.target_position.find_parameters() or {}
        self._is_retired_on_target = parameters.get(RETIRED) == self._context.policy.name
        self._promotion_on_target = read_promotion(parameters, self._context.policy)

    def require_active(self) -> None:
        """Raise ConfigError if the policy was promoted or retired."""
        require_not_promoted(self._store, self._context.policy)
        require_not_retired(self._store, self._context.policy)
        if self._promotion_on_target is not None:
            raise promoted_policy(self._context.policy.name)
        if self._is_retired_on_target:
            raise retired_policy(self._context.policy.name)

    def retire(self) -> Retirement:
        """End replication and leave the replica as it is (``retirement``);
        must be called between two batches, and while no load runs.

        The projection need not be open. It is not followed afterwards.
        """
        if not self._is_retired_on_target:
            self.require_state()
        if not self._context.target_position.stamp:
            self.read_state()
        self._transactions.files.cancel_all()
        return retire(self._context, self._store)

    def _find_point(self) -> Point:
        return Point(self._recorded.reached, self._recorded.find_time_s())

    def _load_unless_claimed(self) -> None:
        """Read the state if this process has not opened the policy;
        raise Fenced if another instance holds the target.
        """
        self.require_state()
        if self._context.target_position.stamp:
            return
        self.read_state()
        if find_promotion(self._store) is None:
            self._recorded.resume(self.position, on_target=self._claim.require_own())

    def forget_claim(self) -> None:
        """Make the next ``open`` examine and claim the target as after a restart, on an operator's request.
        Otherwise a process that another one fenced would never write again. Must not be called while
        following, or while a load runs.
        """
        self._transactions.files.cancel_all()
        self._is_sound = False
        self._context.target_position.forget_claim()

    def quarantined(self) -> Sequence[str]:
        """Return the quarantined tables as ``db.table``, sorted by name; safe to call from another thread."""
        db = self._context.policy.source_db
        return tuple(f"{db}.{entry.table}" for entry in self._context.tables.quarantine.entries())

    def failures(self) -> Sequence[TableFailure]:
        """Return why each quarantined table is quarantined; safe to call from another thread."""
        db = self._context.policy.source_db
        return tuple(
            TableFailure(
                f"{db}.{entry.table}", entry.event_id, entry.time_s or None, entry.code, entry.reason
            )
            for entry in self._context.tables.quarantine.entries()
        )

    def close(self) -> None:
        """Raise the target's position if the policy did not fail or hand the database over,
        then release connections, copies and the store.
        """
        if self._is_sound and find_promotion(self._store) is None:
            with suppress(TidelineError):
                self.settle()
                self._target_progress.raise_now()
                self._recorded.record_rest()
        self._target_progress.close()
        self._context.idle.leave()
        self._transactions.files.cancel_all()
        self._replay.close()
        self._context.source.close()
        self._context.target_position.close()
        self._context.target.close()
        self._context.copies.close()
        self._store.close()
