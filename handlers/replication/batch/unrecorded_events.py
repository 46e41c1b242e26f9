"""What was applied since the position was recorded, and before which events it must be recorded.

After a crash, the events since the recorded position are applied again. Three kinds of pairs must not be repeated together:

* an event that creates, drops or renames a table, and an earlier event of one of its names: repeated, the earlier one would find another
  table, or none;
* such an event and a later one of one of its names, for the same reason;
* two alterations of one object: readers would see the state after the first one again (``find_alterations``).

So the position is recorded between the two. Events of other tables do not matter: a hundred tables that are created one after the other need one
record. Events that create or drop the database, and functions, are repeated alone. The end of a transaction may concern any table here; the position
is recorded before each of them anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from handlers.events import ConstraintDropped, ConstraintsAdded, TxnAborted, TxnCommitted
from handlers.replication.policy.renames import are_undone, find_names, needs_checkpoint


if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from handlers.events import Event
    from handlers.replication.policy.renames import Alteration


_CONSTRAINTS: Final = (ConstraintsAdded, ConstraintDropped)
"""A foreign key concerns a second table, which the event does not name in the same way."""


class UnrecordedEvents:
    """The events since the last record, as far as it matters for the next one."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._changed_names: set[str] = set()
        self._altered: set[Alteration] = set()
        self._concerns_all = False

    def clear(self) -> None:
        """Note that the position was recorded."""
        self._names.clear()
        self._changed_names.clear()
        self._altered.clear()
        self._concerns_all = False

    def add(self, event: Event, altered: AbstractSet[Alteration]) -> None:
        """Note an event that was applied; ``altered`` is what it alters, together with the events that were joined to it."""
        names = find_names(event)
        self._names |= names
        self._altered |= altered
        if needs_checkpoint(event):
            self._changed_names |= names
        self._concerns_all |= isinstance(event, (TxnCommitted, TxnAborted, *_CONSTRAINTS))

    def must_precede(self, event: Event, altered: AbstractSet[Alteration]) -> bool:
        """Whether the position must be recorded before ``event``, which alters ``altered``."""
        if isinstance(event, _CONSTRAINTS) and self._changed_names:
            return True
        names = find_names(event)
        if not self._changed_names.isdisjoint(names):
            return True
        if needs_checkpoint(event):
            return not names or self._concerns_all or not self._names.isdisjoint(names)
        return are_undone(altered, self._altered)


def is_repeated_alone(event: Event) -> bool:
    """Whether the position is recorded right after the event, because it concerns no table by its name."""
    return needs_checkpoint(event) and not find_names(event)
