"""The replication projection: one policy's reader of the topic, with its position, write-id mapping and quarantine in one state file.

Effects on the target come first, each idempotent; then position, write-id mapping and quarantine become durable in one store
transaction: at the end of a batch, around events that change names (``names``), and as soon as a table is confined or released,
because ``repl.last.id`` may pass that event with the next commit and would hide it from a restart.

The position never stands inside an event: the write parts of a commit are only remembered until the commit itself. The target's
``repl.last.id`` may be ahead of the position after a crash, or when the state file was lost: events up to it are remembered in
the write-id mapping, and not applied again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from handlers.events import WriteIdsAllocated
from handlers.failpoints import failpoint
from handlers.replication.batch_plan import find_superseded_alters, select_lookahead_events
from handlers.replication.bootstrap import bootstrap
from handlers.replication.dispatch import Dispatcher
from handlers.replication.renames import may_concern, needs_checkpoint
from state.errors import ConfigError, ServerFault
from state.positions import POSITION_KEY, Position, Step


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.events import Event
    from handlers.replication.context import Context
    from state.store import Store


FAULTS_MAX: Final = 3
"""How often the target's metastore may answer one event with an internal error before its table is confined."""


UNKNOWN_TXNS_KEY: Final = b"unknown-txns-up-to"
"""Highest source transaction that may be open on the target without being in the write-id mapping (its state file was lost)."""


@dataclass(slots=True)
class _Faults:
    """Internal errors of the target at one event, counted across restarts of the projection."""

    event_id: int = -1
    count: int = 0

    def again(self, event_id: int) -> int:
        """Count one more for ``event_id`` and return how many there were in a row."""
        self.count = self.count + 1 if event_id == self.event_id else 1
        self.event_id = event_id
        return self.count


