"""The points within a batch that record the position: before and after which events.

After a crash, replay applies the events since the recorded position again. Three kinds of pairs must not
repeat together:

* an event that creates, drops or renames a table, and an earlier event of one of its names: repeated, the
  earlier one would find another table, or none;
* such an event and a later one of one of its names, for the same reason;
* two alterations of one object: readers would see the state after the first one again (``find_alterations``).

Replay therefore records the position between the two. Events of other tables do not matter: creating a
hundred tables in a row needs one record. Events that create or drop the database or functions must repeat
alone, so replay records the position after them, too. The end of a transaction may concern any table; the
position is always recorded before it. Further records follow when a table is quarantined or released, and
after a number of events or a time (``position.progress``).
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from handlers.events import ConstraintDropped, ConstraintsAdded, Event, TxnAborted, TxnCommitted
from handlers.replication.context import Context
from handlers.replication.policy.renames import Alteration, are_undone, find_names, needs_checkpoint
from handlers.replication.position.progress import RecordedPosition, TargetProgress


_CONSTRAINTS: Final = (ConstraintsAdded, ConstraintDropped)
"""A foreign key concerns a second table, which the event names in another field."""


class RecordPoints:
    """Records the position of one policy within its batches. Used by the projection's thread."""

    def __init__(self, context: Context, recorded: RecordedPosition, target_progress: TargetProgress) -> None:
        self._tables = context.tables
        self._recorded = recorded
        self._target_progress = target_progress
        self._unrecorded = UnrecordedEvents()
        recorded.subscribe(lambda _event_id: self._unrecorded.clear())

    def record_before(self, event: Event, altered: AbstractSet[Alteration]) -> None:
        """Record the position before an event that must not repeat with those since the last record."""
        if needs_checkpoint(event) and self._target_progress.must_precede(event):
            self._target_progress.raise_position()
        elif self._unrecorded.must_precede(event, altered):
            self._recorded.record()

    def note(self, event: Event, altered: AbstractSet[Alteration]) -> None:
        """Note an applied event; ``altered`` are the alterations of it and of the events joined to it."""
        self._unrecorded.add(event, altered)

    def record_after(self) -> None:
        """Record the position if the events up to it require that."""
        is_unsaved = self._tables.quarantine.unsaved or self._tables.loads.unsaved
        if self._unrecorded.is_repeated_alone or is_unsaved or self._recorded.is_due():
            self._recorded.record()


class UnrecordedEvents:
    """The facts about the events since the last record that decide when the next one is due."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._changed_names: set[str] = set()
        self._altered: set[Alteration] = set()
        self._concerns_all = False
        self.is_repeated_alone = False
        """Whether the last event names no table, so that no other event may repeat with it."""

    def clear(self) -> None:
        """Note a record of the position."""
        self._names.clear()
        self._changed_names.clear()
        self._altered.clear()
        self._concerns_all = self.is_repeated_alone = False

    def add(self, event: Event, altered: AbstractSet[Alteration]) -> None:
        """Note an applied event and its alterations."""
        names = find_names(event)
        self._names |= names
        self._altered |= altered
        if needs_checkpoint(event):
            self._changed_names |= names
            self.is_repeated_alone = not names
        self._concerns_all |= isinstance(event, (TxnCommitted, TxnAborted, *_CONSTRAINTS))

    def must_precede(self, event: Event, altered: AbstractSet[Alteration]) -> bool:
        """Whether a record of the position must precede ``event``, which alters ``altered``."""
        if isinstance(event, _CONSTRAINTS) and self._changed_names:
            return True
        names = find_names(event)
        if not self._changed_names.isdisjoint(names):
            return True
        if needs_checkpoint(event):
            return not names or self._concerns_all or not self._names.isdisjoint(names)
        return are_undone(altered, self._altered)
