"""How far one policy is: the position in its state,
which a restart continues from, and ``repl.last.id`` of the target database.

Position, write-id mapping and entries of single tables become durable in one store transaction: every
``RECORD_EVENTS`` events or ``RECORD_S`` seconds, at the end of a batch that may have had an effect, between
events that must not be repeated together (``batch.record_points``), before every end of a transaction, and as
soon as a table is quarantined or released. The last is necessary because the next commit may raise
``repl.last.id`` past that event, and a restart would then consider the event applied. The recorded position
is never inside an event: the write parts of a commit stay in memory until the commit itself.

Most events of a source with many databases can have no effect here (``Dispatcher.may_take_effect``,
``handlers.routing``). Such events change nothing in the state but the position, which is then recorded after
``RECORD_S`` or with the next effect, or less often with many policies (``idle_turns``). A run killed before
reads these events again, and they have no effect again: the state that decides about them is the recorded
one.

The target's own position need not be written each time: a run that has its state does not need it. Replay
writes it

* at the first end of a transaction or of a batch, and then at the next such end that is ``TARGET_LAG_S``
  after the last write. If many policies of the target have something to write, each waits for its turn
  (``idle_turns``): otherwise, with a transaction now and then in each of hundreds of policies, every
  transaction would cost two calls more;
* before the end of a transaction, if entries of tables (the quarantine, waiting loads) are not on the target
  yet;
* before an event that creates, drops or renames a table, if an event since the last write concerns a table of
  that name. A run that lost its state repeats the events since, and would mistake one table for the other;
* when there is nothing to apply, in such a turn, and every ``TARGET_POSITION_S`` if no event concerns the
  policy, or less often with many policies (``idle_turns``);
* before a pause, and when the policy is closed.

Before each write, replay records the state, so that the target is never ahead of it, and proves all commits.
Work that a run without its state repeats has therefore either been proven, or is examined again
(``OpeningMarks``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from handlers.events import Event
from handlers.failpoints import failpoint
from handlers.replication.context import Context
from handlers.replication.policy.renames import depends_on, find_names
from handlers.replication.position.target_claim import TargetClaim
from state.event_log.positions import POSITION_KEY, Position
from state.store import Store


RECORD_EVENTS: Final = 100
RECORD_S: Final = 5.0
"""The position is recorded within a batch after this number of events with an effect, or after the first
event that ends so long after the last record. A restart repeats at most these, and reads those without effect
again."""

APPLIED_TIME_KEY: Final = b"applied-time"
"""The time of the last applied event at the source, for the operator of a failover."""


class RecordedPosition:
    """Moves on with each event, and becomes durable from time to time. Used by the projection's thread."""

    def __init__(
        self, context: Context, store: Store, claim: TargetClaim, clock: Callable[[], float]
    ) -> None:
        self._context = context
        self._store = store
        self._claim = claim
        self._clock = clock
        self._time_s: int | None = None
        self._unrecorded_effects = 0
        self._is_behind = False
        """Whether an event was passed since the last record."""
        self._recorded_s = self._begun_s = clock()
        """Since when events without effect, and those with one, may be unrecorded."""
        self.current = Position(0)
        self.on_target = -1
        """The target's ``repl.last.id`` when the policy was opened; events up to it are not applied again."""
        self._subscribers: list[Callable[[int], None]] = []

    def resume(self, position: Position, *, on_target: int) -> None:
        """Continue from ``position``; events up to ``on_target`` are on the target already."""
        self.current, self.on_target = position, on_target
        self._time_s, self._unrecorded_effects, self._is_behind = None, 0, False

    def subscribe(self, notify: Callable[[int], None]) -> None:
        """Call ``notify`` after each record with the last event that it says is applied."""
        self._subscribers.append(notify)

    @property
    def applied(self) -> int:
        """The last event whose parts are all applied."""
        return self.current.applied_event_id

    @property
    def reached(self) -> int:
        """The last event applied here or on the target."""
        return max(self.applied, self.on_target)

    def find_time_s(self) -> int | None:
        """Return the time of the last applied event at the source (Unix time) if it is known."""
        if self._time_s is not None:
            return self._time_s
        stored = self._store.get(APPLIED_TIME_KEY)
        return None if stored is None else int(stored)

    def to_parameters(self) -> dict[str, str]:
        """Return the parameters that the target keeps (``PolicyTables.to_parameters``)."""
        return self._context.tables.to_parameters(self._store)

    def begin_batch(self) -> None:
        """Measure ``RECORD_S`` from now on, unless the events of an earlier batch are not recorded yet.

        Events without effect that the policy passed long ago do not count: they would make the record of the
        next effect due at once, and with hundreds of policies each transaction would cost a further commit of
        the state.
        """
        if not self._is_behind:
            self._recorded_s = self._clock()
        if not self._unrecorded_effects:
            self._begun_s = self._clock()

    def pass_event(self, event: Event, *, took_effect: bool) -> None:
        """Note that ``event`` is applied, or had no effect."""
        self.current = Position(event.event_id, event.part, event.parts)
        self._time_s = event.time_s
        self._unrecorded_effects += took_effect
        self._is_behind = True

    def skip(self, position: Position, time_s: int) -> None:
        """Move on to ``position``: events up to it that were not passed to replay do not concern the
        policy.
        """
        self.begin_batch()
        self.current, self._time_s, self._is_behind = position, time_s, True

    def is_due(self) -> bool:
        """Whether enough events were applied, or enough time has passed, since the last record."""
        if not self._unrecorded_effects:
            return self._is_behind and self._context.idle.records.may_take(
                self._clock(), self._recorded_s, interval_s=RECORD_S
            )
        is_late = self._clock() - self._begun_s >= RECORD_S
        return is_late or self._unrecorded_effects >= RECORD_EVENTS

    def record_rest(self) -> None:
        """Record the events without effect passed since the last record, if there are any."""
        if self._is_behind:
            self.record()

    def record(self) -> None:
        """Write position, write-id mapping and entries together; an event counts with its last part."""
        done = Position(self.applied)
        if not self._unrecorded_effects and self._clock() - self._recorded_s >= RECORD_S:
            self._context.idle.records.take(self._clock())
        failpoint("replay.before-position")
        with self._store.transaction() as txn:
            self._context.tables.flush(txn)
            self._claim.record(txn)
            txn.put(POSITION_KEY, done.to_bytes())
            if self._time_s is not None:
                txn.put(APPLIED_TIME_KEY, str(self._time_s).encode())
        self._unrecorded_effects, self._is_behind = 0, False
        self._recorded_s = self._begun_s = self._clock()
        for notify in self._subscribers:
            notify(done.event_id)
        failpoint("replay.after-position")