class ReplicationProjection:
    """Follows one source for one policy; used by one thread, but for ``quarantined``."""

    def __init__(
        self, *, source_name: str, context: Context, store: Store, bootstraps_itself: bool = False
    ) -> None:
        """Follow for ``context.policy``; with ``bootstraps_itself`` a policy that is new is bootstrapped when it is opened."""
        self._source_name = source_name
        self._bootstraps_itself = bootstraps_itself
        self._context = context
        self._store = store
        self._dispatcher = Dispatcher(context)
        self._position = Position(0)
        self._target_event_id = -1
        self._faults = _Faults()

    @property
    def name(self) -> str:
        """``replication:POLICY``."""
        return f"replication:{self._context.policy.name}"

    @property
    def source(self) -> str:
        """The name of the source that it follows."""
        return self._source_name

    def open(self) -> Position:
        """Load the state, ask the target how far it is, and return where to go on.

        Raises ConfigError where the policy was never bootstrapped, TargetDiverged where Hive calls the replica incompatible,
        and what ``bootstrap`` raises where the policy starts itself.
        """
        context = self._context
        context.table_cache.clear()
        self._dispatcher.transactions.files.cancel_all()
        context.quarantine.load(self._store)
        context.write_ids.load(self._store)
        on_target = context.target_position.read()
        self._target_event_id = -1 if on_target is None else on_target
        stored = self._store.get(POSITION_KEY)
        if stored is not None:
            self._position = Position.from_bytes(stored)
        elif on_target is not None:
            self._start_without_state(on_target)
        else:
            self._start_new_policy()
        unknown = self._store.get(UNKNOWN_TXNS_KEY)
        self._dispatcher.transactions.unknown_up_to = int(unknown) if unknown is not None else -1
        return self._position

    def _start_new_policy(self) -> None:
        context = self._context
        if not self._bootstraps_itself:
            raise ConfigError(
                "the policy was never bootstrapped",
                key=f"policies.{context.policy.name}",
                hint=f"Run 'tideline bootstrap {context.policy.name}' once, or set its 'bootstrap' to 'auto'.",
            )
        done = bootstrap(
            source=context.source, target=context.target, policy=context.policy, store=self._store
        )
        self._position = Position(done.event_id)

    def _start_without_state(self, on_target: int) -> None:
        """Go on from the target's own position; transactions that are open there now are not in the write-id mapping."""
        newest = self._context.source.newest_txn_id()
        self._position = Position(on_target)
        with self._store.transaction() as txn:
            txn.put(UNKNOWN_TXNS_KEY, str(newest).encode())
            txn.put(POSITION_KEY, self._position.to_bytes())

    def apply(self, events: Sequence[Event]) -> Position:
        """Apply ``events`` in order and make the new position durable; what was applied before an error is recorded too.

        An event at or before the position is passed over. Nothing is copied ahead for events that the target has already:
        their tables may have changed names since.
        """
        policy = self._context.policy
        done = max(self._target_event_id, self._position.applied_event_id)
        concerned = [event for event in events if event.event_id > done and may_concern(event, policy)]
        merged, ahead = find_superseded_alters(concerned), select_lookahead_events(concerned)
        writes = self._dispatcher.transactions.files
        try:
            writes.start_early_copies(ahead)
            for event in events:
                if self._position.step(event.event_id, event.part) is not Step.DUPLICATE:
                    self._advance(event, merged=event.event_id in merged)
                    if isinstance(event, WriteIdsAllocated) and policy.covers(event.db, event.table):
                        writes.start_early_copies(later for later in ahead if later.event_id > event.event_id)
        finally:
            self._record()
        return self._position

    def _advance(self, event: Event, *, merged: bool) -> None:
        """Apply the next event; record the position around it where it could not be repeated later."""
        checkpoint = (
            event.event_id > self._target_event_id
            and may_concern(event, self._context.policy)
            and needs_checkpoint(event)
        )
        if checkpoint:
            self._record()
        self._apply_one(event, merged=merged)
        self._position = Position(event.event_id, event.part, event.parts)
        if checkpoint or self._context.quarantine.unsaved:
            self._record()

    def _apply_one(self, event: Event, *, merged: bool) -> None:
        started = time.perf_counter()
        failpoint("replay.decoded")
        if event.event_id <= self._target_event_id:
            self._dispatcher.remember(event)
            reason: str | None = "on-target"
        elif merged:
            reason = "merged"
        else:
            reason = self._apply_or_give_up(event)
        observer = self._context.observer
        if reason is None:
            observer.event_applied(event.kind, time.perf_counter() - started)
        else:
            observer.event_skipped(event.kind, reason)

    def _apply_or_give_up(self, event: Event) -> str | None:
        """Apply ``event``; an internal error of the target that does not pass confines what it is about."""
        try:
            return self._dispatcher.apply(event)
        except ServerFault as fault:
            if self._faults.again(event.event_id) < FAULTS_MAX:
                raise
            return self._dispatcher.give_up(event, fault)

    def _record(self) -> None:
        """Write position, write-id mapping and quarantine together; an event of which parts are missing is not counted."""
        done = Position(self._position.applied_event_id)
        failpoint("replay.before-position")
        with self._store.transaction() as txn:
            self._context.write_ids.flush(txn)
            self._context.quarantine.flush(txn)
            txn.put(POSITION_KEY, done.to_bytes())
        failpoint("replay.after-position")

    def settle(self) -> None:
        """Raise the target's ``repl.last.id`` to the position: called when there is nothing to apply.

        During a stream of commits it trails by one event; at rest a reader of the target sees how far the replica is.
        """
        self._context.target_position.advance(self._position.applied_event_id)

    def quarantined(self) -> Sequence[str]:
        """Return the confined tables as ``db.table``, by name; safe to call from another thread."""
        db = self._context.policy.source_db
        return tuple(f"{db}.{confinement.table}" for confinement in self._context.quarantine.entries())

    def close(self) -> None:
        """Release connections, copies and the store."""
        self._dispatcher.transactions.files.cancel_all()
        self._context.source.close()
        self._context.target.close()
        self._context.copies.close()
        self._store.close()
