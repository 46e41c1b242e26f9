"""Crossing a gap: events that were removed from the log and from the topic before a policy applied them.

It is unknown what the lost events changed, so every table of the policy is loaded again, and following continues after the
newest event of the source. The order matters as in a bootstrap: the event id is read first, and the tables are listed afterwards.

1. Read the source's current event id L.
2. Renew the target database, and make all tables wait for a load: those of the source, and those that only the target
   has, which the load drops.
3. Record the position L in the same store transaction as the loads, then write it to the target.

Transactions that ended within the gap are aborted on the target by the reconciliation, because the source no longer has them
open. Those that still run are ended by their own events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from state.errors import InvalidRequest


if TYPE_CHECKING:
    from handlers.replication.context import Context


@dataclass(frozen=True, slots=True)
class CrossedGap:
    """A gap that was crossed: events after ``after`` up to ``upto`` were not applied, and the tables are loaded instead."""

    after: int
    upto: int
    tables: tuple[str, ...]


def require_gap(context: Context, position: int) -> None:
    """Raise InvalidRequest if the event after ``position`` can still be read from the source's log, or does not exist yet."""
    current = context.source.current_event_id()  # read first, so that no later event can count as lost
    events = context.source.next_events(position, 1)
    if current > position and (not events or events[0].eventId != position + 1):
        return
    raise InvalidRequest(
        "the policy has no gap: the next event can be read",
        policy=context.policy.name,
        position=position,
        source_event_id=current,
        hint=f"To load tables again, run 'tideline verify {context.policy.name} --repair'.",
    )