TARGET_LAG_S: Final = 1.0
"""How long the target's position may lag during replay; longer if other policies take their turns first."""

TARGET_POSITION_S: Final = 60.0
"""After this time without an event that concerns the policy, replay raises the target's ``repl.last.id``.
Otherwise the position of a quiet database would become older than the source's log, and a replica without its
state file could not continue from it.
"""


class TargetProgress:
    """Raises the target's position for one policy. Used by the projection's thread."""

    def __init__(
        self,
        context: Context,
        *,
        recorded: RecordedPosition,
        prove: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        """``prove`` proves the commits sent."""
        self._context = context
        self._recorded = recorded
        self._prove = prove
        self._clock = clock
        self._raised_s = clock()
        self._took_effect = True
        """Whether an event may have taken effect since the target's position was raised."""
        self._touched: set[str] = set()
        """The tables that these events concern."""
        context.idle.raises.join()

    def note(self, event: Event, *, took_effect: bool) -> None:
        """Note an applied event."""
        if took_effect:
            if not self._took_effect:
                self._context.idle.raises.join()
            self._took_effect = True
            self._touched |= find_names(event)

    def must_precede(self, event: Event) -> bool:
        """Whether the position must be raised before ``event``, which creates, drops or renames something."""
        return depends_on(event, self._touched | self._context.tables.unproven.tables())

    def is_due(self) -> bool:
        """Whether the target's position must be raised before the end of a transaction, or at the end of a
        batch.
        """
        is_new = self._took_effect and self._context.target_position.written is None
        return is_new or self._lags(TARGET_LAG_S) or self._lacks_entries() or self._is_old()

    def is_due_at_rest(self) -> bool:
        """Whether the target's position must be raised although there is nothing to apply."""
        return self._lags(0.0) or self._lacks_entries() or self._is_old()

    def _lags(self, interval_s: float) -> bool:
        """Whether it is the policy's turn to write the position that its own events have raised."""
        return self._took_effect and self._context.idle.raises.may_take(
            self._clock(), self._raised_s, interval_s=interval_s
        )

    def _lacks_entries(self) -> bool:
        """Whether entries of tables are not on the target yet."""
        return not self._context.target_position.has(self._recorded.to_parameters())

    def _is_old(self) -> bool:
        """Whether it is the policy's turn to write the position although no event of the policy has raised
        it.
        """
        return (
            not self._took_effect
            and self._recorded.applied != self._context.target_position.written
            and self._context.idle.positions.may_take(
                self._clock(), self._raised_s, interval_s=TARGET_POSITION_S
            )
        )

    def raise_position(self) -> None:
        """Record the state, then raise the target's position to the recorded one."""
        self._prove()
        self._recorded.record()
        event_id, position = self._recorded.applied, self._context.target_position
        if position.written is None or position.written < event_id or self._lacks_entries():
            failpoint("replay.before-last-id")
            position.advance(event_id, self._recorded.to_parameters())
            failpoint("replay.after-last-id")
        turns = self._context.idle.raises if self._took_effect else self._context.idle.positions
        turns.take(self._clock())
        self._note_raised()

    def raise_now(self) -> None:
        """Raise the position without waiting for a turn, unless it is up to date."""
        if self._took_effect or self._lacks_entries():
            self.raise_position()

    def close(self) -> None:
        """Release the turns of this policy."""
        self._note_raised()

    def _note_raised(self) -> None:
        if self._took_effect:
            self._context.idle.raises.leave()
        self._raised_s, self._took_effect = self._clock(), False
        self._touched.clear()

    def record_before(self, event_id: int) -> None:
        """Record that all events before the given one, the end of a transaction, are applied;
        on the target too if that is due.
        """
        assert self._recorded.applied < event_id, (self._recorded.applied, event_id)
        if self.is_due():
            self.raise_position()
        else:
            self._recorded.record()
