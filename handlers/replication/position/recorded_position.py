"""The position of one policy: which events are applied, and which of these a restart knows to be applied.

Position, write-id mapping and entries of single tables become durable in one store transaction: every ``RECORD_EVENTS`` events or ``RECORD_S``
seconds, at the end of a batch, between events that must not be repeated together (``batch.unrecorded_events``), and as soon as a table is
quarantined or released. The last is necessary because the next commit may raise ``repl.last.id`` past that event, and a restart would then consider
the event applied.

The recorded position is never inside an event: the write parts of a commit are only kept in memory until the commit itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from handlers.failpoints import failpoint
from state.positions import POSITION_KEY, Position


if TYPE_CHECKING:
    from collections.abc import Callable

    from handlers.events import Event
    from handlers.replication.context import Context
    from handlers.replication.position.target_claim import TargetClaim
    from state.store import Store


RECORD_EVENTS: Final = 100
RECORD_S: Final = 5.0
"""The position is recorded within a batch after so many events, or after the first event that ends so long after the last record. A
restart repeats at most these."""

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
        self._unrecorded_events = 0
        self._recorded_s = clock()
        self.current = Position(0)
        self.on_target = -1
        """The target's ``repl.last.id`` when the policy was opened; events up to it are not applied again."""
        self._subscribers: list[Callable[[int], None]] = []

    def subscribe(self, notify: Callable[[int], None]) -> None:
        """Call ``notify`` after each record with the last event that it says is applied."""
        self._subscribers.append(notify)

    @property
    def applied(self) -> int:
        """The last event whose parts are all applied."""
        return self.current.applied_event_id

    @property
    def reached(self) -> int:
        """The last event that is applied here or on the target."""
        return max(self.applied, self.on_target)

    def find_time_s(self) -> int | None:
        """Return the time of the last applied event at the source (Unix time) if it is known."""
        stored = self._store.get(APPLIED_TIME_KEY)
        return self._time_s if stored is None else int(stored)

    def begin_batch(self) -> None:
        """Measure ``RECORD_S`` from now on."""
        self._recorded_s = self._clock()

    def pass_event(self, event: Event) -> None:
        """Note that ``event`` is applied."""
        self.current = Position(event.event_id, event.part, event.parts)
        self._time_s = event.time_s
        self._unrecorded_events += 1

    def is_due(self) -> bool:
        """Whether so much was applied since the last record that the next one is due."""
        return self._unrecorded_events >= RECORD_EVENTS or self._clock() - self._recorded_s >= RECORD_S

    def record(self) -> None:
        """Write position, write-id mapping and entries together; an event counts once all its parts are applied."""
        done = Position(self.applied)
        failpoint("replay.before-position")
        with self._store.transaction() as txn:
            self._context.tables.flush(txn)
            self._claim.record(txn)
            txn.put(POSITION_KEY, done.to_bytes())
            if self._time_s is not None:
                txn.put(APPLIED_TIME_KEY, str(self._time_s).encode())
        self._unrecorded_events, self._recorded_s = 0, self._clock()
        for notify in self._subscribers:
            notify(done.event_id)
        failpoint("replay.after-position")
