"""Crossing a gap: events that log and topic lost before a policy applied them.

The changes of the lost events are unknown. So every table of the policy gets a load, and following continues
after the newest event of the source. The order matters as in a bootstrap: read the event id first, and list
the tables afterwards.

1. Read the source's current event id L.
2. Renew the target database, and make all tables wait for a load: those of the source, and those that only
   the target has, which the load drops.
3. Record the position L in the same store transaction as the loads, then write it to the target.

The reconciliation aborts transactions on the target that ended within the gap, because the source no longer
has them open. Those that still run end by their own events.
"""

from __future__ import annotations

from dataclasses import dataclass

from handlers.replication.context import Context
from handlers.replication.effects import functions
from handlers.replication.effects.databases import list_tables_to_load, renew_database
from handlers.replication.loading.follower import LoadFollower
from handlers.replication.position.progress import RecordedPosition
from state.errors import InvalidRequest
from state.event_log.positions import Position


@dataclass(frozen=True, slots=True)
class CrossedGap:
    """A crossed gap: loads of the tables replace the events after ``after`` up to ``upto``."""

    after: int
    upto: int
    tables: tuple[str, ...]


def cross_gap(context: Context, recorded: RecordedPosition, loads: LoadFollower) -> CrossedGap:
    """Skip the events of the gap after the recorded position; raise InvalidRequest if there is none."""
    after = recorded.applied
    _require_gap(context, after)
    upto = context.source.current_event_id()  # step 1
    renew_database(context)  # step 2
    tables = list_tables_to_load(context)
    functions.load(upto, context)
    recorded.resume(Position(upto), on_target=recorded.on_target)
    loads.request(tables, "gap")  # step 3
    context.target_position.advance(upto, recorded.to_parameters())
    return CrossedGap(after, upto, tables)


def _require_gap(context: Context, position: int) -> None:
    """Raise InvalidRequest unless the source's log has lost the event after ``position``."""
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
